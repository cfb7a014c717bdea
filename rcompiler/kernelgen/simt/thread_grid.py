"""Which threads of a block have which elements of a product that multiply-adds compute.

The result is batches of rows and columns: positions of the first and of the second operand. Threads
stand in a grid of the same three dims. A thread has runs of neighbours along rows and columns, each
as far from the last as the grid is wide: what the threads of a warp read at a time lies together,
and few accesses of 16 bytes feed many multiply-adds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from rcompiler.kernelgen.simt.move_grid import ThreadBlock

_RUNS = (4, 2, 1)  # neighbours of one thread, read as one
_ACCESS = 16  # bytes of the longest access of a thread


@dataclass(frozen=True)
class Extent:
    """Of a tile along one operand.

    positions: of one batch; by_steps: neighbours in shared memory are steps, so that four steps are
    read as one; item: bytes of an element.
    """

    positions: int
    by_steps: bool
    item: int


@dataclass(frozen=True)
class ThreadGrid:
    """shares: threads along batches, rows and columns; tiles: runs of a thread along them; runs:
    neighbours along rows and columns; lanes: threads of a warp along rows and columns.
    """

    shares: tuple[int, int, int]
    tiles: tuple[int, int, int]
    runs: tuple[int, int]
    lanes: tuple[int, int]

    @property
    def sums(self) -> int:
        """Of a thread, those that hang over included."""
        return math.prod(self.tiles) * math.prod(self.runs)

    def cost(self, block: ThreadBlock, sides: tuple[Extent, Extent]) -> tuple[float, float]:
        """Of a step, in cycles of a multiprocessor for each warp: what takes longest, then all. One
        warp reads a line where as many issue as there are schedulers.
        """
        reads, lines = 0.0, 0.0
        for side, tile, run, lanes in zip(
            sides, self.tiles[1:], self.runs, self.lanes, strict=True
        ):
            count = self.tiles[0] * tile * (run / 4 if side.by_steps else 1)
            width = _ACCESS if side.by_steps else run * side.item
            reads += count
            lines += count * max(lanes * width / block.line, 1)
        issued = (self.sums + reads) / block.schedulers
        return max(issued, lines), issued + lines


def thread_grid(block: ThreadBlock, batches: int, sides: tuple[Extent, Extent]) -> ThreadGrid:
    """The one whose threads take the least time for a step."""
    grids = _grids(block.threads, block.warp, batches, sides)
    return min(grids, key=lambda grid: grid.cost(block, sides))


def _grids(
    threads: int, warp: int, batches: int, sides: tuple[Extent, Extent]
) -> Iterator[ThreadGrid]:
    runs = [_runs(side) for side in sides]
    for batch, rows in ((b, r) for b in _parts(threads) for r in _parts(threads // b)):
        shares = (batch, rows, threads // batch // rows)
        for down in _parts(min(warp, rows * shares[2])):
            lanes = (down, min(warp, rows * shares[2]) // down)
            if rows % lanes[0] or shares[2] % lanes[1]:
                continue
            for run in ((a, b) for a in runs[0] for b in runs[1]):
                tiles = [-(-batches // batch)]
                for side, count, own in zip(sides, shares[1:], run, strict=True):
                    tiles.append(-(-side.positions // (count * own)))
                yield ThreadGrid(shares, (tiles[0], tiles[1], tiles[2]), run, lanes)


def _runs(side: Extent) -> list[int]:
    """How many neighbours a thread may have: rows that lie apart are read one by one."""
    if side.by_steps:
        return [1]
    fits = [n for n in _RUNS if side.positions % n == 0 and n * side.item <= _ACCESS]
    return fits or [1]


def _parts(number: int) -> list[int]:
    return [n for n in range(1, number + 1) if number % n == 0]
