"""Tensors kept with one axis blocked, [.., C, ..] as [.., ceil(C / lanes), .., lanes]."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import arith

from rcompiler.linalg.constants import scalar_number
from rcompiler.linalg.values import (
    bytes_of,
    defining,
    element_of,
    element_type,
    operations,
    shape_of,
)
from rcompiler.passes.blocking.padding_lanes import Numbers, finite
from rcompiler.passes.ir.tensor_ir import (
    block_axes,
    empty,
    fill,
    is_one_number,
    reshape,
    slice_low,
    transpose,
    type_like,
)


@dataclass(frozen=True)
class Blocked:
    """The blocked form of a tensor value.

    axis: the split dim of the logical tensor; channels: its logical extent; padding: what the
    lanes beyond `channels` can hold (see _padding_lanes), empty if there are none.
    """

    value: ir.Value
    axis: int
    channels: int
    padding: Numbers


class Layouts:
    """Which values of a function exist in blocked form, and conversions made on demand, once."""

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        self.blocked: dict[ir.Value, Blocked] = {}
        self._plain: dict[ir.Value, ir.Value] = {}
        self._packed: dict[tuple[ir.Value, tuple[int, ...]], ir.Value] = {}

    def plain(self, value: ir.Value) -> ir.Value:
        """The value in its logical shape."""
        found = self.blocked.get(value)
        if found is None:
            return value
        if value not in self._plain:
            self._plain[value] = self._unpack(found, shape_of(value))
        return self._plain[value]

    def _unpack(self, form: Blocked, shape: tuple[int, ...]) -> ir.Value:
        rank, axis = len(shape), form.axis
        order = [*range(axis + 1), rank, *range(axis + 1, rank)]
        whole = list(shape)
        whole[axis] = shape_of(form.value)[axis] * self.lanes
        return slice_low(reshape(transpose(form.value, order), whole), shape)

    def pack(self, value: ir.Value, *axes: int) -> ir.Value:
        """The value (made plain first) with ``axes`` blocked and zero-padded."""
        source = self.plain(value)
        if (source, axes) not in self._packed:
            self._packed[source, axes] = block_axes(source, axes, self.lanes)
        return self._packed[source, axes]

    def at(self, value: ir.Value, axis: int) -> Blocked | None:
        """The blocked form of a value if that axis is the blocked one."""
        found = self.blocked.get(value)
        return found if found is not None and found.axis == axis else None

    def operand(self, value: ir.Value, axis: int) -> Blocked:
        """The value blocked at ``axis``: as it is, recreated (empty, fill, splat), or packed."""
        form = self.at(value, axis)
        if form is not None:
            return form
        channels = shape_of(value)[axis]
        if value not in self.blocked and is_uniform(value):
            made, number = _recreated(value, self.shape(value, axis))
            padding = None if number is None else frozenset([float(number)])
            return Blocked(made, axis, channels, padding)
        return Blocked(self.pack(value, axis), axis, channels, frozenset([0.0]))

    def image(self, value: ir.Value, axis: int) -> Blocked:
        """Like ``operand``, with padding lanes that zero weights cancel."""
        form = self.operand(value, axis)
        exact = element_of(value)[0] == "i"  # zero times any integer is zero
        if form.channels % self.lanes and not exact and not finite(form.padding):
            return Blocked(self.pack(value, axis), axis, form.channels, frozenset([0.0]))
        return form

    def shape(self, value: ir.Value, axis: int) -> list[int]:
        """Shape of the blocked form."""
        shape = list(shape_of(value))
        shape[axis] = -(-shape[axis] // self.lanes)
        return [*shape, self.lanes]

    def define(self, old: ir.Value, new: ir.Value, axis: int, padding: Numbers) -> None:
        """Record that ``new`` is ``old`` with ``axis`` blocked.

        A last axis of a tensor of rank >= 3 is plain memory already: nothing is gained by keeping
        it split.
        """
        channels = shape_of(old)[axis]
        held = padding if channels % self.lanes else frozenset()
        self.blocked[old] = Blocked(new, axis, channels, held)
        if axis == len(shape_of(old)) - 1 and axis > 1:
            plain = self.plain(old)
            del self.blocked[old]
            old.replace_all_uses_with(plain)

    def use_plain(self, op: ir.Operation) -> None:
        """Make an op that stays, and the regions in it, read plain values."""
        for inner in [op, *operations(op)] if self.blocked else ():
            for i, operand in enumerate(inner.operands):
                if operand in self.blocked:
                    inner.operands[i] = self.plain(operand)

    # -- costs, in bytes that a conversion moves ------------------------------------------------
    def unpack_bytes(self, value: ir.Value) -> int:
        """Bytes to copy before the plain value can be read."""
        form = self.blocked.get(value)
        if form is None or value in self._plain:
            return 0
        return self.copy_bytes(value, form.axis)

    def pack_bytes(self, value: ir.Value, axis: int) -> int:
        """Bytes to copy before the value blocked at ``axis`` can be read; constants are free."""
        op = defining(value)
        constant = op is not None and op.name == "arith.constant"
        if constant or self.at(value, axis) or (value, (axis,)) in self._packed:
            return 0
        if value not in self.blocked and is_uniform(value):
            return 0
        return self.unpack_bytes(value) + self.copy_bytes(value, axis)

    def copy_bytes(self, value: ir.Value, axis: int) -> int:
        """Bytes of a copy between the plain and the blocked form; 0 where it is a reshape."""
        shape = shape_of(value)
        if shape[axis] % self.lanes == 0 and math.prod(shape[axis + 1 :]) == 1:
            return 0
        return bytes_of(value)


def _recreated(value: ir.Value, shape: list[int]) -> tuple[ir.Value, float | None]:
    """A tensor that `is_uniform` in another shape, and the number that it holds, if it is known."""
    op = defining(value)
    assert op is not None
    if op.name == "tensor.empty":
        return empty(shape, element_type(value)), None
    if op.name == "linalg.fill":
        return fill(op.operands[0], shape), scalar_number(op.operands[0])
    scalar, kind = op.attributes["value"].get_splat_value(), type_like(value, shape)
    number = scalar.value if isinstance(scalar, ir.FloatAttr) else None
    return arith.constant(kind, ir.DenseElementsAttr.get_splat(kind, scalar)), number


def is_uniform(value: ir.Value) -> bool:
    """Whether a tensor can be made again in any shape: empty, one scalar, a splat constant."""
    op = defining(value)
    return op is not None and (op.name in ("tensor.empty", "linalg.fill") or is_one_number(op))
