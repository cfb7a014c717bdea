"""Checkpoints that keep EUs in step, so that values may share bytes.

The bytes of a value are free once every EU is known to be done with it. EUs that wait for nothing
but what they read run apart and know little of one another, so values get bytes of their own where
a row of launches would write over old ones: bytes that no cache holds. Checkpoints spread over a
program bound how far EUs run apart: who comes to one says so and goes on once all others have
passed the one before. In step that costs no time, and what was done two stretches ago is over.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rcompiler.device.model import Costs
from rcompiler.rammer.cost import Ints
from rcompiler.rammer.graph import Graph
from rcompiler.rammer.program import Instruction, Program, Run, Signal, Wait
from rcompiler.rammer.simulate import simulate
from rcompiler.rammer.timeline import Span

STRETCH = 200  # hand-offs in the time between two checkpoints, of which each costs about one


def paced(programs: Sequence[Program], graph: Graph, costs: Costs) -> list[Program]:
    """The same programs with checkpoints, where EUs wait for one another at all.

    An EU comes to a checkpoint after the last of its runs that, by estimate, begins before the time
    of it. All that this run needs began earlier still, so no wait goes round in a circle. Dynamic
    programs stay as they are: their queues may wait for earlier ones only.
    """
    which = [n for n, program in enumerate(programs) if _may_run_apart(program)]
    if not which:
        return [*programs]
    begun: dict[int, list[Span]] = {n: [] for n in which}
    for span in simulate(programs, graph, costs).spans:
        if span.program in begun:
            begun[span.program].append(span)
    return [
        _with_checkpoints(program, begun[n], STRETCH * costs.hand_off_ns) if n in begun else program
        for n, program in enumerate(programs)
    ]


def _may_run_apart(program: Program) -> bool:
    waits = any(isinstance(step, Wait) for queue in program.queues for step in queue)
    return waits and program.eus > 1 and not program.dynamic


def _with_checkpoints(program: Program, spans: Sequence[Span], stretch: float) -> Program:
    """stretch: least ns from one checkpoint to the next."""
    starts: list[list[float]] = [[] for _ in program.queues]
    for span in spans:
        starts[span.eu].append(span.start)
    first, last = min(s.start for s in spans), max(s.start for s in spans)
    most = max(map(len, starts))  # no more checkpoints than runs
    number = int(min(most, (last - first) // stretch))
    times = np.linspace(first, last, number + 1)[1:]
    name = _unused(program)
    queues = [
        _insert(queue, np.searchsorted(np.array(own), times), name, program.eus)
        for queue, own in zip(program.queues, starts, strict=True)
    ]
    return replace(program, queues=tuple(queues))


def _insert(
    queue: Sequence[Instruction], after: Ints, name: str, eus: int
) -> tuple[Instruction, ...]:
    """The queue with checkpoint k behind its first after[k] runs and what these signal."""
    result: list[Instruction] = []
    runs, number = 0, 0

    def reach() -> None:
        nonlocal number
        while number < len(after) and after[number] == runs:
            result.append(Signal(f"{name}.{number}"))
            if number:
                result.append(Wait(f"{name}.{number - 1}", eus))
            number += 1

    for step in queue:
        if not isinstance(step, Signal):
            reach()
        result.append(step)
        runs += isinstance(step, Run)
    reach()
    return tuple(result)


def _unused(program: Program) -> str:
    """What no event of the program begins with."""
    events = {s.event for queue in program.queues for s in queue if isinstance(s, Signal | Wait)}
    name = "checkpoint"
    while any(event.startswith(f"{name}.") for event in events):
        name += "_"
    return name
