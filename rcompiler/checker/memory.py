"""Pairs of accesses that touch common bytes, held against the order."""

from collections.abc import Iterator, Sequence
from typing import NoReturn

import numpy as np

from rcompiler.checker.boxes import Access
from rcompiler.checker.facts import Ints, ramp, refuse
from rcompiler.checker.order import Order

_AT_ONCE = 1 << 20
_MOST_PAIRS = 1 << 27  # of runs of two operators


class Uses:
    """Operands of operators, and the runs of these.

    owner, kernel, number, access, root, low, high, writes: (u,) of each use: whose operand it is
    (reads come first), which of `accesses`, the value that owns its bytes, and these in its memory.
    run, tasks, rank: (r,) of each run: instruction, (first, count, stride), its place in one
    execution; sizes, begin: (o,) runs of each operator.
    """

    def __init__(
        self,
        order: Order,
        accesses: Sequence[Access],
        columns: Sequence[Ints],
        runs: tuple[Ints, Ints, Ints],
        names: tuple[Sequence[str], Sequence[str]],
    ) -> None:
        """runs: instruction, operator, tasks. names: of operators and of values, for messages."""
        # in the order of tasks, so that alike operators are alike whoever runs what
        sort = np.lexsort((runs[2][:, 0], runs[1]))
        self.run, operator, self.tasks = (part[sort] for part in runs)
        self.order, self.accesses, self.names = order, accesses, names
        self.owner, self.kernel, self.number, self.access, self.root = columns[:5]
        self.low, self.high, self.writes = columns[5:]
        self.sizes = np.bincount(operator)
        self.begin = np.cumsum(self.sizes) - self.sizes
        clocks = order.clock(self.run)
        self._starts = np.minimum.reduceat(clocks, self.begin, axis=0) if len(operator) else clocks
        self._ends = np.zeros((len(self.sizes), order.lines), np.int32)
        here = (operator, order.line[self.run])
        np.maximum.at(self._ends, here, (order.place[self.run] + 1).astype(np.int32))
        turn, program = order.turn[order.segment[self.run]], order.thread_program(self.run)
        self.rank = np.empty(len(self.run), np.int64)
        self.rank[np.lexsort((order.place[self.run], turn, program))] = np.arange(len(self.run))
        # layers repeat, and what their runs touch
        self._known: dict[tuple[object, ...], np.ndarray] = {}
        self._boxes: dict[tuple[int, bytes, bool], tuple[Ints, Ints, Ints]] = {}

    def clashes(self, one: Ints, two: Ints, either: bool = False) -> Iterator[tuple[int, int]]:
        """Of pairs of uses those with runs that touch common bytes, where the first is not known
        to be over before the second.

        either: or the second before the first; then the uses of a pair are the same.
        """
        if not either:
            one, two = self._late(one, two)
        for a, b in zip(one.tolist(), two.tolist(), strict=True):
            first, second = (self.run[self._runs(use)] for use in (a, b))
            if len(first) * len(second) > _MOST_PAIRS:
                refuse("notes", "the schedule is too large to be checked")
            free = ~self.order.before(first[:, None], second)
            if either:
                free = np.triu(free & free.T, 1)
            if free.any() and (free & self._touching(a, b)).any():
                yield a, b

    def check(self, one: Ints, two: Ints, rule: str, either: bool = False) -> None:
        """No pairs of uses clash."""
        for pair in self.clashes(one, two, either):
            self.refuse(rule, *pair)

    def refuse(self, rule: str, one: int, two: int) -> NoReturn:
        """Raises Refused for a pair of uses."""
        (a, x), (b, y) = (
            (self.names[0][self.owner[use]], self.names[1][self.root[use]]) for use in (one, two)
        )
        refuse(
            rule,
            f"operator '{a}' is not known to be over with '{x}' before operator '{b}' uses the "
            f"same bytes as '{y}': a signal and a wait are missing",
        )

    def tasks_on(self, some: Ints, low: int, high: int) -> tuple[Ints, Ints, Ints, Ints]:
        """(use, run, number of the task in it, (begin, end)) of all that these uses do there."""
        found = [np.zeros((5, 0), np.int64)]
        for use in some.tolist():
            access, runs = self.accesses[self.access[use]], self._runs(use)
            first, count, stride = self.tasks[runs].T
            run, number = np.repeat(np.arange(len(first)), count), ramp(count)
            ones = np.ones(len(run), np.int64)
            task, boxes = access.ranges(first[run] + stride[run] * number, ones, ones)
            box, spans = access.spans(boxes)
            task, spans = task[box], np.clip(spans + self.low[use], low, high)
            columns = (np.full(len(task), use), runs.start + run[task], number[task], *spans.T)
            found.append(np.stack(columns)[:, spans[:, 0] < spans[:, 1]])
        use, run, number, *span = np.concatenate(found, axis=1)
        return use, run, number, np.stack(span)

    def _late(self, one: Ints, two: Ints) -> tuple[Ints, Ints]:
        """Of pairs of uses those where not all of the first operator is over before the second."""
        late = np.zeros(len(one), bool)
        step = max(1, _AT_ONCE // max(1, self.order.lines))
        for low in range(0, len(one), step):
            part = slice(low, low + step)
            ends, starts = self._ends[self.owner[one[part]]], self._starts[self.owner[two[part]]]
            late[part] = (ends > starts).any(axis=1)
        return one[late], two[late]

    def _runs(self, use: int) -> slice:
        begin = int(self.begin[self.owner[use]])
        return slice(begin, begin + int(self.sizes[self.owner[use]]))

    def _touching(self, one: int, two: int) -> np.ndarray:
        """(n, m): which runs of a use touch bytes of runs of another one."""
        sides = [(int(self.access[use]), self.tasks[self._runs(use)]) for use in (one, two)]
        apart = int(self.low[one] - self.low[two])
        key = (apart, *((number, tasks.tobytes()) for number, tasks in sides))
        if key in self._known:
            return self._known[key]
        boxes = not apart and len({self.accesses[number].key for number, _ in sides}) == 1
        (own, left, near), (other, right, hulls) = (self._pieces(*side, boxes) for side in sides)
        near, left = near + apart, left if boxes else left + apart
        # running maxima of the ends are sorted and leave nothing out
        first = np.searchsorted(np.maximum.accumulate(hulls[:, 1]), near[:, 0], side="right")
        sizes = np.maximum(np.searchsorted(hulls[:, 0], near[:, 1]) - first, 0)
        j = ramp(sizes) + np.repeat(first, sizes)
        i = np.repeat(np.arange(len(near)), sizes)
        p, q = left[i], right[j]
        meet = ((p[:, :, 0] < q[:, :, 1]) & (q[:, :, 0] < p[:, :, 1])).all(axis=1)
        found = np.zeros([len(tasks) for _, tasks in sides], bool)
        found[own[i[meet]], other[j[meet]]] = True
        self._known[key] = found
        return found

    def _pieces(self, number: int, tasks: Ints, boxes: bool) -> tuple[Ints, Ints, Ints]:
        """(run, box, hull) of all that runs touch, by their first bytes; or byte intervals as boxes
        of one dim.
        """
        key = (number, tasks.tobytes(), boxes)
        if key not in self._boxes:
            access = self.accesses[number]
            owner, found = access.ranges(*tasks.T)
            hulls = access.hulls(found)
            if not boxes:
                index, hulls = access.spans(found)
                owner, found = owner[index], hulls[:, None]
            sort = np.argsort(hulls[:, 0], kind="stable")
            self._boxes[key] = owner[sort], found[sort], hulls[sort]
        return self._boxes[key]


def matches(keys: Ints, wanted: Ints) -> tuple[Ints, Ints]:
    """(number of the wanted one, place in the sorted keys) of all that are equal."""
    begin = np.searchsorted(keys, wanted)
    sizes = np.searchsorted(keys, wanted, side="right") - begin
    steps = ramp(sizes)
    return np.repeat(np.arange(len(wanted)), sizes), np.repeat(begin, sizes) + steps
