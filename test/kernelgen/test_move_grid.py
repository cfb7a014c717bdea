"""Which threads move which parts of the operands of a product, and how many a part may have."""

import itertools
import math

import pytest

from rcompiler.kernelgen.simt.move_grid import MoveGrid, ThreadBlock, move_grid
from rcompiler.kernelgen.simt.operand import Operand
from rcompiler.kernelgen.simt.product import Product


@pytest.mark.parametrize(
    ("along", "lines", "size", "by_steps", "grid", "rounds"),
    [
        # 36 runs of 8 + 4 instructions, 4 steps of 12: 480; 64 at a line: 40 runs, 8 steps: 576;
        # 16 at a line: 34 runs that touch two lines, 2 steps: 568, and 17 positions
        (258, 32, 4, False, MoveGrid(32, 8), (9, 4)),
        # whole warps at a line: 16 runs and 4 steps; 128 at a line have 16 steps to find
        (128, 32, 4, False, MoveGrid(32, 8), (4, 4)),
        # a line of 8 pieces for each 8 threads: 4 runs of 8 + 16, 1 step: 108;
        # 4 threads, half a line: 4 runs of 8 + 32, 2 steps: 184
        (8, 128, 16, True, MoveGrid(8, 32), (1, 4)),
        # a thread that reads one step of each position would know 64 positions
        (32, 512, 4, True, MoveGrid(8, 32), (4, 16)),
        # there are no fewer for 256 threads
        (8192, 4, 4, False, MoveGrid(256, 1), (32, 4)),
    ],
)
def test_grids_by_hand(along, lines, size, by_steps, grid, rounds):
    assert move_grid(ThreadBlock(256), along, lines, size, by_steps) == grid
    assert grid.rounds(along, lines) == rounds


@pytest.mark.parametrize(
    ("block", "grid"),
    [
        # a warp at a line: 16 runs of 8 + 4 and 4 steps of 12: 240; half of it: 16 of 8 + 8, 2: 280
        (ThreadBlock(256), MoveGrid(32, 8)),
        # it touches 4 short lines wherever it stands: what counts is the steps, of which there is 1
        (ThreadBlock(256, line=32), MoveGrid(8, 32)),
        # a line costs less: 16 runs of 8 + 1 and 4 steps: 192; of 8 + 2, 2: 184; of 8 + 4, 1: 204
        (ThreadBlock(256, schedulers=1), MoveGrid(16, 16)),
    ],
)
def test_the_device_decides_what_lines_cost(block, grid):
    assert move_grid(block, 128, 32, 4, False) == grid


@pytest.mark.parametrize("threads", [32, 96, 256])
@pytest.mark.parametrize(("along", "lines"), [(1, 1), (7, 40), (49, 32), (500, 8), (8, 33)])
@pytest.mark.parametrize("by_steps", [True, False])
def test_every_run_has_one_thread_and_few_hang_over(threads, along, lines, by_steps):
    grid = move_grid(ThreadBlock(threads), along, lines, 4, by_steps)
    assert grid.along * grid.lines == threads
    places, rows = grid.rounds(along, lines)
    ends = itertools.product(range(grid.along * places), range(grid.lines * rows))
    assert sum(run < along and line < lines for run, line in ends) == along * lines
    assert places * rows <= max(2 * math.ceil(along * lines / threads), 2)


def operand(positions: int, steps: int, *, by_steps=False, width=1, asynchronous=True) -> Operand:
    pitch = steps if by_steps else positions
    sizes, lines = ((positions,), positions), (by_steps, by_steps)
    return Operand(0, "f32", (0,), *sizes, *lines, steps, pitch, width, asynchronous, 2, 0)


def test_the_rest_of_a_reduction_is_moved_by_the_same_grid():
    """3 of 32 steps: of 8 threads that stand at lines, of steps, 3 move 9 runs each."""
    one = operand(258, 32)
    assert one.runs(32) == (258, 32) and one.runs(3) == (258, 3)
    assert one.moved(ThreadBlock(256), 32) == 36 and one.moved(ThreadBlock(256), 3) == 9
    turned = operand(258, 32, by_steps=True, width=4)
    assert turned.runs(32) == (8, 258) and turned.runs(3) == (0, 258)


@pytest.mark.parametrize(
    ("first", "second", "sums", "light"),
    [
        # 64 copies; 4 elements beside 64 sums
        (operand(512, 32), operand(32, 32, asynchronous=False), 64, True),
        (operand(512, 32), operand(32, 32), 64, False),  # 4 copies more
        (operand(544, 32), operand(32, 32, asynchronous=False), 64, False),
        (operand(544, 16), operand(32, 16, asynchronous=False), 64, True),
        # 16 elements beside 64 sums, in pieces of 4 or not, and not one more
        (operand(128, 32, asynchronous=False), operand(32, 32), 64, True),
        (operand(128, 32, width=4, asynchronous=False), operand(32, 32), 64, True),
        (operand(128, 32, asynchronous=False), operand(32, 32), 65, False),
        (operand(160, 32, asynchronous=False), operand(32, 32), 64, False),
    ],
)
def test_a_thread_has_registers_for_a_part(first, second, sums, light):
    """Of 256: 80 sums and fetched elements, 64 copies."""
    product = Product(None, (first, second), first.steps, (1, 16, 16), (1, 2, 2), (4, 4))
    assert product.is_light(sums, ThreadBlock(256)) is light
