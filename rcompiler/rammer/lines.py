"""Dynamic programs as static ones whose runs have the same order: what is proved and planned on.

Two queues may be taken by two EUs, so nothing but waits orders them: each could be a queue of an EU
of its own. Clocks that count so many EUs would be as long as the program. So queues of which each
is over, by its waits, before the next one begins are put on one line, one behind the other: a
single EU for them orders nothing that was not. There are about as many lines as queues that can run
at the same time.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rcompiler.errors import ScheduleError
from rcompiler.rammer.program import Barrier, Instruction, Program, Run, Signal, Wait
from rcompiler.roller.numerics import distinct

Ints = NDArray[np.int64]
_STEPS = 1000  # queues that are looked at before a line of its own is cheaper for a queue


@dataclass(frozen=True)
class Lined:
    """program: static, with an EU for each line. numbers, starts: per line its queues, and the
    place in the line at which each begins.
    """

    program: Program
    numbers: tuple[Ints, ...]
    starts: tuple[Ints, ...]

    def queues(self, line: Ints, place: Ints) -> Ints:
        """(n,): the queues in which these places of lines are."""
        found = np.zeros(len(line), np.int64)
        for one in distinct(line).tolist():
            mine = line == one
            at = np.searchsorted(self.starts[one], place[mine], side="right") - 1
            found[mine] = self.numbers[one][at]
        return found


def in_lines(program: Program) -> Lined:
    """The lines of a dynamic program.

    Raises ScheduleError (rule "deadlock") where one EU could not run the queues in their order. If
    it can, any number of them can: of the queues that are not over, the first waits for nothing.
    """
    totals = _run_in_order(program)
    lines = _Lines(totals)
    for queue in program.queues:
        lines.append(queue)
    members = lines.members
    queues = tuple(tuple(step for n in line for step in program.queues[n]) for line in members)
    lengths = [[len(program.queues[n]) for n in line] for line in members]
    return Lined(
        replace(program, eus=len(queues), queues=queues, dynamic=False),
        tuple(np.array(line, np.int64) for line in members),
        tuple(np.cumsum([0, *sizes[:-1]]) for sizes in lengths),
    )


def _run_in_order(program: Program) -> dict[str, int]:
    """How often each event is signalled, by one EU that takes all queues."""
    signals: dict[str, int] = {}
    for number, queue in enumerate(program.queues):
        for place, step in enumerate(queue):
            if type(step) is Run:
                continue
            where = f"program {program.name}: queue {number}"
            if type(step) is Signal:
                signals[step.event] = signals.get(step.event, 0) + 1
            elif type(step) is Barrier:
                raise ScheduleError(
                    f"{where} has a barrier at place {place}, and which EUs will run the queues of "
                    "a dynamic program is not known: use signals and waits",
                    "deadlock",
                )
            elif type(step) is not Wait:
                raise ScheduleError(f"{where}: {step!r} is no instruction", "task")
            elif signals.get(step.event, 0) < step.count:
                raise ScheduleError(
                    f"{where} deadlocks: it waits at place {place} for event {step.event} "
                    f"({signals.get(step.event, 0)} of {step.count} signals)"
                    f"{_later(program, number, step.event)}; the queues of a dynamic program are "
                    "taken in order, and one EU alone may take them",
                    "deadlock",
                )
    return signals


def _later(program: Program, number: int, event: str) -> str:
    """Who signals the event too late, for a message."""
    for other, queue in enumerate(program.queues[number:], number):
        if Signal(event) in queue:
            return f", which queue {other} signals later"
    return ""


class _Lines:
    """Puts queues, in their order, behind others that are over by then. totals: of all signals."""

    def __init__(self, totals: dict[str, int]) -> None:
        self._totals = totals
        self.members: list[list[int]] = []
        self._line: list[int] = []  # of each queue
        self._known: list[list[str]] = []  # per queue the events of which all signals are before it
        # event -> queues that are over when it has all its signals, but for those that, with all
        # that is before them, are no ends of lines any more
        self._over: dict[str, list[int]] = {}

    def append(self, queue: Sequence[Instruction]) -> None:
        """The next queue."""
        number = len(self._line)
        full = (w.event for w in _leading(queue) if w.count == self._totals.get(w.event, 0) > 0)
        self._known.append(list(dict.fromkeys(full)))
        end = self._end(number)
        if end < 0:
            self._line.append(len(self.members))
            self.members.append([number])
        else:
            self._line.append(self._line[end])
            self.members[self._line[end]].append(number)
        for event in dict.fromkeys(signal.event for signal in _trailing(queue)):
            self._over.setdefault(event, []).append(number)

    def _end(self, number: int) -> int:
        """An end of a line that is over before this queue, -1 if none is found."""
        path = [number]
        for _ in range(_STEPS):
            events = self._known[path[-1]]
            while events and not self._over.get(events[-1]):
                events.pop()
            if not events:  # neither it nor what is before it
                path.pop()
                if not path:
                    return -1
                self._over[self._known[path[-1]][-1]].pop()
                continue
            found = self._over[events[-1]][-1]
            if self.members[self._line[found]][-1] == found:
                return found
            path.append(found)
        return -1


def _leading(queue: Sequence[Instruction]) -> Iterator[Wait]:
    for step in queue:
        if type(step) is not Wait:
            return
        yield step


def _trailing(queue: Sequence[Instruction]) -> Iterator[Signal]:
    for step in reversed(queue):
        if type(step) is not Signal:
            return
        yield step
