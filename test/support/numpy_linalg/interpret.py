"""Runs the blocks of a body, op by op."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from torch_mlir import ir

from numpy_linalg import tensors
from numpy_linalg.control import branch, for_loop, parallel_loop
from numpy_linalg.elements import constant, has_shape
from numpy_linalg.generic import Generic
from numpy_linalg.ownership import Ownership
from numpy_linalg.scalars import scalar_function

Handler = Callable[[ir.Operation, Sequence[Any]], list[Any]]
_TERMINATORS = ("scf.yield", "tensor.yield", "rtask.yield", "func.return")
_CAST = "builtin.unrealized_conversion_cast"


class Interpreter:
    """Executes ops. constants: arrays of dense_resource by key. rng: orders what has no order.

    handlers: of more ops, by name; each makes the results from the op and its operands.
    """

    def __init__(
        self,
        constants: Mapping[str, np.ndarray],
        rng: np.random.Generator,
        handlers: Mapping[str, Handler] | None = None,
    ) -> None:
        self._constants, self._rng = dict(constants), rng
        self._generics: dict[ir.Operation, Generic] = {}
        self._values: dict[ir.Value, Any] = {}
        self._ownership = Ownership()
        self._handlers: dict[str, Handler] = {
            "arith.constant": self._constant,
            "bufferization.alloc_tensor": _single(tensors.empty),
            "gpu.barrier": lambda op, v: [],  # a point is computed as a whole
            "linalg.fill": _filled,
            "rtask.stage": lambda op, v: list(v),
            "scf.for": lambda op, v: for_loop(op, v, self.run),
            "scf.forall": lambda op, v: parallel_loop(op, v, self.run, self._rng),
            "scf.if": lambda op, v: branch(op, v, self.run),
            "tensor.cast": lambda op, v: list(v),
            "tensor.collapse_shape": _single(tensors.collapse_shape),
            "tensor.concat": _single(tensors.concat),
            "tensor.dim": _single(tensors.dim),
            "tensor.empty": _single(tensors.empty),
            "tensor.expand_shape": _single(tensors.expand_shape),
            "tensor.extract": lambda op, v: [tensors.element(*v)],
            "tensor.extract_slice": _single(tensors.extract_slice),
            "tensor.insert": lambda op, v: [tensors.inserted_element(*v)],
            "tensor.insert_slice": self._insert_slice,
            "tensor.pad": self._pad,
            _CAST: _packed,
            **(handlers or {}),
        }

    def run(self, block: ir.Block, arguments: Sequence[Any]) -> list[Any]:
        """What the terminator of a block takes, for values of the block's arguments.

        Of scf.forall.in_parallel: its ops, each with the values of its operands.
        """
        self._values.update(zip(block.arguments, arguments, strict=True))
        for view in block.operations:
            op = view.operation
            if op.name == "scf.forall.in_parallel":
                inserts = [v.operation for v in op.regions[0].blocks[0].operations]
                return [(insert, self._operands(insert)) for insert in inserts]
            operands = self._operands(op)
            self._ownership.use(op, operands)
            if op.name in _TERMINATORS:
                return operands
            for result, value in zip(op.results, self._execute(op, operands), strict=True):
                self._values[result] = _checked(op, result.type, value)
        raise ValueError("a block without a terminator")

    def value(self, value: ir.Value) -> Any:
        """What an op that was executed has made."""
        return self._values[value]

    def _operands(self, op: ir.Operation) -> list[Any]:
        return [self._values[value] for value in op.operands]

    def _execute(self, op: ir.Operation, operands: list[Any]) -> list[Any]:
        name = op.name
        if name in self._handlers:
            return self._handlers[name](op, operands)
        if name.startswith("linalg."):
            if op not in self._generics:
                self._generics[op] = Generic(op)
            return self._generics[op].run(operands, self._values.__getitem__)
        function = scalar_function(op)
        if function is None:
            raise NotImplementedError(name)
        with np.errstate(all="ignore"):
            return [np.asarray(function(*operands))]

    def _constant(self, op: ir.Operation, operands: Sequence[Any]) -> list[Any]:
        return [constant(op.attributes["value"], op.result.type, self._constants)]

    def _insert_slice(self, op: ir.Operation, operands: Sequence[Any]) -> list[Any]:
        into = operands[1] if self._ownership.has(operands[1]) else operands[1].copy()
        tensors.insert_slice(op, operands, into)
        self._ownership.add(into)
        return [into]

    def _pad(self, op: ir.Operation, operands: Sequence[Any]) -> list[Any]:
        """tensor.pad; its body is run once, for the coordinates of all elements."""
        source, widths = operands[0], tensors.pad_widths(op, operands)
        shape = [low + n + high for (low, high), n in zip(widths, source.shape, strict=True)]
        [value] = self.run(op.regions[0].blocks[0], list(np.indices(shape, sparse=True)))
        made = np.array(np.broadcast_to(value, shape))
        inside = [slice(a, a + n) for (a, _), n in zip(widths, source.shape, strict=True)]
        made[tuple(inside)] = source
        return [made]


def _single(function: Callable[[ir.Operation, Sequence[Any]], np.ndarray]) -> Handler:
    return lambda op, operands: [function(op, operands)]


def _filled(op: ir.Operation, operands: Sequence[Any]) -> list[Any]:
    scalar, out = operands
    return [np.full(out.shape, scalar, out.dtype)]


def _packed(op: ir.Operation, operands: Sequence[Any]) -> list[Any]:
    """Several tensors as a tuple, or the tensors of one."""
    return [tuple(operands)] if isinstance(op.results[0].type, ir.TupleType) else list(operands[0])


def _checked(op: ir.Operation, type_: ir.Type, value: Any) -> Any:
    """A result, which has the shape of its type."""
    if isinstance(type_, ir.RankedTensorType) and not has_shape(value, type_):
        raise ValueError(f"{op.name} makes a tensor {value.shape}, not {type_}")
    return value
