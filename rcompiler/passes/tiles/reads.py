"""Which box of an operand a tile of loops reads, and where in it each step reads.

Of the loops d0 in [o0, o0 + n0), d1 in [o1, o1 + n1) the expression 2 * d0 + d1 reads the box
[2 * o0 + o1, + 2 * (n0 - 1) + n1), in it the element 2 * i0 + i1 of the tile's own steps i0, i1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch_mlir import ir

from rcompiler.linalg.affine import Linear
from rcompiler.passes.tiles.indices import Indices


@dataclass(frozen=True)
class Steps:
    """The steps of one loop in a tile: coordinates offset, offset + stride, ..., `size` of them."""

    offset: Linear
    size: Linear
    stride: int = 1


@dataclass(frozen=True)
class Read:
    """The coordinate offset + local(steps), with local from 0 up to extent - 1."""

    offset: Linear
    local: ir.AffineExpr
    extent: Linear


def read_of(expression: ir.AffineExpr, loops: Sequence[Steps], indices: Indices) -> Read | None:
    """How an indexing expression reads in a tile of loops; None if it reads no one box there."""
    expression = expression.maybe_downcast()
    if isinstance(expression, ir.AffineDimExpr):
        steps, dim = loops[expression.position], ir.AffineExpr.get_dim(expression.position)
        # a loop of one step stays in the map: MLIR finds the extents of loops there
        local = dim if steps.size == Linear(1) else dim * steps.stride
        return Read(steps.offset, local, (steps.size + -1) * steps.stride + 1)
    if isinstance(expression, ir.AffineConstantExpr):
        return Read(Linear(expression.value), _number(0), Linear(1))
    assert isinstance(expression, ir.AffineBinaryExpr)
    left = read_of(expression.lhs, loops, indices)
    right = read_of(expression.rhs, loops, indices)
    if left is None or right is None:
        return None
    if isinstance(expression, ir.AffineAddExpr):
        extent = left.extent + right.extent + -1
        return Read(left.offset + right.offset, left.local + right.local, extent)
    factor = right.offset.constant
    if isinstance(expression, ir.AffineMulExpr):
        return _scaled(left, factor)
    if isinstance(expression, ir.AffineFloorDivExpr):
        return _divided(left, factor, indices, remainder=False)
    if isinstance(expression, ir.AffineModExpr):
        return _divided(left, factor, indices, remainder=True)
    return None


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
