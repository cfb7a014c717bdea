"""Loops over the register tiles of a tile."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch_mlir import ir

from rcompiler.kernelgen.tiling import Tiling
from rcompiler.linalg.affine import Linear
from rcompiler.passes.tiles.body import Values, loop
from rcompiler.passes.tiles.box import Box
from rcompiler.passes.tiles.indices import Indices

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
