"""Scale-out: rTasks over execution units, and smaller tiles for small operators (§3.2)."""

import math
from dataclasses import replace

from rcompiler.roller.osdi22.expression import Expression, Tile
from rcompiler.roller.osdi22.quantities import tasks
from rcompiler.roller.osdi22.search import RProgram
from rcompiler.roller.rtile import grid_of


def scale_out(tasks: int, units: int, cap: int | None = None) -> tuple[range, ...]:
    """rTasks per unit: near-equal runs over at most `cap` of `units` units, none of them idle.

    Roller does not assume that it owns the device: `cap` is what the scheduler gives it.
    """
    used = max(1, min(units, tasks, units if cap is None else cap))
    bounds = [tasks * unit // used for unit in range(used + 1)]
    return tuple(range(a, b) for a, b in zip(bounds, bounds[1:], strict=False))


def task_box(expr: Expression, program: RProgram, task: int) -> tuple[tuple[int, int], ...]:
    """[start, stop) per spatial axis of an rTask, numbered row-major; inside of the output."""
    sizes, tile = expr.sizes[: expr.spatial], program.shared[: expr.spatial]
    grid = grid_of(sizes, tile)
    box = []
    for size, step, count in zip(reversed(sizes), reversed(tile), reversed(grid), strict=True):
        task, position = divmod(task, count)
        box.append((position * step, min(size, (position + 1) * step)))
    return tuple(reversed(box))


def shrink(expr: Expression, program: RProgram, units: int) -> RProgram:
    """Smaller tiles until there is an rTask per unit, or nothing left to halve.

    Quirk (parity): every spatial axis is halved in each round, at all levels, whatever its score;
    the result is aligned no more. (The artifact does not end when there is nothing left to halve.)
    """
    while tasks(expr, program.shared) < units:
        halved = [
            axis < expr.spatial and program.shared[axis] > 1 for axis in range(len(program.shared))
        ]
        if not any(halved):
            return program
        program = replace(
            program,
            shared=_halve(program.shared, halved),
            register=_halve(program.register, halved),
        )
    return program


def _halve(tile: Tile, which: list[bool]) -> Tile:
    return tuple(
        math.ceil(size / 2) if now else size for size, now in zip(tile, which, strict=True)
    )
