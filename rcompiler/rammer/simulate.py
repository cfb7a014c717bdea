"""Estimated execution of programs: makespan, idle time, and bounds to hold it against."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rcompiler.device.model import Costs
from rcompiler.rammer.cost import Floats, run_ns, task_ns
from rcompiler.rammer.graph import Graph, Kernel
from rcompiler.rammer.order import happens_before
from rcompiler.rammer.program import Program, Run, Signal, Wait


@dataclass(frozen=True)
class Span:
    """One run on the time line, ns from the first launch."""

    program: int
    eu: int
    operator: str
    start: float
    end: float


@dataclass(frozen=True)
class Timeline:
    """Estimated times.

    makespan_ns: all launches. busy_ns, idle_ns: (eus,) time in runs, and the rest without launches.
    work_bound_ns: all rTasks spread evenly; path_bound_ns: one rTask of each
    operator along the longest chain. No schedule with these rKernels is shorter than either.
    """

    makespan_ns: float
    launch_ns: float
    busy_ns: Floats
    idle_ns: Floats
    work_bound_ns: float
    path_bound_ns: float
    spans: tuple[Span, ...]


def simulate(programs: Sequence[Program], graph: Graph, costs: Costs) -> Timeline:
    """Play the programs with the estimated times of their rKernels.

    Raises ScheduleError (rule "deadlock") for programs that would wait for ever.
    """
    happens_before(programs)  # refuses deadlocks: the event queue below would just run dry
    eus = max((p.eus for p in programs), default=1)
    now = 0.0
    spans: list[Span] = []
    for number, program in enumerate(programs):
        now += costs.launch_ns
        now = _Play(number, program, graph, costs, now, spans).end()
    busy = np.zeros(eus)
    for span in spans:
        busy[span.eu] += span.end - span.start
    launch = costs.launch_ns * len(programs)
    chosen = _chosen(programs, graph)
    work = sum(task_ns(k) * k.tasks for k in chosen.values()) / eus
    path = _longest_path(graph, chosen)
    return Timeline(now, launch, busy, now - launch - busy, work, path, tuple(spans))


class _Play:
    """One launch, event by event in the order of time."""

    def __init__(
        self,
        number: int,
        program: Program,
        graph: Graph,
        costs: Costs,
        start: float,
        spans: list[Span],
    ) -> None:
        self.number, self.program, self.costs, self.spans = number, program, costs, spans
        self.kernel = graph.kernel
        self.at = [0] * program.eus
        self.last = start
        self.queue = [(start, eu) for eu in range(program.eus)]
        self.signals: dict[str, list[tuple[float, int]]] = {}
        self.blocked: dict[str, list[tuple[float, int, int]]] = {}
        self.arrived: list[float] = []

    def end(self) -> float:
        while self.queue:
            now, eu = heapq.heappop(self.queue)
            self.last = max(self.last, now)
            if self.at[eu] < len(self.program.queues[eu]):
                self._step(now, eu)
        return self.last

    def _step(self, now: float, eu: int) -> None:
        step = self.program.queues[eu][self.at[eu]]
        self.at[eu] += 1
        if isinstance(step, Run):
            end = now + run_ns(self.kernel[step.kernel], step.count, self.costs)
            self.spans.append(Span(self.number, eu, step.operator, now, end))
            heapq.heappush(self.queue, (end, eu))
        elif isinstance(step, Signal):
            heapq.heappush(self.queue, (now, eu))
            self.signals.setdefault(step.event, []).append((now, eu))
            waiting = self.blocked.pop(step.event, [])
            for since, other, count in waiting:
                self._wait(since, other, step.event, count)
        elif isinstance(step, Wait):
            self._wait(now, eu, step.event, step.count)
        else:
            self.arrived.append(now)
            if len(self.arrived) == self.program.eus:
                go = max(self.arrived) + self.costs.barrier_ns
                self.arrived = []
                for other in range(self.program.eus):
                    heapq.heappush(self.queue, (go, other))

    def _wait(self, now: float, eu: int, event: str, count: int) -> None:
        have = self.signals.get(event, [])
        if len(have) < count:
            self.blocked.setdefault(event, []).append((now, eu, count))
            return
        hand_off = self.costs.hand_off_ns
        arrivals = sorted(at + hand_off * (who != eu) for at, who in have)
        heapq.heappush(self.queue, (max([now, *arrivals[count - 1 : count]]), eu))


def _chosen(programs: Sequence[Program], graph: Graph) -> dict[str, Kernel]:
    """The rKernel that each operator runs."""
    return {
        step.operator: graph.kernel[step.kernel]
        for program in programs
        for queue in program.queues
        for step in queue
        if isinstance(step, Run)
    }


def _longest_path(graph: Graph, chosen: dict[str, Kernel]) -> float:
    ends: dict[str, float] = {}
    stack = [op.name for op in reversed(graph.operators)]
    while stack:
        name = stack[-1]
        before = graph.predecessors[name]
        open_ones = [b for b in before if b not in ends]
        if open_ones and name not in ends:
            stack += open_ones
            continue
        stack.pop()
        own = task_ns(chosen[name]) if name in chosen else 0.0
        ends[name] = own + max((ends[b] for b in before), default=0.0)
    return max(ends.values(), default=0.0)
