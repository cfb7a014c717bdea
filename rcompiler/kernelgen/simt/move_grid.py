"""The threads of a block, and which of them move which runs of an operand to shared memory.

Lines of runs stand side by side, and threads in a grid along them. Where a thread's runs lie is
then the sum of what its lines and what its places in a line say: few values, whatever the number of
its runs. Those of the steps are found anew for each part, so what a thread keeps in registers all
the time is those of its positions.
"""

from __future__ import annotations

from dataclasses import dataclass

# Instructions of a thread: for a run, and for a step, which is found for every part. A line of
# memory that a warp touches takes as many as there are schedulers: one of them waits for it.
_RUN, _STEP = 8, 12
# Of a thread, which knows of each where it lies and two coordinates that padding is told by: 48
# registers beside 64 sums and 64 elements that it multiplies.
_MOST_POSITIONS = 16


@dataclass(frozen=True)
class ThreadBlock:
    """threads: of the block; warp: those that take every step together. Of the EU: line: bytes that
    its memory, shared or behind, gives a warp at a time; schedulers: warps that issue at a time.
    """

    threads: int
    warp: int = 32
    line: int = 128
    schedulers: int = 4


@dataclass(frozen=True)
class MoveGrid:
    """along: threads at a line; lines: that threads stand at."""

    along: int
    lines: int

    def rounds(self, along: int, lines: int) -> tuple[int, int]:
        """Runs along a line, and lines, of a thread, in a part of `along` runs on each of `lines`
        lines.
        """
        return -(-along // self.along), -(-lines // self.lines)


def move_grid(block: ThreadBlock, along: int, lines: int, size: int, by_steps: bool) -> MoveGrid:
    """For a part of `along` runs of `size` bytes on each of `lines` lines: the grid of the block
    that takes least instructions, of those whose threads know few positions. by_steps: the runs of
    a line are steps, not positions.
    """

    def cost(grid: MoveGrid) -> tuple[int, int, int]:
        places, rows = grid.rounds(along, lines)
        steps, positions = (places, rows) if by_steps else (rows, places)
        side_by_side = min(grid.along, along, block.warp)
        touched = -(-block.warp // grid.along) * -(-side_by_side * size // block.line)
        moved = places * rows * (_RUN + block.schedulers * touched)
        return max(positions, _MOST_POSITIONS), moved + steps * _STEP, positions

    threads = block.threads
    grids = (MoveGrid(n, threads // n) for n in range(threads, 0, -1) if threads % n == 0)
    return min(grids, key=cost)
