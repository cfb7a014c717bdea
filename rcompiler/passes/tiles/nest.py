"""Loops over the register tiles of a tile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch_mlir import ir

from rcompiler.kernelgen.affine import Linear
from rcompiler.kernelgen.boxes import lane_cover, step_cover
from rcompiler.kernelgen.region import integers
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


def over_register_tiles(
    indices: Indices,
    tiling: RegisterTiling,
    dims: Sequence[int],
    tile: Box,
    outs: Values,
    leaf: Leaf,
    *,
    sums: bool,
) -> Values:
    """Loops along `dims`, outermost first, over the register tiles of `tile`; sums: whether they
    are sums, see `RegisterTiling.cover`.
    """
    if not dims:
        return leaf(tile, outs)
    dim, *rest = dims

    def turn(at: Linear, size: int, outs: Values) -> Values:
        offsets, sizes = list(tile.offsets), list(tile.sizes)
        offsets[dim], sizes[dim] = offsets[dim] + at, Linear(size)
        inner = Box.dense(offsets, sizes)
        return over_register_tiles(indices, tiling, rest, inner, outs, leaf, sums=sums)

    extent = tile.sizes[dim]
    if not extent.is_constant:
        return loop(indices, 0, 1, extent, outs, lambda at, outs: turn(at, 1, outs))
    start = 0
    for step, count in tiling.cover(extent.constant, dim, sums=sums):
        end = start + step * count

        def body(at: Linear, outs: Values, *, step: int = step) -> Values:
            return turn(at, step, outs)

        if count:
            outs = loop(indices, start, step, Linear(end), outs, body)
        start = end
    return outs
