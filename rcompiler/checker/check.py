"""Whether what operators read is what it should be: every byte, in every execution."""

from collections.abc import Iterable
from typing import NoReturn

import numpy as np

from rcompiler.checker.boxes import meeting
from rcompiler.checker.cells import cells, neighbours
from rcompiler.checker.facts import Facts, Ints, refuse
from rcompiler.checker.order import Order
from rcompiler.checker.streams import Steps
from rcompiler.checker.uses import Uses
from rcompiler.checker.work import Work


def check(facts: Facts) -> None:
    """Raises Refused for a file of which it is not certain that it may run."""
    Check(facts).all()


class Check:
    """On each byte, the values that lie there follow one another: a value is written, then read,
    then the next one is written. Whoever comes after a value there comes after all before it, so
    neighbours are enough.

    Operators are compared whole, in the order of their first runs; where one is not over before the
    other, task by task; and where that does not do (values take turns on their bytes as tasks go
    on), each byte by itself.
    """

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        steps = Steps(facts.launches)
        self.work = Work(facts, steps, Order(facts.launches, steps, facts.clocks))
        self.uses = Uses(facts, self.work)
        self._met: dict[tuple[int, int, int], tuple[Ints, Ints] | None] = {}

    def all(self) -> None:
        """Every rule."""
        self._fixed()
        self._complete()
        uses = self.uses
        late = [pair for pair in self._late(*self._pairs()) if self._meet(*pair)]
        for low, high in sorted(
            {(max(uses.low[a], uses.low[b]), min(uses.high[a], uses.high[b])) for a, b in late}
        ):
            self._byte_by_byte(low, high)

    def _fixed(self) -> None:
        """Nobody writes constants and inputs, and no two of them have common bytes."""
        uses = self.uses
        if (uses.fixed & uses.writes).any():
            refuse("buffer", "an operator writes what is only read")
        use, cell = cells(uses.low[uses.fixed], uses.high[uses.fixed])
        value = np.unique(uses.value[uses.fixed], return_inverse=True)[1].reshape(-1)[use]
        if len(np.unique(cell * (len(value) + 1) + value)) > len(np.unique(cell)):
            refuse("buffer", "two constants lie on the same bytes")

    def _complete(self) -> None:
        """Each byte of the outputs is written, for one value."""
        uses = self.uses
        first, end = uses.outputs
        own = uses.writes & (uses.low >= first) & (uses.high <= end) & (uses.low < uses.high)
        low, high = np.sort(uses.low[own]), np.sort(uses.high[own])
        if not np.array_equal(np.append(first, high), np.append(low, end)):
            refuse("task", "an output is not written once, all of it")

    def _pairs(self) -> tuple[Ints, Ints]:
        """Uses of which one must be over before the other."""
        uses = self.uses
        some = np.flatnonzero(~uses.fixed)
        places = uses.low[some], uses.high[some]
        found = neighbours(*places, uses.value[some], uses.writes[some], uses.place[some])
        one, two = (some[side] for side in found)
        if (uses.writes[one] & uses.writes[two] & (uses.value[one] == uses.value[two])).any():
            refuse("task", "a byte is the result of two operators")
        own = np.flatnonzero(uses.writes & ~uses.disjoint & (uses.run < 0))
        return np.append(one, own), np.append(two, own)

    def _late(self, one: Ints, two: Ints) -> Iterable[tuple[int, int]]:
        """Of pairs of uses those where not all of the first is over before the second starts."""
        uses, work, order = self.uses, self.work, self.work.order
        own = uses.run[one] >= 0
        for pair in np.flatnonzero(own)[~order.before(uses.run[one[own]], uses.run[two[own]])]:
            self._refuse(int(one[pair]), int(two[pair]))
        one, two = one[~own], two[~own]
        runs = np.argsort(work.operator, kind="stable")
        begin = np.searchsorted(work.operator[runs], np.arange(len(work.kernel)))
        starts = np.minimum.reduceat(order.clocks[runs], begin) if len(begin) else order.clocks
        ends = np.zeros_like(starts)
        np.maximum.at(ends, (work.operator, order.line), order.place + 1)
        pairs = uses.operator[one] * len(begin) + uses.operator[two]
        each, which = np.unique(pairs, return_inverse=True)
        late = np.zeros(len(each), bool)
        for end, start in zip(ends.T, starts.T, strict=True):
            late |= end[each // len(begin)] > start[each % len(begin)]
        some = late[which.reshape(-1)]
        return zip(one[some].tolist(), two[some].tolist(), strict=True)

    def _meet(self, one: int, two: int) -> bool:
        """Whether tasks of two uses may touch common bytes in the wrong order."""
        uses, work = self.uses, self.work
        if self._in_place(one, two):
            return False
        key = int(uses.access[one]), int(uses.access[two]), int(uses.low[one] - uses.low[two])
        if key not in self._met:
            self._met[key] = meeting(work.accesses[key[0]], work.accesses[key[1]], key[2])
        if (met := self._met[key]) is None:
            return True
        x, y = (work.begin[uses.operator[u]] + t for u, t in zip((one, two), met, strict=True))
        over = work.over(x, y)
        if one == two:  # results that tasks add to, in any order, but one after the other
            over |= work.over(y, x) | (x == y)
        return not over.all()

    def _in_place(self, one: int, two: int) -> bool:
        """Whether an operator writes each element where, and after, it read that very element."""
        uses = self.uses
        kernel = self.work.kernels[self.work.kernel[uses.operator[one]]]
        same = uses.operator[one] == uses.operator[two] and uses.low[one] == uses.low[two]
        return bool(same) and (uses.number[one], uses.number[two]) in kernel.in_place

    def _byte_by_byte(self, low: int, high: int) -> None:
        """The values of some bytes, task by task."""
        uses, work = self.uses, self.work
        here = np.flatnonzero(~uses.fixed & (uses.low < high) & (low < uses.high))
        pieces = [work.accesses[access].spans for access in uses.access[here].tolist()]
        use = np.repeat(here, [len(tasks) for tasks, _ in pieces])
        task = np.concatenate([tasks for tasks, _ in pieces]) + work.begin[uses.operator[use]]
        spans = np.concatenate([spans for _, spans in pieces]) + uses.low[use][:, None]
        begin, end = spans.clip(low, high).T
        some = begin < end
        use, task, begin, end = use[some], task[some], begin[some], end[some]
        one, two = neighbours(begin, end, uses.value[use], uses.writes[use], work.place[task])
        for k in np.flatnonzero(~work.over(task[one], task[two])).tolist():
            a, b = int(one[k]), int(two[k])
            if task[a] != task[b] or not self._in_place(int(use[a]), int(use[b])):
                self._refuse(int(use[a]), int(use[b]))

    def _refuse(self, one: int, two: int) -> NoReturn:
        uses = self.uses
        rule = "race" if uses.value[one] == uses.value[two] else "clobber"
        a, b = (self.facts.names[uses.operator[use]] for use in (one, two))
        refuse(rule, f"operator '{b}' may touch bytes while '{a}' needs them: a wait is missing")
