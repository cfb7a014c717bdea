"""Whether what operators read is what it should be: every byte, in every execution."""

from collections.abc import Iterable
from typing import NoReturn

import numpy as np

from rcompiler.checker.boxes import meeting
from rcompiler.checker.cells import neighbours
from rcompiler.checker.facts import MOST_AT_ONCE, Facts, Ints, refuse
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

    def all(self) -> None:
        """Every rule."""
        self._complete()
        low, high = self.uses.low, self.uses.high
        late = list(self._unsafe(*self._late(*self._pairs())))
        for place in sorted({(max(low[a], low[b]), min(high[a], high[b])) for a, b in late}):
            self._byte_by_byte(*place)

    def _complete(self) -> None:
        """Each byte of the outputs is written, for one value."""
        uses = self.uses
        first, end = uses.outputs
        own = uses.writes & (uses.low >= first) & (uses.high <= end) & (uses.low < uses.high)
        low, high = np.sort(uses.low[own]), np.sort(uses.high[own])
        if not np.array_equal(np.append(first, high), np.append(low, end)):
            refuse("task", "an output is not written once, all of it")

    def _pairs(self) -> tuple[Ints, Ints]:
        """Uses of which one must be over before the other. What is fixed is written by whoever
        reads it, as the one value that may ever be there.
        """
        uses = self.uses
        made = uses.writes | uses.fixed
        one, two = neighbours(uses.low, uses.high, uses.value, made, uses.place)
        same = uses.value[one] == uses.value[two]
        fixed = uses.fixed[one] & uses.fixed[two]
        if (fixed & ~same).any():
            refuse("buffer", "two constants lie on the same bytes")
        if (same & uses.writes[one] & uses.writes[two]).any():
            refuse("task", "a byte is the result of two operators")
        own = np.flatnonzero(uses.writes & ~uses.disjoint & (uses.run < 0))
        return np.append(one[~fixed], own), np.append(two[~fixed], own)

    def _late(self, one: Ints, two: Ints) -> tuple[Ints, Ints]:
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
        return one[some], two[some]

    def _unsafe(self, one: Ints, two: Ints) -> Iterable[tuple[int, int]]:
        """Of pairs of uses those of which tasks may touch common bytes in the wrong order."""
        uses, work = self.uses, self.work
        apart = uses.low[one] - uses.low[two]
        alike: dict[tuple[int, ...], list[tuple[int, int]]] = {}
        columns = uses.access[one], uses.access[two], apart, one == two, one, two
        for *key, a, b in np.stack(columns, axis=1).tolist():
            if not self._in_place(a, b):
                alike.setdefault(tuple(key), []).append((a, b))
        for (first, second, behind, own), pairs in alike.items():
            met = meeting(work.accesses[first], work.accesses[second], behind)
            if met is None:
                yield from pairs
                continue
            for some in np.array_split(pairs, 1 + len(pairs) * len(met[0]) // MOST_AT_ONCE):
                x, y = (work.begin[uses.operator[some[:, n], None]] + met[n] for n in range(2))
                over = work.over(x, y)
                if own:  # results that tasks add to, in any order, but one after the other
                    over |= work.over(y, x) | (x == y)
                yield from map(tuple, some[~over.all(axis=1)].tolist())

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
