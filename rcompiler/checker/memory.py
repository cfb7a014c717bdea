"""Pairs of accesses that touch common bytes, held against the order."""

from collections.abc import Sequence
from typing import NoReturn

import numpy as np

from rcompiler.checker.boxes import Access
from rcompiler.checker.facts import Ints, ramp, refuse
from rcompiler.checker.order import Order

MOST_PAIRS = 1 << 27
_MOST_MATCHES = 1 << 26
_AT_ONCE = 1 << 20


class Uses:
    """Operands of operators, and the runs of these.

    owner, kernel, number, access, root, low, high, writes: (u,) of each use: whose operand it is
    (reads come first), which of `accesses`, the value that owns its bytes, and these in its memory.
    run, operator, tasks: (r,) of each run: instruction, operator, (first, count, stride).
    """

    def __init__(
        self,
        order: Order,
        accesses: Sequence[Access],
        columns: Sequence[Ints],
        runs: Ints,
        operator: Ints,
        tasks: Ints,
        names: tuple[Sequence[str], Sequence[str]],
    ) -> None:
        """names: of operators and of values, for messages."""
        sort = np.argsort(operator, kind="stable")
        self.order, self.accesses, self.names = order, accesses, names
        self.run, self.operator, self.tasks = runs[sort], operator[sort], tasks[sort]
        self.owner, self.kernel, self.number, self.access, self.root = columns[:5]
        self.low, self.high, self.writes = columns[5:]
        operators = int(operator.max(initial=-1)) + 1
        self.sizes = np.bincount(operator, minlength=operators)
        self.begin = np.cumsum(self.sizes) - self.sizes
        clocks = order.clock(self.run)
        self.starts = np.minimum.reduceat(clocks, self.begin, axis=0) if operators else clocks
        self.ends = np.zeros((operators, order.lines), np.int32)
        here = (self.operator, order.line[self.run])
        np.maximum.at(self.ends, here, (order.place[self.run] + 1).astype(np.int32))
        # place of each run in one execution
        turn, program = order.turn[order.segment[self.run]], order.thread_program(self.run)
        self.rank = np.empty(len(self.run), np.int64)
        self.rank[np.lexsort((order.place[self.run], turn, program))] = np.arange(len(self.run))
        shapes: dict[object, int] = {}
        keys = [shapes.setdefault(a.key, len(shapes)) for a in accesses]
        self._shape = np.array(keys, np.int64)[self.access]

    def late(self, one: Ints, two: Ints) -> tuple[Ints, Ints]:
        """Of pairs of uses those where not all of the first operator is over before the second."""
        late = np.zeros(len(one), bool)
        step = max(1, _AT_ONCE // max(1, self.order.lines))
        for low in range(0, len(one), step):
            part = slice(low, low + step)
            ends, starts = self.ends[self.owner[one[part]]], self.starts[self.owner[two[part]]]
            late[part] = (ends > starts).any(axis=1)
        return one[late], two[late]

    def clashes(
        self, one: Ints, two: Ints, rule: str, either: bool = False
    ) -> list[tuple[int, int]]:
        """Of pairs of uses those with runs that touch common bytes, where the first is not known
        to be over before the second.

        either: or the second before the first; then the uses of a pair are the same.
        """
        if not either:
            one, two = self.late(one, two)
        n, m = self.sizes[self.owner[one]], self.sizes[self.owner[two]]
        if int((n * m).sum()) > MOST_PAIRS:
            refuse(rule, "too many runs to compare")
        pair = np.repeat(np.arange(len(one)), n * m)
        number = ramp(n * m)
        i, j = number // np.maximum(m[pair], 1), number % np.maximum(m[pair], 1)
        a, b = self.begin[self.owner[one[pair]]] + i, self.begin[self.owner[two[pair]]] + j
        bad = ~self.order.before(self.run[a], self.run[b])
        if either:
            bad &= (a < b) & ~self.order.before(self.run[b], self.run[a])
        pair, i, j = pair[bad], i[bad], j[bad]
        return self._meet(one[pair], i, two[pair], j, rule) if len(pair) else []

    def _meet(self, one: Ints, i: Ints, two: Ints, j: Ints, rule: str) -> list[tuple[int, int]]:
        """Pairs of uses where run i of one and run j of the other touch common bytes; all are
        sorted by pair.
        """
        self._make(np.unique(np.concatenate([one, two])))
        (a, p), (b, q) = self._pieces(one, i), self._pieces(two, j)
        sizes = p * q
        if int(sizes.sum()) > MOST_PAIRS:
            refuse(rule, "too many boxes to compare")
        pair, number = np.repeat(np.arange(len(one)), sizes), ramp(sizes)
        x, y = a[pair] + number // np.maximum(q[pair], 1), b[pair] + number % np.maximum(q[pair], 1)
        left, right = self._hull[x], self._hull[y]
        near = (left[:, 0] < right[:, 1]) & (right[:, 0] < left[:, 1])
        pair, x, y = pair[near], x[near], y[near]
        u, v = one[pair], two[pair]
        same = (self._shape[u] == self._shape[v]) & (self.low[u] == self.low[v])
        p, q = self._box[x[same]], self._box[y[same]]
        meet = ((p[:, :, 0] < q[:, :, 1]) & (q[:, :, 0] < p[:, :, 1])).all(axis=1)
        found = set(zip(u[same][meet].tolist(), v[same][meet].tolist(), strict=True))
        known: dict[tuple[int, int], Ints] = {}
        for k in np.flatnonzero(~same).tolist():
            sides = ((int(u[k]), int(x[k])), (int(v[k]), int(y[k])))
            for side in sides:
                if side not in known:
                    known[side] = self._spans(*side)
            left, right = (known[side] for side in sides)
            after = np.searchsorted(left[:, 1], right[:, 0], side="right")
            if (np.searchsorted(left[:, 0], right[:, 1]) > after).any():
                found.add((int(u[k]), int(v[k])))
        return sorted(found)

    def check(self, one: Ints, two: Ints, rule: str, either: bool = False) -> None:
        """No pairs of uses clash."""
        for pair in self.clashes(one, two, rule, either):
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

    def tasks_on(self, some: Ints, low: int, high: int) -> tuple[Ints, Ints, Ints, Ints, Ints]:
        """(use, run, number of the task in it, first byte, end) of all that these uses do there."""
        found = [np.zeros((5, 0), np.int64)]
        for use in some.tolist():
            owner, access = self.owner[use], self.accesses[self.access[use]]
            first, count, stride = self.tasks[self.begin[owner] :][: self.sizes[owner]].T
            if int(count.sum()) > MOST_PAIRS:
                refuse("clobber", "too many tasks on the same bytes")
            run, number = np.repeat(np.arange(len(first)), count), ramp(count)
            ones = np.ones(len(run), np.int64)
            task, boxes = access.ranges(first[run] + stride[run] * number, ones, ones)
            box, spans = access.spans(boxes)
            task, spans = task[box], np.clip(spans + self.low[use], low, high)
            columns = (np.full(len(task), use), self.begin[owner] + run[task], number[task])
            found.append(np.stack([*columns, *spans.T])[:, spans[:, 0] < spans[:, 1]])
        use, run, number, begin, end = np.concatenate(found, axis=1)
        return use, run, number, begin, end

    def _make(self, uses: Ints) -> None:
        """Boxes of all runs of some uses: tables of pieces, and where those of a run begin."""
        rank = max((len(access.shape) for access in self.accesses), default=0)
        boxes, hulls, owners, self._base = [], [], [], np.zeros(len(self.owner), np.int64)
        runs = 0
        for number in np.unique(self.access[uses]).tolist():
            which, access = uses[self.access[uses] == number], self.accesses[number]
            sizes = self.sizes[self.owner[which]]
            rows = np.repeat(self.begin[self.owner[which]], sizes) + ramp(sizes)
            owner, found = access.ranges(*self.tasks[rows].T)
            sort = np.argsort(owner, kind="stable")
            owner, found = owner[sort], found[sort]
            padded = np.tile(np.array([0, 1]), (len(found), rank, 1))
            padded[:, : found.shape[1]] = found
            boxes.append(padded)
            hulls.append(access.hulls(found) + np.repeat(self.low[which], sizes)[owner][:, None])
            owners.append(owner + runs)
            self._base[which] = runs + np.cumsum(sizes) - sizes
            runs += int(sizes.sum())
        self._box, self._hull = np.concatenate(boxes), np.concatenate(hulls)
        self._many = np.bincount(np.concatenate(owners), minlength=runs)
        self._at = np.cumsum(self._many) - self._many

    def _pieces(self, use: Ints, run: Ints) -> tuple[Ints, Ints]:
        """First piece and number of pieces of runs of uses."""
        row = self._base[use] + run
        return self._at[row], self._many[row]

    def _spans(self, use: int, piece: int) -> Ints:
        access = self.accesses[self.access[use]]
        box = self._box[piece : piece + 1, : len(access.shape)]
        return access.spans(box)[1] + self.low[use]


def matches(keys: Ints, wanted: Ints) -> tuple[Ints, Ints]:
    """(number of the wanted one, place in the sorted keys) of all that are equal."""
    begin = np.searchsorted(keys, wanted)
    sizes = np.searchsorted(keys, wanted, side="right") - begin
    if int(sizes.sum()) > _MOST_MATCHES:
        refuse("race", "too many accesses of the same bytes")
    return np.repeat(np.arange(len(wanted)), sizes), np.repeat(begin, sizes) + ramp(sizes)
