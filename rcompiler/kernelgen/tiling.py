"""How a kernel is cut: the rTile of its tasks, and ranges of result coordinates."""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir

from rcompiler.linalg.affine import Linear
from rcompiler.linalg.values import integers
from rcompiler.roller.thread_tiles import step_cover


@dataclass(frozen=True)
class Tiling:
    """The rTile of a kernel over the dims of its first result.

    `reduction_tile`: how many loops of `order` are around the loop over parts of the reduction, and
    the steps of the outermost reduction dim in one part; None: the reduction is one part.
    """

    grid: tuple[int, ...]
    tile: tuple[int, ...]
    register_tile: tuple[int, ...]
    order: tuple[int, ...]
    vector_dim: int
    lanes: int
    reduction_tile: tuple[int, int] | None

    @staticmethod
    def of(kernel: ir.Operation) -> Tiling:
        return Tiling.of_loops(kernel, integers(kernel, "grid"), integers(kernel, "tile"))

    @staticmethod
    def of_loops(op: ir.Operation, grid: tuple[int, ...], tile: tuple[int, ...]) -> Tiling:
        """`grid` and `tile`, and the attributes of `op` on how the loops of a task are nested."""
        vector_dim, lanes = (
            ir.IntegerAttr(op.attributes[n]).value for n in ("vector_dim", "lanes")
        )
        register_tile = integers(op, "register_tile")
        order = integers(op, "order") if "order" in op.attributes else ()
        parts = None
        if "reduction_tile" in op.attributes:
            around, steps = integers(op, "reduction_tile")
            parts = around, steps
        return Tiling(grid, tile, register_tile, order, vector_dim, lanes, parts)

    def nested(self, rank: int) -> list[int]:
        """The dims of a result of that rank, that of the outermost loop first."""
        order = [d for d in self.order if d < rank]
        return order + [d for d in range(rank) if d not in order]

    def cover(self, extent: int, dim: int, *, sums: bool) -> list[tuple[int, int]]:
        """(size, count) of the register tiles that cover `extent` elements along a dim: whole ones,
        then what is left. Few sums do not hide how long each takes, so none are left over of them.
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
class Range:
    """Coordinates [start, start + extent) of one result dim; extent None: up to the SSA bound
    `end`.
    """

    start: Linear
    extent: int | None
    end: Linear


def lane_cover(extent: int, lanes: int) -> list[int]:
    """Vector widths, widest first, that cover `extent` exactly: a multi-size cover instead of
    padding.
    """
    widths, left, width = [], extent, max(lanes, 1)
    while left:
        if left >= width:
            widths.append(width)
            left %= width
        width //= 2
    return widths
