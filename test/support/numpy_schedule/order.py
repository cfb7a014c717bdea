"""The rTasks of a launch, in one of the orders that its waits and barriers allow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from rcompiler.rammer.program import Barrier, Instruction, Program, Run, Signal, Wait

_Step = tuple[Run, int] | Wait | Barrier  # of an EU: an rTask, or what it waits at
_Walk = Iterator[_Step]

_CHANGE = 0.05  # chance, per step, that another EU goes on


def rtasks(program: Program, rng: np.random.Generator) -> Iterator[tuple[int, Run, int]]:
    """Each with the number of its EU and the run that it belongs to.

    rng: decides which of the EUs that can go on does, until it waits; now and then another one
    takes over.

    Raises:
        ValueError: EUs wait for what never comes.
    """
    signals: Counter[str] = Counter()
    queues = iter(program.queues)  # of a dynamic program, whoever is free takes the next one
    own = [queues if program.dynamic else [q] for q in program.queues[: program.eus]]
    walks = [_walk(each, signals) for each in own]
    ready, waiting, met = list(range(len(walks))), list[int](), list[int]()
    eu = -1  # who goes on
    seen = 0  # signals when those that wait have looked
    while ready or waiting or met:
        if not ready:
            if signals.total() == seen:
                raise ValueError(f"program {program.name}: EUs {waiting} wait for what never comes")
            ready, waiting, seen = waiting, [], signals.total()
        if eu not in ready or rng.random() < _CHANGE:
            eu = int(rng.choice(ready))
        step = next(walks[eu], None)
        if isinstance(step, tuple):
            yield eu, *step
            continue
        ready.remove(eu)
        if isinstance(step, Wait):
            waiting.append(eu)
        elif isinstance(step, Barrier):
            met.append(eu)
            if len(met) == len(walks):
                ready, met = met, []


def _walk(queues: Iterable[Sequence[Instruction]], signals: Counter[str]) -> _Walk:
    """What an EU does, up to each place where another one may go on."""
    for queue in queues:
        for step in queue:
            match step:
                case Run():
                    for i in range(step.count):
                        yield step, step.first + i * step.stride
                case Signal():
                    signals[step.event] += 1
                case Wait():
                    while signals[step.event] < step.count:
                        yield step
                case Barrier():
                    yield step
