"""Which box of an operand a tile of loops reads, and where in it each step reads.

Of the loops d0 in [o0, o0 + n0), d1 in [o1, o1 + n1) the expression 2 * d0 + d1 reads the box
[2 * o0 + o1, + 2 * (n0 - 1) + n1), in it the element 2 * i0 + i1 of the tile's own steps i0, i1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from torch_mlir import ir

from rcompiler.linalg.affine import Linear
from rcompiler.linalg.values import integer, operations
from rcompiler.passes.tiles.indices import Indices, applied


class Steps(NamedTuple):
    """The steps of one loop in a tile: coordinates offset, offset + stride, ..., `size` of them."""

    offset: Linear
    size: Linear
    stride: int = 1


class Read(NamedTuple):
    """The coordinate offset + local(steps), with local from 0 up to extent - 1."""

    offset: Linear
    local: ir.AffineExpr
    extent: Linear


Reader = Callable[[Sequence[Steps], Indices], Read | None]


def reader_of(expression: ir.AffineExpr) -> Reader:
    """What says of any tile of loops how an indexing expression reads there: of none, if it reads
    no one box.

    The expression is taken apart once, since kernels have many tiles of the same op.
    """
    expression = expression.maybe_downcast()
    if isinstance(expression, ir.AffineDimExpr):
        return _dim_reader(expression)
    if isinstance(expression, ir.AffineConstantExpr):
        found = Read(Linear(expression.value), _number(0), Linear(1))
        return lambda loops, indices: found
    assert isinstance(expression, ir.AffineBinaryExpr)
    left_of, right_of = reader_of(expression.lhs), reader_of(expression.rhs)
    combine = _combiner(expression)

    def read(loops: Sequence[Steps], indices: Indices) -> Read | None:
        left, right = left_of(loops, indices), right_of(loops, indices)
        return None if left is None or right is None else combine(left, right, indices)

    return read


def _dim_reader(dim: ir.AffineDimExpr) -> Reader:
    position = dim.position

    def read(loops: Sequence[Steps], indices: Indices) -> Read:
        steps = loops[position]
        if steps.stride == 1:
            return Read(steps.offset, dim, steps.size)
        # a loop of one step stays in the map: MLIR finds the extents of loops there
        local = dim if steps.size == Linear(1) else dim * steps.stride
        return Read(steps.offset, local, (steps.size + -1) * steps.stride + 1)

    return read


def _combiner(expression: ir.AffineBinaryExpr) -> Callable[[Read, Read, Indices], Read | None]:
    """How an expression reads where both of its sides read one box."""
    if isinstance(expression, ir.AffineAddExpr):
        return lambda left, right, indices: Read(
            left.offset + right.offset, left.local + right.local, left.extent + right.extent + -1
        )
    if isinstance(expression, ir.AffineMulExpr):
        return lambda left, right, indices: _scaled(left, right.offset.constant)
    if isinstance(expression, ir.AffineFloorDivExpr):
        return lambda left, right, indices: _divided(
            left, right.offset.constant, indices, remainder=False
        )
    if isinstance(expression, ir.AffineModExpr):
        return lambda left, right, indices: _divided(
            left, right.offset.constant, indices, remainder=True
        )
    return lambda left, right, indices: None


def _scaled(read: Read, factor: int) -> Read | None:
    span = (read.extent + -1) * factor
    if factor >= 0:
        return Read(read.offset * factor, read.local * factor, span + 1)
    if not span.is_constant:
        return None
    # from the last step on, so that local coordinates stay positive
    local = read.local * factor + _number(-span.constant)
    return Read(read.offset * factor + span, local, span * -1 + 1)


def _divided(read: Read, divisor: int, indices: Indices, *, remainder: bool) -> Read | None:
    """The quotient of a read, or its remainder."""
    parts = read.offset.split(divisor, indices.ranges)
    if parts is None:
        if read.extent != Linear(1):
            return None
        return Read(indices.quotient(read.offset, divisor)[remainder], _number(0), Linear(1))
    whole, rest = parts
    last = indices.highest(rest + read.extent + -1)
    if last is not None and last < divisor:  # all in one panel
        inside = Read(rest, read.local, read.extent)
        return inside if remainder else Read(whole, _number(0), Linear(1))
    if not rest.is_constant:
        return None
    moved = read.local + _number(rest.constant)
    if remainder:
        return Read(Linear(), ir.AffineExpr.get_mod(moved, divisor), Linear(divisor))
    if not read.extent.is_constant:
        return None
    panels = (read.extent.constant - 1 + rest.constant) // divisor + 1
    return Read(whole, ir.AffineExpr.get_floor_div(moved, divisor), Linear(panels))


def _number(value: int) -> ir.AffineExpr:
    return ir.AffineExpr.get_constant(value)


class Positions:
    """The indices of whole loops, of those in a tile of them. It makes the IR of where the tile
    starts at the insertion point."""

    def __init__(self, loops: Sequence[Steps], indices: Indices) -> None:
        moved = [d for d, s in enumerate(loops) if s.offset != Linear() or s.stride != 1]
        self._starts = {d: indices.value(loops[d].offset) for d in moved}
        self._strides = [s.stride for s in loops]

    def of(self, index: ir.Value, dim: int) -> ir.Value:
        """The index of a loop of the whole op; index: in the tile."""
        if dim not in self._starts:
            return index
        step, start = ir.AffineExpr.get_dim(0), ir.AffineExpr.get_dim(1)
        map_ = ir.AffineMap.get(2, 0, [step * self._strides[dim] + start])
        return applied(map_, [index, self._starts[dim]])

    def shift(self, tiled: ir.Operation) -> None:
        """Let the body of an op on tiles see the indices of the whole op."""
        for op in [op for op in operations(tiled) if op.name == "linalg.index"]:
            with ir.InsertionPoint.after(op), op.location:
                position = self.of(op.result, integer(op, "dim"))
            if position != op.result:
                op.result.replace_all_uses_except(position, position.owner.operation)
