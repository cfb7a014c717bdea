"""Scale-out: smaller tiles for operators with fewer rTasks than execution units (§3.2).

Who runs which rTask is the scheduler's business.
"""

import math
from dataclasses import replace

from rcompiler.roller.osdi22.expression import Expression, Tile
from rcompiler.roller.osdi22.quantities import tasks
from rcompiler.roller.osdi22.search import RProgram


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
