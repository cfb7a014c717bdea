"""Random small schedules that are right, with more synchronisation than they need.

Policies make lean programs, in which most changes are harmful; these have events of every kind
(of an operator, of a run, counted per EU), barriers, strided ranges and waits that are implied.
Some are dynamic.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from rcompiler.device.model import Costs
from rcompiler.rammer.graph import Graph, Operator, waves
from rcompiler.rammer.kernel import Kernel
from rcompiler.rammer.layout import make_program, plain_layout
from rcompiler.rammer.plan_memory import plan_memory
from rcompiler.rammer.policy.rammer import schedule_rammer
from rcompiler.rammer.program import Barrier, Instruction, Program, Run, Signal, Wait
from rcompiler.rammer.schedule import POLICIES


def random_programs(rng: random.Random, graph: Graph) -> tuple[Program, ...]:
    """Legal programs for the graph, on two or three EUs."""
    eus = rng.choice((2, 2, 2, 3))
    kind = rng.random()
    if kind < 0.35:
        costs = Costs(hand_off_ns=rng.choice((1, 300)), launch_ns=rng.choice((1, 10**6)))
        programs = list(schedule_rammer(graph, eus, costs))
    elif kind < 0.5:
        policy = rng.choice(sorted(POLICIES))
        programs = list(POLICIES[policy](graph, eus, Costs(), kernels="fast", name="main"))
    else:
        programs = _synchronised(rng, graph, eus)
    if rng.random() < 0.5:
        return plan_memory(graph, programs)[0]
    return tuple(programs)


def _synchronised(rng: random.Random, graph: Graph, eus: int) -> list[Program]:
    layout = plain_layout(graph)
    kernels = {op.name: graph.kernel[rng.choice(op.kernels)] for op in graph.operators}
    drafts: list[_Draft] = []
    for wave in waves(graph):
        if not drafts or (drafts[-1].runs and rng.random() < 0.15):
            dynamic = rng.random() < 0.35
            queues: list[list[Instruction]] = [[] for _ in range(1 if dynamic else eus)]
            drafts.append(_Draft(rng, graph, queues, eus if dynamic else None))
        elif drafts[-1].takers is None and rng.random() < 0.3:
            drafts[-1].barrier()
        draft = drafts[-1]
        for op in wave:
            draft.add(op, kernels[op.name])
    if rng.random() < 0.7:
        for draft in drafts:
            draft.drop_unheard()
    return [
        make_program(f"main_{i}", graph, layout, draft.queues, draft.takers)
        for i, draft in enumerate(drafts)
    ]


@dataclass
class _Draft:
    """A program in the making. takers: EUs of a dynamic one. runs: operator -> (queue, number of
    its run in that queue) of each run.
    """

    rng: random.Random
    graph: Graph
    queues: list[list[Instruction]]
    takers: int | None
    runs: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    settled: set[str] = field(default_factory=set)  # before a barrier

    def barrier(self) -> None:
        """All that came before is over."""
        for queue in self.queues:
            queue.append(Barrier())
        self.settled |= set(self.runs)

    def add(self, op: Operator, kernel: Kernel) -> None:
        """All runs of an operator, each after waits for all its producers, and its signals."""
        mine: list[tuple[int, int]] = []
        for first, count, stride in _ranges(self.rng, kernel.tasks):
            eu = self._queue()
            queue = self.queues[eu]
            for producer in self.graph.predecessors[op.name]:
                if producer in self.runs and (
                    producer not in self.settled or self.rng.random() < 0.3
                ):
                    queue += self._waits(producer, eu)
            buffers = (*op.inputs, *op.outputs)
            queue.append(Run(kernel.name, op.name, first, count, stride, buffers))
            number = sum(who == eu for who, _ in mine)
            mine.append((eu, number))
            signals = [Signal(op.name), Signal(f"{op.name}.{eu}")]
            queue += self.rng.sample(signals, 2)
        self.runs[op.name] = mine

    def _queue(self) -> int:
        """Where the next run goes: of a dynamic program to the last queue, or to a new one."""
        if self.takers is None:
            return self.rng.randrange(len(self.queues))
        if self.queues[-1] and self.rng.random() < 0.6:
            self.queues.append([])
        return len(self.queues) - 1

    def drop_unheard(self) -> None:
        """Drop the signals that nobody waits for."""
        heard = {step.event for queue in self.queues for step in queue if isinstance(step, Wait)}
        for queue in self.queues:
            queue[:] = [s for s in queue if not isinstance(s, Signal) or s.event in heard]

    def _waits(self, producer: str, eu: int) -> list[Instruction]:
        """Waits for all of a producer, by its own event or by those of its EUs, or both."""
        runs = self.runs[producer]
        whole: list[Instruction] = [Wait(producer, len(runs))]
        parts: list[Instruction] = [
            Wait(f"{producer}.{who}", number + 1)
            for who, number in runs
            if (who, number + 1) not in runs and (who != eu or self.rng.random() < 0.3)
        ]
        found = self.rng.choice((whole, parts, whole + parts))
        if self.rng.random() < 0.2:
            found = [Wait(producer, self.rng.randint(1, len(runs))), *found]
        return found


def _ranges(rng: random.Random, tasks: int) -> Sequence[tuple[int, int, int]]:
    """(first, count, stride) of runs that make each task once."""
    if tasks > 2 and rng.random() < 0.25:
        stride = rng.choice((2, 3))
        return [(i, len(range(i, tasks, stride)), stride) for i in range(min(stride, tasks))]
    cuts = sorted(rng.sample(range(1, tasks), min(tasks - 1, rng.randint(0, 3))))
    edges = [0, *cuts, tasks]
    return [(low, high - low, 1) for low, high in zip(edges[:-1], edges[1:], strict=True)]
