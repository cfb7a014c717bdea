"""From the programs of a model to the streams that its threads walk.

All launches of a model run in one foreign call: the programs are put behind each other, separated
by a barrier. A model compiled for more EUs than this process has CPUs keeps its results: several
EUs are folded onto one thread, in an order that some execution of the original could have had.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from rcompiler.errors import ArtifactError
from rcompiler.runtime import tables
from rcompiler.runtime.loops import Item, Line, Loop, lines, parse
from rcompiler.runtime.program import Program


@dataclass
class Schedule:
    """What `runtime.threads` runs.

    Attributes:
        streams: one per thread.
        events: "program: event" by event number.
        totals: signals per launch, by event number.
        operators: per thread, the operator of its i-th RUN.
        operands: most operands of any RUN, at least 1.
    """

    streams: list[np.ndarray]
    events: list[str]
    totals: list[int]
    operators: list[list[str]]
    operands: int


@dataclass
class _Thread:
    """What a thread does, and the operator of each RUN that it executes."""

    items: list[Item] = field(default_factory=list)
    operators: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Step:
    eu: int | None  # None: a barrier, which all threads meet
    line: Line
    operator: str = ""


_BARRIER = Line(0, tables.BARRIER, ())


def combine(programs: Sequence[Program], threads: int) -> Schedule:
    """Programs in order, as `threads` streams.

    Programs must have passed `check_program`. A program with fewer EUs leaves threads idle; one
    thread alone needs no synchronisation, so it gets none. Loops stay loops, unless EUs are folded.

    Raises:
        ArtifactError: EUs have to be folded and the program cannot run in any order (deadlock).
    """
    result = [_Thread() for _ in range(threads)]
    events: list[str] = []
    totals: list[int] = []
    for number, program in enumerate(programs):
        parts = _parts(program, threads)
        for home, part in zip(result, parts, strict=True):
            if number and threads > 1:
                home.items.append(_BARRIER)
            home.items += _renumbered(part.items, len(events))
            home.operators += part.operators
        events += [f"{program.name}: {event}" for event in program.events]
        totals += program.signals() if threads > 1 else [0] * len(program.events)
    runs = [line for t in result for line in lines(t.items) if line.opcode == tables.RUN]
    operands = max((line.operands[4] for line in runs), default=1)
    streams = []
    for thread in result:
        stream = tables.Stream()
        stream.items(thread.items)
        streams.append(stream.end())
    return Schedule(streams, events, totals, [t.operators for t in result], max(1, operands))


def _parts(program: Program, threads: int) -> list[_Thread]:
    """What each thread does of a program, events numbered as in the program."""
    eus = len(program.streams)
    if threads == 1 or eus > threads:
        order = _order(program)  # finds deadlocks
        if eus > 1:
            return _folded(order, threads)
    queues = [parse(stream)[:-1] for stream in program.streams]
    if threads == 1:
        queues = [_runs(queue) for queue in queues]
    found = [_Thread(q, list(names)) for q, names in zip(queues, program.operators, strict=True)]
    meetings = sum(line.times for line in lines(queues[0]) if line.opcode == tables.BARRIER)
    return found + [_Thread([_BARRIER] * meetings) for _ in range(threads - eus)]


def _folded(order: Sequence[_Step], threads: int) -> list[_Thread]:
    """The steps in this order, EU e on thread e modulo `threads`."""
    result = [_Thread() for _ in range(threads)]
    for step in order:
        if threads == 1 and step.line.opcode != tables.RUN:
            continue
        for home in result if step.eu is None else [result[step.eu % threads]]:
            home.items.append(step.line)
            if step.line.opcode == tables.RUN:
                home.operators.append(step.operator)
    return result


def _runs(items: Iterable[Item]) -> list[Item]:
    """The RUNs alone, in their loops."""
    kept: list[Item] = []
    for item in items:
        if isinstance(item, Line):
            kept += [item] * (item.opcode == tables.RUN)
        elif body := _runs(item.body):
            kept.append(replace(item, body=tuple(body)))
    return kept


def _renumbered(items: Iterable[Item], first_event: int) -> list[Item]:
    """The same with `first_event` added to the number of each event."""
    if not first_event:
        return list(items)
    found: list[Item] = []
    for item in items:
        if isinstance(item, Loop):
            found.append(replace(item, body=tuple(_renumbered(item.body, first_event))))
        elif item.opcode in (tables.WAIT, tables.SIGNAL):
            event, *rest = item.operands
            found.append(item._replace(operands=(event + first_event, *rest)))
        else:
            found.append(item)
    return found


def _order(program: Program) -> list[_Step]:
    """The instructions in one possible order: EU by EU as far as each can go, round after round."""
    queues = [_steps(program, eu) for eu in range(len(program.streams))]
    at = [0] * len(queues)
    signalled = [0] * len(program.events)
    order: list[_Step] = []

    def may_go(line: Line) -> bool:
        if line.opcode == tables.WAIT:
            return signalled[line.operands[0]] >= line.operands[1]
        return line.opcode != tables.BARRIER

    while any(done < len(queue) for done, queue in zip(at, queues, strict=True)):
        before = len(order)
        for eu, queue in enumerate(queues):
            while at[eu] < len(queue) and may_go(queue[at[eu]].line):
                step = queue[at[eu]]
                if step.line.opcode == tables.SIGNAL:
                    signalled[step.line.operands[0]] += 1
                order.append(step)
                at[eu] += 1
        heads = [queue[done] for done, queue in zip(at, queues, strict=True) if done < len(queue)]
        if len(heads) == len(queues) and all(s.line.opcode == tables.BARRIER for s in heads):
            order.append(_Step(None, _BARRIER))
            at = [done + 1 for done in at]
        elif heads and len(order) == before:
            raise _deadlock(program, heads)
    return order


def _steps(program: Program, eu: int) -> list[_Step]:
    names = iter(program.operators[eu])
    return [
        _Step(eu, Line(position, opcode, operands), next(names) if opcode == tables.RUN else "")
        for position, opcode, operands in tables.instructions(program.streams[eu])
        if opcode != tables.END
    ]


def _deadlock(program: Program, heads: Sequence[_Step]) -> ArtifactError:
    waits = ", ".join(
        f"EU {step.eu} for "
        + (
            f"signal {step.line.operands[1]} of '{program.events[step.line.operands[0]]}'"
            if step.line.opcode == tables.WAIT
            else "a barrier"
        )
        for step in heads[:8]
    )
    return ArtifactError(
        f"program '{program.name}': its EUs wait for each other for ever: {waits}; "
        "compile the model again"
    )
