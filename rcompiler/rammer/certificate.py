"""The certificate of a schedule: what `rcompiler.checker` cannot find, and checks.

An EU (or queue) goes through segments: waits, then runs and signals; a barrier is a signal, and a
wait for those of all EUs. Of each segment the certificate says the turn in which one execution
comes to it, and how many runs of each EU are over by then, in every execution. Queues of a dynamic
program stand in lines, as in `lines`; one EU alone comes to their segments in turn.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rcompiler.rammer.lines import in_lines
from rcompiler.rammer.order import happens_before
from rcompiler.rammer.program import Barrier, Instruction, Program, Run, Wait

_LEVEL = 6  # of compression


@dataclass(frozen=True)
class Witness:
    """lines: per program the line of each queue, () of a static one. clocks: how many bytes
    a clock has, and then, compressed, the differences of words of 8 bytes, which wrap: the turns of
    all segments; then their clocks in the order of turns, in which few of them change, as many to a
    word as there is room for, the first words of all segments, their second ones, and so on. The
    first clock of a segment is none: a reader writes its turn there.
    """

    lines: tuple[tuple[int, ...], ...]
    clocks: bytes


def certificate(programs: Sequence[Program]) -> Witness:
    """The certificate of programs. Raises ScheduleError (rule "deadlock")."""
    order = happens_before(programs)
    turns = {}  # behind each wait and barrier, counted in its program; and the row of its clocks
    step, last = 0, (-1, -1)
    for program, eu, place, row in order.passed.T.tolist():
        step = (step if program == last[0] else 0) + (row != last[1])
        last = program, row
        turns[program, eu, place] = (step, row)
    base = [0] * order.eus  # instructions of each line so far
    lines: list[tuple[int, ...]] = []
    rows: list[tuple[int, int, int]] = []  # turn, row of clocks, line
    runs: list[list[int]] = [[0] for _ in base]  # before each instruction of each line
    begins: list[int] = []  # runs of its line before each segment
    before = 0
    for number, program in enumerate(programs):
        mine = _lines(program)
        lines.append(mine if program.dynamic else ())
        start, latest = list(base), before
        for line, queue in zip(mine, program.queues, strict=True):
            for first, wait in _segments(queue):
                step, row = 0, int(order.bases[number])
                if wait >= 0:
                    step, row = turns[number, line, start[line] + wait]
                turn = latest + 1 if program.dynamic else before + step
                rows.append((turn, row, line))
                begins.append(runs[line][-1] + first)
                latest = max(latest, turn)
            start[line] += len(queue)
            for instruction in queue:
                runs[line].append(runs[line][-1] + isinstance(instruction, Run))
        base, before = start, latest
    table = np.array(rows, np.int64).reshape(-1, 3)
    clocks = order.clocks[table[:, 1]] if len(rows) else np.zeros((0, order.eus), np.int32)
    for line, counts in enumerate(runs):
        clocks[:, line] = np.array(counts, np.int32)[clocks[:, line]]
    clocks[np.arange(len(rows)), table[:, 2]] = begins
    when = table[:, 0]
    most = max([when.max(initial=0), *(counts[-1] for counts in runs)])
    size = 2 if most < (1 << 16) - 1 else 4  # bytes; one run further is a clock, too
    padded = np.zeros((len(rows), -(-(1 + order.eus) * size // 8) * 8 // size), f"<u{size}")
    padded[:, 1 : 1 + order.eus] = clocks[np.argsort(when, kind="stable")]
    words = np.concatenate([when[None].astype("<u8"), padded.view("<u8").T])
    steps = np.diff(words, axis=1, prepend=np.uint64(0))
    return Witness(tuple(lines), bytes([size]) + zlib.compress(steps.tobytes(), _LEVEL))


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
    """(runs before it, its last wait or barrier, -1 for none) of each segment."""
    found: list[tuple[int, int]] = []
    runs, waits = 0, False  # whether the instruction before is a wait
    for place, step in enumerate(queue):
        kind = type(step)
        if not found and kind is not Wait:
            found.append((0, -1))
        if kind is Barrier or (kind is Wait and not waits):
            found.append((runs, place))
        elif kind is Wait:
            found[-1] = (runs, place)
        runs += kind is Run
        waits = kind is Barrier or kind is Wait
    return found
