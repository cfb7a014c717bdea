"""Who waits for whom: signals and waits with their times, from programs and their time line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from rcompiler.rammer.program import Barrier, Instruction, Program, Run, Signal, Wait
from rcompiler.rammer.timeline import BARRIER, SIGNAL, TAKE, IdleSpan, Timeline


@dataclass(frozen=True, slots=True)
class Signalled:
    """One signal of `event` (a number) by an EU; task: the last one before it, -1 for none."""

    event: int
    eu: int
    at: float
    task: int


@dataclass(frozen=True, slots=True)
class Waited:
    """One wait of an EU until the `count`-th signal of `event`.

    since, until: when it began and was over. task: the next one of this EU, -1 for none. by: the
    task before the signal that let it go on, -1 for none.
    """

    event: int
    count: int
    eu: int
    since: float
    until: float
    task: int
    by: int


@dataclass(frozen=True)
class Syncs:
    """events: (program number, name) by event number; waits in the order of their ends, signals in
    that of their times.
    """

    events: tuple[tuple[int, str], ...]
    signals: tuple[Signalled, ...]
    waits: tuple[Waited, ...]


def synchronisation(programs: Sequence[Program], timeline: Timeline) -> Syncs:
    """All signals and waits. timeline: that of the programs, as `simulate` played them."""
    spans: dict[tuple[int, int], list[int]] = {}
    gaps: dict[tuple[int, int], list[IdleSpan]] = {}
    for number, span in enumerate(timeline.spans):
        spans.setdefault((span.program, span.eu), []).append(number)
    for gap in timeline.gaps:
        gaps.setdefault((gap.program, gap.eu), []).append(gap)
    walk = _Walk(timeline)
    for number, program in enumerate(programs):
        for eu in range(program.eus):
            key = (number, eu)
            queues = [
                queue
                for queue, taker in zip(program.queues, timeline.takers[number], strict=True)
                if taker == eu
            ]
            walk.queues(number, queues, eu, spans.get(key, []), gaps.get(key, []))
    return walk.found()


class _Walk:
    """Replays queues on the spans and gaps that the simulator made of them."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._events: dict[tuple[int, str], int] = {}
        self._signals: list[Signalled] = []
        self._waits: list[Waited] = []

    def queues(
        self,
        number: int,
        queues: Iterable[Sequence[Instruction]],
        eu: int,
        spans: Sequence[int],
        gaps: Sequence[IdleSpan],
    ) -> None:
        """One EU of one launch, and the queues it runs; its gaps begin with the launch itself."""
        now, last, passed = gaps[0].end, -1, 1
        runs = iter(spans)
        open_waits: list[Waited] = []

        def idle(reason: str) -> IdleSpan | None:
            """The gap of an instruction that blocked: the one that begins now, for its reason."""
            gap = gaps[passed] if passed < len(gaps) else None
            return gap if gap is not None and (gap.start, gap.reason) == (now, reason) else None

        for queue in queues:
            if (taking := idle(TAKE)) is not None:
                now, passed = taking.end, passed + 1
            for step in queue:
                if isinstance(step, Run):
                    last = next(runs)
                    self._waits += [replace(wait, task=last) for wait in open_waits]
                    open_waits = []
                    now = self._timeline.spans[last].end
                elif isinstance(step, Signal):
                    if (giving := idle(SIGNAL)) is not None:
                        now, passed = giving.end, passed + 1
                    self._signals.append(Signalled(self._event(number, step.event), eu, now, last))
                else:
                    gap = idle(BARRIER if isinstance(step, Barrier) else step.event)
                    until = now if gap is None else gap.end
                    if isinstance(step, Wait):
                        by = -1 if gap is None else gap.cause
                        event = self._event(number, step.event)
                        open_waits.append(Waited(event, step.count, eu, now, until, -1, by))
                    now, passed = until, passed + (gap is not None)
        self._waits += open_waits

    def found(self) -> Syncs:
        """What the queues did, in the order of time."""
        self._signals.sort(key=lambda signal: signal.at)
        came: list[list[Signalled]] = [[] for _ in self._events]
        for signal in self._signals:
            came[signal.event].append(signal)
        waits = [self._released(wait, came[wait.event]) for wait in self._waits]
        waits.sort(key=lambda wait: wait.until)
        return Syncs(tuple(self._events), tuple(self._signals), tuple(waits))

    def _event(self, program: int, name: str) -> int:
        return self._events.setdefault((program, name), len(self._events))

    @staticmethod
    def _released(wait: Waited, came: Sequence[Signalled]) -> Waited:
        """With the task that let it go on, also where the EU did not have to wait."""
        if wait.by >= 0 or not 0 < wait.count <= len(came):
            return wait
        return replace(wait, by=came[wait.count - 1].task)
