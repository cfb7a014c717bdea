"""Whether what operators read is what it should be: every byte, in every execution."""

import numpy as np

from rcompiler.checker.boxes import meeting
from rcompiler.checker.cells import neighbours
from rcompiler.checker.facts import MOST, Bools, Facts, Ints, distinct, forbid, ramp, refuse
from rcompiler.checker.order import Order
from rcompiler.checker.streams import Steps
from rcompiler.checker.uses import Uses
from rcompiler.checker.work import Work

_KINDS, _FAR = 64, 4 * MOST  # of pairs of uses, compared at once, and bytes between them


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
        steps = Steps(facts)
        self.work = Work(facts, steps, Order(facts, steps))
        self.uses = Uses(facts, self.work)

    def all(self) -> None:
        """Every rule."""
        self._complete()
        low, high = self.uses.low, self.uses.high
        one, two = self._unsafe(*self._late(*self._pairs()))
        begin, end = np.maximum(low[one], low[two]), np.minimum(high[one], high[two])
        for place in sorted({*zip(begin.tolist(), end.tolist(), strict=True)}):
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
        forbid(fixed & ~same, "buffer", "two constants lie on the same bytes")
        forbid(same & uses.writes[one] & uses.writes[two], "task", "two operators write one value")
        own = np.flatnonzero(uses.writes & ~uses.disjoint & (uses.run < 0))
        return np.append(one[~fixed], own), np.append(two[~fixed], own)

    def _late(self, one: Ints, two: Ints) -> tuple[Ints, Ints]:
        """Of pairs of uses those where not all of the first is over before the second starts."""
        uses, work, order = self.uses, self.work, self.work.order
        own = uses.run[one] >= 0
        wrong = np.flatnonzero(own)[~order.before(uses.run[one[own]], uses.run[two[own]])]
        self._refuse(one[wrong], two[wrong])
        one, two = one[~own], two[~own]
        runs = np.argsort(work.operator, kind="stable")
        begin = np.searchsorted(work.operator[runs], np.arange(len(work.kernel)))
        starts = np.minimum.reduceat(order.clocks[runs], begin) if len(begin) else order.clocks
        ends = np.zeros_like(starts)
        ends[work.operator, order.line] = order.place + 1  # of the last run in each line
        late = (ends[uses.operator[one]] > starts[uses.operator[two]]).any(axis=1)
        return one[late], two[late]

    def _unsafe(self, one: Ints, two: Ints) -> tuple[Ints, Ints]:
        """Of pairs of uses those of which tasks may touch common bytes in the wrong order."""
        uses, work = self.uses, self.work
        columns = uses.access[one], uses.access[two], uses.low[one] - uses.low[two], one == two
        kinds, kind = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
        unsafe, kind, total = np.zeros(len(one), bool), kind.reshape(-1), len(work.run)
        for begin in range(0, len(kinds), _KINDS):
            first, second, apart, own = kinds[begin : begin + _KINDS].T
            pairs = np.flatnonzero((kind >= begin) & (kind < begin + len(own)))
            far = np.arange(len(own)) * _FAR  # bytes of different kinds do not meet
            (of, x, low), (_, y, high) = self._spans(first, far + apart), self._spans(second, far)
            if (met := meeting(low, high)) is None:
                unsafe[pairs] = True
                continue
            of, y = divmod(distinct((of * total + x)[met[0]] * total + y[met[1]]), total)
            of, x = divmod(of, total)
            sizes = np.bincount(of, minlength=len(own))
            sizes, ends = sizes[kind[pairs] - begin], np.cumsum(sizes)[kind[pairs] - begin]
            each = np.repeat(pairs, sizes)
            task = ramp(sizes) + np.repeat(ends - sizes, sizes)
            x = x[task] + work.begin[uses.operator[one[each]]]
            y = y[task] + work.begin[uses.operator[two[each]]]
            # tasks that add to a result may do so in any order, but one after the other
            over = work.over(x, y) | ((own[of[task]] > 0) & (work.over(y, x) | (x == y)))
            unsafe[each[~over]] = True
        unsafe &= ~self._in_place(one, two)
        return one[unsafe], two[unsafe]

    def _spans(self, accesses: Ints, low: Ints) -> tuple[Ints, Ints, Ints]:
        """(which one, task, its bytes) of accesses that begin at some bytes."""
        pieces = [self.work.accesses[access].spans for access in accesses.tolist()]
        which = np.repeat(np.arange(len(pieces)), [len(tasks) for tasks, _ in pieces])
        tasks, spans = map(np.concatenate, zip(*pieces, strict=True))
        return which, tasks, spans + low[which, None]

    def _in_place(self, one: Ints, two: Ints) -> Bools:
        """Whether operators write each element where, and after, they read that very element."""
        uses, work = self.uses, self.work
        same = (uses.operator[one] == uses.operator[two]) & (uses.low[one] == uses.low[two])
        pairs = uses.access[one] * len(work.accesses) + uses.access[two]
        return same & np.isin(pairs, work.in_place)

    def _byte_by_byte(self, low: int, high: int) -> None:
        """The values of some bytes, task by task."""
        uses, work = self.uses, self.work
        here = np.flatnonzero(~uses.fixed & (uses.low < high) & (low < uses.high))
        which, task, spans = self._spans(uses.access[here], uses.low[here])
        begin, end = spans.clip(low, high).T
        some = begin < end
        use, begin, end = here[which[some]], begin[some], end[some]
        task = task[some] + work.begin[uses.operator[use]]
        one, two = neighbours(begin, end, uses.value[use], uses.writes[use], work.place[task])
        wrong = ~work.over(task[one], task[two])
        wrong &= (task[one] != task[two]) | ~self._in_place(use[one], use[two])
        self._refuse(use[one[wrong]], use[two[wrong]])

    def _refuse(self, one: Ints, two: Ints) -> None:
        """Refuses the first of some pairs of uses, if there is one."""
        uses = self.uses
        for use, other in zip(one[:1], two[:1], strict=True):
            rule = "race" if uses.value[use] == uses.value[other] else "clobber"
            a, b = (self.facts.names[uses.operator[n]] for n in (use, other))
            refuse(rule, f"'{b}' may touch bytes while operator '{a}' needs them: no wait")
