"""Kernels, of whole operators or of tasks, and functions of operators that kernels compute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from torch_mlir import ir

from numpy_linalg.elements import stored, tensor_dtype, unwritten
from numpy_linalg.interpret import Interpreter
from numpy_linalg.kernel import Arrays, Kernel
from rcompiler.dialects.uses import captures


def named_kernel(module: ir.Module, name: str | None = None) -> ir.Operation:
    """An rtask.kernel of a module, by its name; without one the only one that there is."""
    found = [view.operation for view in module.body.operations]
    found = [op for op in found if op.name == "rtask.kernel"]
    if name is not None:
        found = [op for op in found if ir.StringAttr(op.attributes["sym_name"]).value == name]
    [kernel] = found
    return kernel


def kernel_results(
    kernel: ir.Operation,
    operands: Arrays,
    constants: Mapping[str, np.ndarray] | None = None,
    seed: int = 0,
) -> list[np.ndarray]:
    """The results of an rtask.kernel, by its body.

    A body whose last argument is the number of a task is run for all tasks, in an order that
    `seed` decides, from results that nothing has been written to.

    Args:
        operands: of the operator, in order; integers with or without signs.
        constants: the arrays of dense_resource by key.

    Raises:
        IndexError, ValueError: the body takes or writes elements that are not there.
        NotImplementedError: an op that is not known here.
    """
    rng = np.random.default_rng(seed)
    body = Kernel(kernel, constants or {}, rng)
    inputs = [stored(array, t) for array, t in zip(operands, body.operands, strict=True)]
    if not body.is_task:
        return body.whole(inputs)
    outs = [unwritten(t.shape, tensor_dtype(t)) for t in map(ir.RankedTensorType, body.results)]
    for task in rng.permutation(ir.IntegerAttr(kernel.attributes["tasks"]).value):
        outs = body.task(inputs, outs, task)
    return outs


def function_results(
    module: ir.Module,
    inputs: Arrays,
    constants: Mapping[str, np.ndarray] | None = None,
    seed: int = 0,
) -> list[np.ndarray]:
    """The results of func.func @main of an S3 module: each operator by the first of its kernels.

    Args, Raises: as of `kernel_results`.
    """
    symbols = ir.SymbolTable(module.operation)

    def by_kernel(op: ir.Operation, _: Sequence[object]) -> list[object]:
        kernel = symbols[op.attributes["kernels"][0].value].operation
        operands = [interpreter.value(value) for value in captures(op)]
        found = kernel_results(kernel, operands, constants, seed)
        return [tuple(found)] if isinstance(op.results[0].type, ir.TupleType) else list(found)

    rng = np.random.default_rng(seed)
    interpreter = Interpreter(constants or {}, rng, {"rtask.operator": by_kernel})
    block = symbols["main"].operation.regions[0].blocks[0]
    types = [argument.type for argument in block.arguments]
    return interpreter.run(block, [stored(a, t) for a, t in zip(inputs, types, strict=True)])
