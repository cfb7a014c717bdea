"""rtask-round-tables: tables of weights whose rows are gathered, such as embeddings, in 16 bits.

Before:
    %t = arith.constant dense_resource<w_0123> : tensor<30522x768xf32>
    %y = linalg.generic ins(%ids : tensor<128xi64>) {
      %v = tensor.extract %t[%row, %column] : tensor<30522x768xf32>
      linalg.yield %v }
Option: to=bf16. After:
    %r = linalg.generic {arith.truncf} ins(%t) -> tensor<30522x768xbf16>
    %y = linalg.generic ins(%ids : tensor<128xi64>) {
      %n = tensor.extract %r[%row, %column] : tensor<30522x768xbf16>
      %v = arith.extf %n : bf16 to f32
      linalg.yield %v }
Each number is rounded once, to nearest, when the model is compiled, as rtask-round-factors does
with the weights of products; a gather reads 16 bits, and widens them in registers. The notes of
the module's context say what that did to each table.

Leaves alone: numbers that a body computes with, such as the thresholds of trees; numbers that are
gathered one by one; what is too small to be worth it; a table that something else reads as it is,
which would then be kept twice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith, tensor

from rcompiler.linalg.bodies import is_elementwise
from rcompiler.linalg.element_types import numpy_type
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.values import (
    bytes_of,
    defining,
    element_of,
    element_type,
    node_of,
    ops_of,
    shape_of,
)
from rcompiler.passes import Pass
from rcompiler.passes.constants.fold import resource_key
from rcompiler.passes.constants.model_context import context_of
from rcompiler.passes.ir.operators import bodies, top_level
from rcompiler.passes.products.rounding import rounded
from rcompiler.passes.rtask_round_factors import Shorter
from rcompiler.runtime.deferred import whole
from rcompiler.support.weight_errors import WeightError, weight_errors

_LEAST = 16 << 10  # bytes of a table in f32


@dataclass(frozen=True)
class RTaskRoundTables(Pass):
    """Let gathers read tables of weights that are rounded to 16 bits.

    Attributes:
        to: the type that is kept.
    """

    to: Shorter = "bf16"

    def run(self, module: ir.Operation) -> None:
        element = {"f16": ir.F16Type, "bf16": ir.BF16Type}[self.to].get(module.context)
        for op in (op for body in bodies(module) for op in ops_of(body)):
            gathers = _gathers(op.results[0], element) if _is_table(op) else []
            if gathers:
                _note(op, gathers, element)
                _read_rounded(op.results[0], gathers, element)


def _is_table(op: ir.Operation) -> bool:
    """Whether an op is a constant of f32 with rows, and not a small one."""
    if op.name != "arith.constant" or not isinstance(op.results[0].type, ir.RankedTensorType):
        return False
    table = op.results[0]
    return element_of(table) == "f32" and len(shape_of(table)) > 1 and bytes_of(table) >= _LEAST


def _gathers(table: ir.Value, element: ir.Type) -> list[ir.Operation]:
    """Each tensor.extract from a table; none if something reads it that is no gather of rows."""
    found = []
    for use in table.uses:
        reader = use.owner.operation
        if _moves_rows(reader):
            found.append(reader)
        elif not _rounds(reader, element):
            return []
    return found[::-1]  # the uses of a value are its last one first


def _moves_rows(op: ir.Operation) -> bool:
    """Whether an op is a tensor.extract along rows whose number is yielded as it is."""
    if op.name != "tensor.extract":
        return False
    column = defining(list(op.operands)[-1])
    ends = [use.owner.operation.name for use in op.results[0].uses]
    return column is not None and column.name == "linalg.index" and ends == ["linalg.yield"]


def _rounds(op: ir.Operation, element: ir.Type) -> bool:
    """Whether an op is an elementwise cast to a shorter type: weights of a product."""
    if op.name != "linalg.generic" or element_type(op.results[0]) != element:
        return False
    old = Generic(op)
    return is_elementwise(old) and [o.name for o in ops_of(old.block)[:-1]] == ["arith.truncf"]


def _read_rounded(table: ir.Value, gathers: list[ir.Operation], element: ir.Type) -> None:
    """Let each tensor.extract read the rounded table."""
    with ir.InsertionPoint.after(defining(table)), table.owner.location:
        shorter = rounded(table, element)
    for op in gathers:
        with ir.InsertionPoint(op), op.location:
            narrow = tensor.extract(shorter, list(op.operands)[1:])
            op.results[0].replace_all_uses_with(arith.extf(op.results[0].type, narrow))
        op.erase()


def _note(table: ir.Operation, gathers: list[ir.Operation], element: ir.Type) -> None:
    """What rounding does to a table, by the name of the first of its gathers."""
    context, dtype = context_of(table), numpy_type(element)
    array = context.arrays.get(resource_key(table.attributes["value"]) or "")
    if array is not None and dtype is not None:  # of a text without its file, none is there
        exact = whole(array)
        with np.errstate(over="ignore"):
            errors = weight_errors(exact, exact.astype(dtype))
        reader = node_of(top_level(gathers[0]))
        context.notes.append(f"in {element}: {WeightError(reader, exact.shape, *errors)}")
