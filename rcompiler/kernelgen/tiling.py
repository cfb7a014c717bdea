"""How a kernel is cut: the rTile of its tasks, and ranges of result coordinates."""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir

from rcompiler.linalg.affine import Linear
from rcompiler.linalg.values import integers


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
        register_tile, order = (integers(op, n) for n in ("register_tile", "order"))
        parts = None
        if "reduction_tile" in op.attributes:
            around, steps = integers(op, "reduction_tile")
            parts = around, steps
        return Tiling(grid, tile, register_tile, order, vector_dim, lanes, parts)


@dataclass(frozen=True)
class Range:
    """Coordinates [start, start + extent) of one result dim; extent None: up to the SSA bound
    `end`.
    """

    start: Linear
    extent: int | None
    end: Linear
