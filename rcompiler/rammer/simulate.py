"""Estimated execution of programs: a time line, event by event."""

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from rcompiler.device.model import Costs
from rcompiler.rammer.bounds import longest_path
from rcompiler.rammer.contention import SharedLevel
from rcompiler.rammer.cost import run_ns, size_of, task_ns
from rcompiler.rammer.graph import Graph
from rcompiler.rammer.kernel import Kernel
from rcompiler.rammer.order import happens_before
from rcompiler.rammer.program import Instruction, Program, Run, Signal, Wait
from rcompiler.rammer.recall import Recalls
from rcompiler.rammer.timeline import (
    BARRIER,
    END,
    LAUNCH,
    ORDER,
    SIGNAL,
    TAKE,
    IdleSpan,
    Span,
    Timeline,
)


def simulate(
    programs: Sequence[Program],
    graph: Graph,
    costs: Costs,
    shared: float | None = None,
    recalls: Recalls | None = None,
) -> Timeline:
    """Play programs with the estimated times of their rKernels.

    A free EU takes the next queue of a dynamic program at once, for the price of a hand-off if
    another EU took the one before: the counter comes from there.

    Args:
        programs: launches, one after the other.
        graph: has the operators and rKernels that they run.
        costs: of the device, in ns.
        shared: GB/s of the memory level that all EUs share, each byte that an rTask touches counted
            once; None: as much as they ask for.
        recalls: what runs find in the last cache; then only bytes from memory count as shared.

    Returns:
        A time line: when each run begins and ends, what it waited for, and the bounds.

    Raises:
        ScheduleError: the programs would wait for ever (rule "deadlock").
    """
    happens_before(programs)  # refuses deadlocks: the event queue below would just run dry
    eus = max((p.eus for p in programs), default=1)
    now = 0.0
    spans: list[Span] = []
    gaps: list[IdleSpan] = []
    takers: list[tuple[int, ...]] = []
    for number, program in enumerate(programs):
        last = max(range(len(spans)), key=lambda i: spans[i].end) if spans else -1
        gaps += [
            IdleSpan(number, eu, now, now + costs.launch_ns, LAUNCH, last) for eu in range(eus)
        ]
        now += costs.launch_ns
        level = SharedLevel(shared, program.eus)
        play = _Play(number, program, graph, costs, now, last, spans, gaps, level, recalls)
        now = play.end()
        takers.append(tuple(play.takers))
    busy = np.zeros(eus)
    for span in spans:
        busy[span.eu] += span.end - span.start
    launch = costs.launch_ns * len(programs)
    chosen = _chosen(programs, graph)
    each = {name: task_ns(k) for name, k in chosen.items()} if recalls is None else _least(spans)
    return Timeline(
        now,
        launch,
        busy,
        now - launch - busy,
        sum(each[name] * k.tasks for name, k in chosen.items()) / eus,
        longest_path(graph, each, chosen),
        _touched(chosen) / shared if shared and recalls is None else 0.0,
        tuple(spans),
        tuple(gaps),
        tuple(takers),
    )


@dataclass
class _EU:
    """queue, at: its next instruction; since: when it became free; cause, reason: what let it go
    on; running: number of the span it is in, -1 for none.
    """

    queue: Sequence[Instruction]
    at: int
    since: float
    cause: int
    reason: str = LAUNCH
    running: int = -1


@dataclass
class _Play:
    """One launch, event by event in the order of time. takers: the EU of each queue."""

    number: int
    program: Program
    graph: Graph
    costs: Costs
    start: float
    before: int  # number of the span that the launch comes after
    spans: list[Span]
    gaps: list[IdleSpan]
    level: SharedLevel
    recalls: Recalls | None
    # event -> time, EU and span of each signal; who waits: EU and count
    signals: dict[str, list[tuple[float, int, int]]] = field(default_factory=dict)
    blocked: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    arrived: list[tuple[float, int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        own = () if self.program.dynamic else self.program.queues
        self.takers = [*range(len(own))]
        self.eus = [
            _EU(own[eu] if own else (), 0, self.start, self.before)
            for eu in range(self.program.eus)
        ]
        self.queue = [(self.start, eu) for eu in range(self.program.eus)]

    def end(self) -> float:
        """Play until all EUs are done; returns when the last one is."""
        last = self.start
        while self.queue or self.level.running:
            now, eu = self._event()
            last = max(last, now)
            state = self.eus[eu]
            state.since = now
            if state.running >= 0:
                self.spans[state.running] = replace(self.spans[state.running], end=now)
                state.running = -1
            if state.at < len(state.queue):
                self._step(now, eu, state)
            elif len(self.takers) < len(self.program.queues):
                self._take(now, eu, state)
        for eu, state in enumerate(self.eus):
            self._idle(eu, state, last, END, -1)
        return last

    def _event(self) -> tuple[float, int]:
        """The next EU that can go on, and when."""
        at, eu = self.queue[0] if self.queue else (float("inf"), -1)
        if self.level.next_end() <= at:
            return self.level.finish()
        heapq.heappop(self.queue)
        self.level.advance(at)
        return at, eu

    def _take(self, now: float, eu: int, state: _EU) -> None:
        """A free EU takes the next queue."""
        state.queue, state.at = self.program.queues[len(self.takers)], 0
        before = self.takers[-1] if self.takers else eu
        self.takers.append(eu)
        go = now if before == eu else now + self.costs.hand_off_ns
        self._idle(eu, state, go, TAKE, -1)
        heapq.heappush(self.queue, (go, eu))

    def _step(self, now: float, eu: int, state: _EU) -> None:
        step = state.queue[state.at]
        state.at += 1
        if isinstance(step, Run):
            self._run(now, eu, state, step)
        elif isinstance(step, Signal):
            given = now + self.costs.signal_ns
            self._idle(eu, state, given, SIGNAL, -1)
            heapq.heappush(self.queue, (given, eu))
            self.signals.setdefault(step.event, []).append((given, eu, state.cause))
            for other, count in self.blocked.pop(step.event, []):
                self._wait(given, other, step.event, count)
        elif isinstance(step, Wait):
            self._wait(now, eu, step.event, step.count)
        else:
            self.arrived.append((now, eu, state.cause))
            if len(self.arrived) == self.program.eus:
                self._meet()

    def _run(self, now: float, eu: int, state: _EU, run: Run) -> None:
        if self.recalls is not None:
            alone, moved = self.recalls.run(self.program, eu, run)
        else:
            kernel = self.graph.kernel[run.kernel]
            size = size_of(kernel, run.first, run.count, run.stride)
            alone = run_ns(kernel, size, self.costs)
            moved = float(_moved(kernel) * run.count)
        state.running = len(self.spans)
        tasks = (run.operator, run.first, run.count, run.stride)
        span = Span(self.number, eu, *tasks, now, now, state.cause, state.reason)
        self.spans.append(span)
        state.cause, state.reason = state.running, ORDER
        demand = moved / alone
        if self.level.limits(demand):
            self.level.start(now, eu, alone, demand)
        else:
            heapq.heappush(self.queue, (now + alone, eu))

    def _wait(self, now: float, eu: int, event: str, count: int) -> None:
        have = self.signals.get(event, [])
        if len(have) < count:
            self.blocked.setdefault(event, []).append((eu, count))
            return
        hand_off = self.costs.hand_off_ns
        arrivals = sorted((at + hand_off * (who != eu), cause) for at, who, cause in have)
        arrival, cause = arrivals[count - 1] if count else (now, -1)
        self._resume(eu, max(now, arrival), event, cause, self.costs.wait_ns)

    def _meet(self) -> None:
        """All EUs have come to a barrier: they go on together."""
        at, _, cause = max(self.arrived)
        self.arrived = []
        for eu in range(self.program.eus):
            self._resume(eu, at + self.costs.barrier_ns, BARRIER, cause)

    def _resume(self, eu: int, there: float, reason: str, cause: int, least: float = 0.0) -> None:
        """An EU goes on after a wait: when what it waits for is there, and `least` ns after it
        began to wait.
        """
        state = self.eus[eu]
        go = max(there, state.since + least)
        if there > state.since:
            self._idle(eu, state, go, reason, cause)
            state.cause, state.reason = cause, reason
        else:
            self._idle(eu, state, go, reason, -1)  # nobody is waited for
        heapq.heappush(self.queue, (go, eu))

    def _idle(self, eu: int, state: _EU, until: float, reason: str, cause: int) -> None:
        if until > state.since:
            self.gaps.append(IdleSpan(self.number, eu, state.since, until, reason, cause))


def _chosen(programs: Sequence[Program], graph: Graph) -> dict[str, Kernel]:
    """The rKernel that each operator runs."""
    return {
        step.operator: graph.kernel[step.kernel]
        for program in programs
        for queue in program.queues
        for step in queue
        if isinstance(step, Run)
    }


def _touched(chosen: dict[str, Kernel]) -> float:
    """Bytes that the rTasks of all operators touch."""
    return float(sum(_moved(k) * k.tasks for k in chosen.values()))


def _moved(kernel: Kernel) -> int:
    """Bytes that an rTask waits for."""
    return 0 if kernel.asks else kernel.task_bytes


def _least(spans: Iterable[Span]) -> dict[str, float]:
    """Of each operator the least time of one rTask, as the runs took it."""
    found: dict[str, float] = {}
    for span in spans:
        ns = (span.end - span.start) / max(span.count, 1)
        found[span.operator] = min(ns, found.get(span.operator, ns))
    return found
