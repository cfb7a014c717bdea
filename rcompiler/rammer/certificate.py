"""The certificate of a schedule: what `rcompiler.checker` cannot find, and checks.

An EU (or queue) goes through segments: a barrier or waits, then runs and signals. Of each segment
the certificate says the turn in which one execution comes to it, and how many instructions of each
EU are over by then, in every execution. Queues of a dynamic program stand in lines, as in `lines`.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rcompiler.rammer.lines import in_lines
from rcompiler.rammer.order import happens_before
from rcompiler.rammer.program import Barrier, Instruction, Program, Wait

_LEVEL = 6  # of compression


@dataclass(frozen=True)
class Witness:
    """lines: per program the line of each queue, () of a static one. clocks: rows of int32 (turn,
    clock of each EU or line) of each segment, as differences, compressed.
    """

    lines: tuple[tuple[int, ...], ...]
    clocks: bytes


def certificate(programs: Sequence[Program]) -> Witness:
    """The certificate of programs. Raises ScheduleError (rule "deadlock")."""
    order = happens_before(programs)
    turns = {}
    step, last = 0, -1
    for program, eu, place, row in order.passed.T.tolist():
        step += row != last
        last = row
        turns[program, eu, place] = (step, row)
    base = [0] * order.eus
    lines: list[tuple[int, ...]] = []
    rows: list[tuple[int, int, int, int]] = []  # turn, row of clocks, EU, place
    before = 0
    for number, program in enumerate(programs):
        mine = _lines(program)
        lines.append(mine if program.dynamic else ())
        start = list(base)
        latest = before
        for line, queue in zip(mine, program.queues, strict=True):
            for first, waits in _segments(queue):
                place = start[line] + first + waits
                turn, row = (
                    turns.get((number, line, place - 1), (before, 0)) if waits else (before, 0)
                )
                if not waits:
                    row = int(order.bases[number])
                rows.append((turn, row, line, place))
                latest = max(latest, turn)
            start[line] += len(queue)
        base = start
        before = latest
    table = np.array(rows, np.int64).reshape(-1, 4)
    clocks = order.clocks[table[:, 1]] if len(rows) else np.zeros((0, order.eus), np.int32)
    clocks[np.arange(len(rows)), table[:, 2]] = table[:, 3]
    whole = np.concatenate([table[:, :1], clocks], axis=1).T.astype("<i4")
    steps = np.diff(whole, axis=1, prepend=np.int32(0)).astype("<i4")
    return Witness(tuple(lines), zlib.compress(steps.tobytes(), _LEVEL))


def _lines(program: Program) -> tuple[int, ...]:
    """The line of each queue; of a static program its EU."""
    if not program.dynamic:
        return tuple(range(program.eus))
    found = [0] * len(program.queues)
    for line, numbers in enumerate(in_lines(program).numbers):
        for number in numbers.tolist():
            found[number] = line
    return tuple(found)


def _segments(queue: Sequence[Instruction]) -> list[tuple[int, int]]:
    """(first instruction, waits and barriers at its begin) of each segment."""
    found: list[tuple[int, int]] = []
    before: type | None = None
    for place, step in enumerate(queue):
        kind = type(step)
        if before is None or kind is Barrier or (kind is Wait and before is not Wait):
            found.append((place, int(kind is Wait or kind is Barrier)))
        elif kind is Wait:
            found[-1] = (found[-1][0], found[-1][1] + 1)
        before = kind
    return found
