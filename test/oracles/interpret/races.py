"""Races of one launch, found by vector clocks as they happen.

The clock of an EU says how many tasks of each EU are over for it: those before signals that it
waited for. An access of a byte that another EU's task touched, one of the two a write, races unless
that task is over for it. Which of the two came first in this execution does not matter. Each queue
of a dynamic program counts as an EU: who runs it may be anyone.
"""

import numpy as np
from numpy.typing import NDArray

from oracles.interpret.tasks import Ints, Task, TouchedBox

Clock = NDArray[np.int32]
Numbers = NDArray[np.signedinteger]
_ALWAYS = np.iinfo(np.int32).max
_NOBODY = -1


class Races:
    """Last write and reads of each byte, and what each EU knows.

    A task is counted when it starts: stamps are 1 and more.
    """

    def __init__(self, size: int, eus: int) -> None:
        self._tasks: list[list[Task]] = [[] for _ in range(eus)]
        self._known = np.zeros((eus, eus), np.int32)
        np.fill_diagonal(self._known, _ALWAYS)  # an EU's own tasks are in order
        self._writer = np.full(size, _NOBODY, np.int32)
        self._written = np.zeros(size, np.int32)
        self._read = np.zeros((size, eus), np.int32)

    def start(self, eu: int, task: Task) -> None:
        """The EU's next task."""
        self._tasks[eu].append(task)

    def clock(self, eu: int) -> Clock:
        """What a release of the EU publishes."""
        clock = self._known[eu].copy()
        clock[eu] = len(self._tasks[eu])
        return clock

    def learn(self, eu: int, clock: Clock) -> None:
        """Acquire."""
        np.maximum(self._known[eu], clock, out=self._known[eu])

    def meet(self, eus: int) -> None:
        """The first `eus` EUs tell each other all they know."""
        known = self._known[:eus]
        clock = np.where(known == _ALWAYS, 0, known).max(axis=0)
        clock[:eus] = [len(tasks) for tasks in self._tasks[:eus]]
        np.maximum(known, clock, out=known)

    def read(self, eu: int, part: TouchedBox) -> tuple[Task | None, Ints, int]:
        """(task of a racing write or None, addresses it has in common, its EU)."""
        at = part.at
        late = self._written[at] > self._known[eu][self._writer[at]]
        self._read[at, eu] = len(self._tasks[eu])
        return self._raced(self._writer[at], self._written[at], late, at)

    def write(self, eu: int, part: TouchedBox) -> tuple[Task | None, Ints, int]:
        """(task of a racing access or None, addresses it has in common, its EU)."""
        at = part.at
        late = self._written[at] > self._known[eu][self._writer[at]]
        found = self._raced(self._writer[at], self._written[at], late, at)
        if found[0] is None:
            reads = self._read[at]
            late_reads = reads > self._known[eu]
            if late_reads.any():
                reader = int(np.flatnonzero(late_reads.any(axis=0))[0])
                readers = np.full(len(at), reader)
                found = self._raced(readers, reads[:, reader], late_reads[:, reader], at)
        self._writer[at] = eu
        self._written[at] = len(self._tasks[eu])
        return found

    def _raced(
        self, eus: Numbers, stamps: Numbers, late: NDArray[np.bool_], at: Ints
    ) -> tuple[Task | None, Ints, int]:
        if not late.any():
            return None, at[:0], -1
        first = int(np.flatnonzero(late)[0])
        eu, stamp = int(eus[first]), int(stamps[first])
        return self._tasks[eu][stamp - 1], at[late & (eus == eu) & (stamps == stamp)], eu
