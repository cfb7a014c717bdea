"""Loops over the register tiles of a tile."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from torch_mlir import ir

from rcompiler.kernelgen.tiling import Tiling
from rcompiler.linalg.affine import Linear
from rcompiler.linalg.maps import dim_of
from rcompiler.linalg.values import defining
from rcompiler.passes.tiles.body import Values, loop
from rcompiler.passes.tiles.box import Box
from rcompiler.passes.tiles.indices import Indices
from rcompiler.passes.tiles.sources import Sources

# Puts a register tile into tensors: from where it lies in the tile, and the tensors so far.
Leaf = Callable[[Box, Values], Values]

_MOST_ABREAST = 4  # register tiles that one turn of a loop makes, as each is text and code


@dataclass(frozen=True)
class Nest:
    """Loops over the register tiles of a tile that lies at `origin` of its tensor.

    sums: whether they are sums, see `Tiling.cover`. periods: see `periods`; () for none.
    """

    indices: Indices
    tiling: Tiling
    origin: Sequence[Linear]
    sums: bool
    periods: Sequence[int] = ()

    @staticmethod
    def of(
        op: ir.Operation,
        indices: Indices,
        origin: Sequence[Linear],
        *,
        sums: bool,
        periods: Sequence[int] = (),
    ) -> Nest:
        """Of the tiles of an rtask.kernel, or of an rtask.stage in one."""
        return Nest(indices, Tiling.of_loops(op, (), ()), origin, sums, periods)

    def over(self, dims: Sequence[int], tile: Box, outs: Values, leaf: Leaf) -> Values:
        """Loops along `dims`, outermost first."""
        if not dims:
            return leaf(tile, outs)
        dim, *rest = dims

        def turn(at: Linear, size: int, outs: Values) -> Values:
            offsets, sizes = list(tile.offsets), list(tile.sizes)
            offsets[dim], sizes[dim] = at, Linear(size)
            return self.over(rest, Box.dense(offsets, sizes), outs, leaf)

        start, extent = tile.offsets[dim], tile.sizes[dim]
        if not extent.is_constant:
            first = self.origin[dim] + start

            def step(at: Linear, outs: Values) -> Values:
                return turn(at + self.origin[dim] * -1, 1, outs)

            bounds = self.indices.loop_bounds(first, first + extent)
            return loop(self.indices, bounds[0], 1, bounds[1], outs, step)
        cover = self.tiling.cover(extent.constant, dim, sums=self.sums)
        if cover == [(extent.constant, 1)]:
            return self.over(rest, tile, outs, leaf)
        position = start
        for size, count in cover:
            abreast = self._abreast(dim, start, size, count)
            end = position + size * count
            turns = end + -size * (count % abreast)

            def body(at: Linear, outs: Values, *, size: int = size, n: int = abreast) -> Values:
                for k in range(n):
                    outs = turn(at + size * k, size, outs)
                return outs

            if turns != position:
                outs = loop(self.indices, position, size * abreast, turns, outs, body)
            for k in range(count % abreast):
                outs = turn(turns + size * k, size, outs)
            position = end
        return outs

    def _abreast(self, dim: int, start: Linear, size: int, count: int) -> int:
        """How many register tiles a turn makes, so that each begins at a place that is known up to
        the multiples of a period.
        """
        period = self.periods[dim] if self.periods else 1
        abreast = period // math.gcd(period, size)
        parts = (self.origin[dim] + start).split(period, self.indices.ranges)
        known = parts is not None and parts[1].is_constant
        return abreast if known and 1 < abreast <= min(_MOST_ABREAST, count) else 1


def periods(sources: Sources, tile: ir.Value, rank: int) -> list[int]:
    """For each dim of a tile the least number of elements after which all quotients and remainders,
    by which it reads what is computed, begin anew; 1 where there are none.

        %y = linalg.generic {map (i, j) -> (i floordiv 2, j)} ins(%sums) -> tensor<8x4xf32>

    Two rows of %y are one of %sums. Three rows read a box of %sums whose shape depends on where
    they begin, up to multiples of two; so a loop over register tiles of three rows makes two of
    them a turn.
    """
    found = [1] * rank
    pending: list[tuple[ir.Value, tuple[int, ...]]] = [(tile, tuple(range(rank)))]
    seen: set[tuple[ir.Value, tuple[int, ...]]] = set()
    while pending:
        one = pending.pop()
        if one in seen or not _is_generic(one[0]):
            continue
        seen.add(one)
        value, dims = one
        op = value.owner.operation
        source = sources.of(op)
        if source.reduction_dims:
            continue
        # for each loop the dim of the tile that it goes along
        along = dict(zip(source.places[list(op.results).index(value)], dims, strict=True))
        along[-1] = -1
        for operand, map_ in zip(source.inputs, source.maps, strict=False):
            if not _is_generic(operand):
                continue  # in memory, where elements need no box
            for expression in map_.results:
                for number, period in _periods_of(expression):
                    if (dim := along.get(number, -1)) >= 0:
                        found[dim] = math.lcm(found[dim], period)
            pending.append((operand, tuple(along.get(d, -1) for d in map(dim_of, map_.results))))
    return found


def _is_generic(value: ir.Value) -> bool:
    op = defining(value)
    return op is not None and op.name == "linalg.generic"


def _periods_of(expression: ir.AffineExpr) -> Iterator[tuple[int, int]]:
    """(loop, period) of each quotient and remainder in an expression."""
    expression = expression.maybe_downcast()
    if not isinstance(expression, ir.AffineBinaryExpr):
        return
    yield from _periods_of(expression.lhs)
    yield from _periods_of(expression.rhs)
    if isinstance(expression, ir.AffineFloorDivExpr | ir.AffineModExpr):
        divisor = expression.rhs.maybe_downcast()
        if isinstance(divisor, ir.AffineConstantExpr):
            for number, factor in _factors(expression.lhs):
                yield number, divisor.value // math.gcd(divisor.value, factor)


def _factors(expression: ir.AffineExpr) -> Iterator[tuple[int, int]]:
    """(loop, factor) of each term of a sum; nothing of a quotient in it."""
    expression = expression.maybe_downcast()
    if isinstance(expression, ir.AffineDimExpr):
        yield expression.position, 1
    elif isinstance(expression, ir.AffineAddExpr):
        yield from _factors(expression.lhs)
        yield from _factors(expression.rhs)
    elif isinstance(expression, ir.AffineMulExpr):
        factor = expression.rhs.maybe_downcast()
        if isinstance(factor, ir.AffineConstantExpr):
            yield from ((n, own * factor.value) for n, own in _factors(expression.lhs))
