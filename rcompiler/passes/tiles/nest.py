"""Loops over the register tiles of a tile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch_mlir import ir

from rcompiler.kernelgen.boxes import lane_cover, step_cover
from rcompiler.linalg.affine import Linear
from rcompiler.linalg.values import integers
from rcompiler.passes.tiles.body import Values, loop
from rcompiler.passes.tiles.box import Box
from rcompiler.passes.tiles.indices import Indices

# Puts a register tile into tensors: from where it lies in the tile, and the tensors so far.
Leaf = Callable[[Box, Values], Values]


@dataclass(frozen=True)
class RegisterTiling:
    """How loops over register tiles are nested, over the dims of a kernel's first result or of a
    stage: the attributes of the same names.
    """

    register_tile: tuple[int, ...]
    order: tuple[int, ...]
    vector_dim: int
    lanes: int

    @staticmethod
    def of(op: ir.Operation) -> RegisterTiling:
        """Of an rtask.kernel, or of an rtask.stage in one."""
        vector_dim, lanes = (
            ir.IntegerAttr(op.attributes[n]).value for n in ("vector_dim", "lanes")
        )
        return RegisterTiling(
            integers(op, "register_tile"), integers(op, "order"), vector_dim, lanes
        )

    def nested(self, rank: int) -> list[int]:
        """The dims of a result, that of the outermost loop first."""
        order = [d for d in self.order if d < rank]
        return order + [d for d in range(rank) if d not in order]

    def cover(self, extent: int, dim: int, *, sums: bool) -> list[tuple[int, int]]:
        """(size, count) of the register tiles that cover `extent`: whole ones, then what is left.

        Few sums do not hide how long each takes, so none are left over of them.
        """
        if dim != self.vector_dim:
            step = self.register_tile[dim] if dim < len(self.register_tile) else 1
            return step_cover(extent, step, even=sums)
        lanes = max(self.lanes, 1)
        step = self.register_tile[dim] // lanes * lanes  # whole vectors
        chunks, left = [], extent
        if step and extent >= step:
            chunks.append((step, extent // step))
            left %= step
        if left >= lanes:
            chunks.append((left // lanes * lanes, 1))
            left %= lanes
        return chunks + [(width, 1) for width in lane_cover(left, lanes // 2 or 1)]


@dataclass(frozen=True)
class Nest:
    """Loops over the register tiles of a tile that lies at `origin` of its tensor.

    sums: whether they are sums, see `RegisterTiling.cover`.
    """

    indices: Indices
    tiling: RegisterTiling
    origin: Sequence[Linear]
    sums: bool

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
        position = start
        for size, count in self.tiling.cover(extent.constant, dim, sums=self.sums):
            end = position + size * count

            def body(at: Linear, outs: Values, *, size: int = size) -> Values:
                return turn(at, size, outs)

            if count:
                outs = loop(self.indices, position, size, end, outs, body)
            position = end
        return outs
