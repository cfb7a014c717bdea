"""The body of a linalg.generic on elements of 16 bits, computed in f32."""

from __future__ import annotations

from collections.abc import Callable

from torch_mlir import ir
from torch_mlir.dialects import arith, linalg, tensor

from rcompiler.linalg.element_types import BITS, element_name
from rcompiler.linalg.values import ops_of
from rcompiler.passes.halves.stored import rounds_as_asked
from rcompiler.passes.ir.clone import clone, remap


class WideBody:
    """Copies a body to the current insertion point; elements of one type become f32.

    What the model itself rounds is rounded as before: an arith.truncf with a rounding mode, and
    integers that become numbers of 16 bits. All other results are f32.
    """

    def __init__(self, element: ir.Type, tensors: Callable[[ir.Value], ir.Value]) -> None:
        """`tensors` gives what stands for a tensor from outside of the body."""
        self._element = element
        self._tensors = tensors
        self._f32 = ir.F32Type.get(element.context)
        self._mapped: dict[ir.Value, ir.Value] = {}
        self._wide: dict[ir.Value, ir.Value] = {}  # of new values of 16 bits

    def copy(self, block: ir.Block, arguments: list[ir.Value], kinds: list[ir.Type]) -> None:
        """Copy all ops of `block`, and yield elements of `kinds`."""
        self._mapped.update(zip(block.arguments, arguments, strict=True))
        *body, end = ops_of(block)
        for op in body:
            self._copy_op(op)
        pairs = zip(end.operands, kinds, strict=True)
        linalg.YieldOp([self._as_kind(value, kind) for value, kind in pairs])

    def _copy_op(self, op: ir.Operation) -> None:
        [result] = op.results
        if op.name == "tensor.extract":
            source, *at = op.operands
            places = [self._mapped.get(v, v) for v in at]
            self._mapped[result] = tensor.extract(self._tensors(source), places)
        elif op.name == "arith.constant" and result.type == self._element:
            number = ir.FloatAttr(op.attributes["value"]).value
            self._mapped[result] = arith.ConstantOp(self._f32, number).result
        elif rounds_as_asked(op):
            self._copy_conversion(op)
        elif op.name in ("arith.extf", "arith.truncf"):
            self._mapped[result] = self._cast(op.operands[0], result.type)
        else:
            self._copy_computing(op)

    def _copy_conversion(self, op: ir.Operation) -> None:
        """An op whose result has the type that it says."""
        [value] = op.operands
        own = {value: self._as_kind(value, value.type)}
        clone(op, own)
        self._mapped[op.results[0]] = own[op.results[0]]

    def _copy_computing(self, op: ir.Operation) -> None:
        """An op that computes: of f32, where it was of 16 bits."""
        own = {value: self._computed(value) for value in op.operands}
        copy = op.clone()
        remap(copy, own)
        if op.results[0].type == self._element:
            copy.results[0].set_type(self._f32)
        self._mapped[op.results[0]] = copy.results[0]

    def _computed(self, value: ir.Value) -> ir.Value:
        """A scalar as it is computed with."""
        kind = self._f32 if value.type == self._element else value.type
        return self._as_kind(value, kind)

    def _cast(self, value: ir.Value, kind: ir.Type) -> ir.Value:
        """An extension, or a rounding that nobody asked for, of what may be f32 by now."""
        return self._as_kind(value, self._f32 if kind == self._element else kind)

    def _as_kind(self, value: ir.Value, kind: ir.Type) -> ir.Value:
        """A scalar of the old body as one of a type of floats, or as it is."""
        value = self._mapped.get(value, value)
        if value.type == kind:
            return value
        if value.type == self._element:
            if value not in self._wide:
                self._wide[value] = arith.extf(self._f32, value)
            value = self._wide[value]
        if value.type == kind:
            return value
        widens = BITS[element_name(value.type)] < BITS[element_name(kind)]
        return (arith.extf if widens else arith.truncf)(kind, value)
