"""What an execution looks like in time: runs, why EUs were idle, the critical path, bounds.

All times in nanoseconds from the first launch.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from rcompiler.rammer.cost import Floats

ORDER, LAUNCH, BARRIER, END = "order", "launch", "barrier", "end"
TAKE, SIGNAL = "take", "signal"
NO_EVENTS = (LAUNCH, BARRIER, END, TAKE, SIGNAL)  # reasons of gaps


@dataclass(frozen=True)
class Span:
    """One run on the time line.

    first, count, stride: its rTasks. cause: number of the span whose end let it start, -1 for none;
    reason: how: "order" on the same EU, "launch", "barrier", or the name of the event.
    """

    program: int
    eu: int
    operator: str
    first: int
    count: int
    stride: int
    start: float
    end: float
    cause: int
    reason: str


@dataclass(frozen=True)
class IdleSpan:
    """Time an EU spends without work.

    reason: what it waits for: "launch", "barrier", "end" of the program, "take" (the next queue of
    a dynamic program), or the name of an event; "signal": it gives one, see `Costs.signal_ns`.
    cause: number of the span that ends the wait, -1 for none.
    """

    program: int
    eu: int
    start: float
    end: float
    reason: str
    cause: int


@dataclass(frozen=True)
class Timeline:
    """Estimated times.

    makespan_ns: all launches. busy_ns, idle_ns: (eus,) time in runs, and the rest without launches.
    work_bound_ns: all rTasks spread evenly; path_bound_ns: one rTask of each operator along the
    longest chain of those that wait for each other; bandwidth_bound_ns: all bytes that rTasks touch
    through the shared level, 0 if none is given. No schedule with these rKernels is shorter than
    any of them. takers: per program the EU that runs each queue.
    """

    makespan_ns: float
    launch_ns: float
    busy_ns: Floats
    idle_ns: Floats
    work_bound_ns: float
    path_bound_ns: float
    bandwidth_bound_ns: float
    spans: tuple[Span, ...]
    gaps: tuple[IdleSpan, ...]
    takers: tuple[tuple[int, ...], ...]

    def critical_path(self) -> list[Span]:
        """The spans that the end waits for, first to last: each lets the next one start."""
        return [self.spans[number] for number in self.critical_numbers()]

    def critical_numbers(self) -> list[int]:
        """The numbers of the spans of the critical path, first to last."""
        if not self.spans:
            return []
        number = max(range(len(self.spans)), key=lambda i: self.spans[i].end)
        return [*reversed([*self._causes(number)])]

    def _causes(self, number: int) -> Iterator[int]:
        while number >= 0:
            yield number
            number = self.spans[number].cause
