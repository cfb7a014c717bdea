"""From the programs of a model to the streams that its threads walk.

All launches of a model run in one foreign call: the programs are put behind each other, separated
by a barrier. A model compiled for more EUs than this process has CPUs keeps its results: several
EUs are folded onto one thread, in an order that some execution of the original could have had.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from rcompiler.errors import ArtifactError
from rcompiler.runtime import tables
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
    words: list[int] = field(default_factory=list)
    operators: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Step:
    eu: int | None  # None: a barrier, which all threads meet
    opcode: int
    operands: tuple[int, ...]
    operator: str = ""


def combine(programs: Sequence[Program], threads: int) -> Schedule:
    """Programs in order, as `threads` streams.

    Programs must have passed `check_program`. A program with fewer EUs leaves threads idle; one
    thread alone needs no synchronisation, so it gets none.

    Raises:
        ArtifactError: EUs have to be folded and the program cannot run in any order (deadlock).
    """
    result = [_Thread() for _ in range(threads)]
    events: list[str] = []
    totals: list[int] = []
    operands = 1
    for number, program in enumerate(programs):
        steps = _order(program, threads)
        if number:
            steps.insert(0, _Step(None, tables.BARRIER, ()))
        for step in steps:
            if threads == 1 and step.opcode != tables.RUN:
                continue
            for home in result if step.eu is None else [result[step.eu % threads]]:
                _append(home, step, len(events))
            if step.opcode == tables.RUN:
                operands = max(operands, step.operands[4])
        events += [f"{program.name}: {event}" for event in program.events]
        totals += program.signals() if threads > 1 else [0] * len(program.events)
    streams = [np.array([*thread.words, tables.END], np.int64) for thread in result]
    return Schedule(streams, events, totals, [t.operators for t in result], operands)


def _append(thread: _Thread, step: _Step, first_event: int) -> None:
    thread.words.append(step.opcode)
    if step.opcode in (tables.WAIT, tables.SIGNAL):
        thread.words += [step.operands[0] + first_event, *step.operands[1:]]
    else:
        thread.words += step.operands
    if step.opcode == tables.RUN:
        thread.operators.append(step.operator)


def _order(program: Program, threads: int) -> list[_Step]:
    """The instructions in one possible order: EU by EU as far as each can go, round after round.

    When every EU has a thread of its own, any order does (each stream keeps its own), so waits
    are not looked at.
    """
    queues = [_steps(program, eu) for eu in range(len(program.streams))]
    at = [0] * len(queues)
    signalled = [0] * len(program.events)
    must_order = threads == 1 or len(queues) > threads
    order: list[_Step] = []

    def may_go(step: _Step) -> bool:
        if step.opcode == tables.WAIT and must_order:
            return signalled[step.operands[0]] >= step.operands[1]
        return step.opcode != tables.BARRIER

    while any(done < len(queue) for done, queue in zip(at, queues, strict=True)):
        before = len(order)
        for eu, queue in enumerate(queues):
            while at[eu] < len(queue) and may_go(queue[at[eu]]):
                step = queue[at[eu]]
                if step.opcode == tables.SIGNAL:
                    signalled[step.operands[0]] += 1
                order.append(step)
                at[eu] += 1
        heads = [queue[done] for done, queue in zip(at, queues, strict=True) if done < len(queue)]
        if len(heads) == len(queues) and all(step.opcode == tables.BARRIER for step in heads):
            order.append(_Step(None, tables.BARRIER, ()))
            at = [done + 1 for done in at]
        elif heads and len(order) == before:
            raise _deadlock(program, heads)
    return order


def _steps(program: Program, eu: int) -> list[_Step]:
    names = iter(program.operators[eu])
    return [
        _Step(eu, opcode, operands, next(names) if opcode == tables.RUN else "")
        for _, opcode, operands in tables.instructions(program.streams[eu])
        if opcode != tables.END
    ]


def _deadlock(program: Program, heads: Sequence[_Step]) -> ArtifactError:
    waits = ", ".join(
        f"EU {step.eu} for "
        + (
            f"signal {step.operands[1]} of '{program.events[step.operands[0]]}'"
            if step.opcode == tables.WAIT
            else "a barrier"
        )
        for step in heads[:8]
    )
    return ArtifactError(
        f"program '{program.name}': its EUs wait for each other for ever: {waits}; "
        "compile the model again"
    )
