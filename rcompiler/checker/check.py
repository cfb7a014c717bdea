"""Whether what operators read is what it should be: every byte, in every execution.

On each byte, the values that lie there follow one another: a value is written, then read, then the
next one is written. Whoever comes after a value there comes after all before it, so neighbours are
enough.

Operators are compared whole, in the order of their first runs; where one is not over before the
other, task by task; and where that does not do (values take turns on their bytes as tasks go on),
each byte by itself.
"""

import numpy as np

from rcompiler.checker.facts import MOST, Bools, Facts, Ints, Refused, distinct, forbid, ramp
from rcompiler.checker.intervals import meeting, neighbours
from rcompiler.checker.order import Order
from rcompiler.checker.streams import Instructions
from rcompiler.checker.uses import Uses
from rcompiler.checker.work import Work

# Of pairs of uses: kinds and rows that are compared at once, and bytes between kinds.
_KINDS, _ROWS, _FAR = 64, 1 << 20, 4 * MOST


def check(facts: Facts) -> None:
    """Raises Refused for a file of which it is not certain that it may run."""
    steps = Instructions(facts)
    uses = Uses(facts, Work(facts, steps, Order(facts, steps)))
    _complete(uses)
    one, two = _unsafe(uses, *_late(uses, *_pairs(uses)))
    begin, end = np.maximum(*uses.low[[one, two]]), np.minimum(*uses.high[[one, two]])
    for place in sorted({*zip(begin.tolist(), end.tolist(), strict=True)}):
        _byte_by_byte(uses, *place)


def _complete(uses: Uses) -> None:
    """Each byte of the outputs is written, for one value."""
    first, end = uses.outputs
    own = uses.writes & (uses.low >= first) & (uses.high <= end) & (uses.low < uses.high)
    own &= uses.operator >= 0  # not what is there from the start
    low, high = np.sort(uses.low[own]), np.sort(uses.high[own])
    forbid(np.append(first, high) != np.append(low, end), "task", "an output is not written once")


def _pairs(uses: Uses) -> tuple[Ints, Ints]:
    """Uses of which one must be over before the other."""
    one, two = neighbours(uses.low, uses.high, uses.value, uses.writes, uses.place)
    twice = uses.writes[one] & uses.writes[two] & (uses.value[one] == uses.value[two])
    forbid(twice, "task", "two operators write one value")
    # what is there from the start is over before all others
    one, two = (each[uses.operator[one] >= 0] for each in (one, two))
    own = np.flatnonzero(uses.writes & ~uses.disjoint & (uses.run < 0))
    return np.append(one, own), np.append(two, own)


def _late(uses: Uses, one: Ints, two: Ints) -> tuple[Ints, Ints]:
    """Of pairs of uses those where not all of the first is over before the second starts."""
    work, order = uses.work, uses.work.order
    own = uses.run[one] >= 0
    wrong = np.flatnonzero(own)[~order.before(uses.run[one[own]], uses.run[two[own]])]
    _refuse(uses, one[wrong], two[wrong])
    one, two = one[~own], two[~own]
    runs = np.argsort(work.operator, kind="stable")
    begin = np.searchsorted(work.operator[runs], np.arange(len(work.kernel)))
    starts = order.smallest(order.runs[runs], begin, np.diff(begin, append=len(runs)), 0 * begin)
    ends = np.zeros_like(starts)
    ends[work.operator, order.line] = order.place + 1  # of the last run in each line
    parts = 1 + (len(one) * starts.shape[1] >> 18)  # so many that a cache holds each
    pairs = (np.array_split(uses.operator[each], parts) for each in (one, two))
    late = np.concatenate([(ends[a] > starts[b]).any(axis=1) for a, b in zip(*pairs, strict=True)])
    return one[late], two[late]


def _unsafe(uses: Uses, one: Ints, two: Ints) -> tuple[Ints, Ints]:
    """Of pairs of uses those of which tasks may touch common bytes in the wrong order."""
    columns = uses.access[one], uses.access[two], uses.low[one] - uses.low[two], one == two
    kinds, kind = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
    unsafe, kind, work = np.zeros(len(one), bool), kind.reshape(-1), uses.work
    rows = max([1, *(len(work.accesses[each].spans[0]) for each in {*kinds[:, :2].flat})])
    step = max(1, min(_KINDS, _ROWS // rows))
    for begin in range(0, len(kinds), step):
        first, second, apart, own = kinds[begin : begin + step].T
        pairs = np.flatnonzero((kind >= begin) & (kind < begin + len(own)))
        far = np.arange(len(own)) * _FAR  # bytes of different kinds do not meet
        (of, x, low), (_, y, high) = _spans(uses, first, far + apart), _spans(uses, second, far)
        i, j = meeting(low, high)
        of, y = divmod(distinct((of * len(work.run) + x)[i] * len(work.run) + y[j]), len(work.run))
        of, x = divmod(of, len(work.run))
        sizes = np.bincount(of, minlength=len(own))
        sizes, ends = sizes[kind[pairs] - begin], np.cumsum(sizes)[kind[pairs] - begin]
        each, task = np.repeat(pairs, sizes), ramp(sizes) + np.repeat(ends - sizes, sizes)
        x, y = (t[task] + work.begin[uses.operator[n[each]]] for t, n in ((x, one), (y, two)))
        # tasks that add to a result may do so in any order, but one after the other
        over = work.over(x, y) | ((own[of[task]] > 0) & (work.over(y, x) | (x == y)))
        unsafe[each[~over]] = True
    unsafe &= ~_in_place(uses, one, two)
    return one[unsafe], two[unsafe]


def _spans(uses: Uses, accesses: Ints, low: Ints) -> tuple[Ints, Ints, Ints]:
    """(which one, task, its bytes) of accesses that begin at some bytes."""
    pieces = [uses.work.accesses[access].spans for access in accesses.tolist()]
    which = np.repeat(np.arange(len(pieces)), [len(tasks) for tasks, _ in pieces])
    tasks, spans = map(np.concatenate, zip(*pieces, strict=True))
    return which, tasks, spans + low[which, None]


def _in_place(uses: Uses, one: Ints, two: Ints) -> Bools:
    """Whether operators write each element where, and after, they read that very element."""
    same = (uses.operator[one] == uses.operator[two]) & (uses.low[one] == uses.low[two])
    pairs = uses.access[one] * len(uses.work.accesses) + uses.access[two]
    return same & np.isin(pairs, uses.work.kernels.in_place)


def _byte_by_byte(uses: Uses, low: int, high: int) -> None:
    """The values of some bytes, task by task."""
    work, near = uses.work, (uses.low < high) & (low < uses.high)
    use, first = (np.flatnonzero(near & own) for own in (uses.operator >= 0, uses.operator < 0))
    which, task, spans = _spans(uses, uses.access[use], uses.low[use])
    begin, end = spans.clip(low, high).T
    use, task, some = use[which], task + work.begin[uses.operator[use[which]]], begin < end
    use, task, begin, end = use[some], task[some], begin[some], end[some]
    place, count = work.place[task], len(use)
    # and what is there from the start, of no task and before all of them
    use, place = np.append(use, first), np.append(place, np.full(len(first), -1))
    begin = np.append(begin, uses.low[first].clip(low, high))
    end = np.append(end, uses.high[first].clip(low, high))
    one, two = neighbours(begin, end, uses.value[use], uses.writes[use], place)
    one, two = one[one < count], two[one < count]
    wrong = ~work.over(task[one], task[two])
    wrong &= (task[one] != task[two]) | ~_in_place(uses, use[one], use[two])
    _refuse(uses, use[one[wrong]], use[two[wrong]])


def _refuse(uses: Uses, one: Ints, two: Ints) -> None:
    """Refuses the first of some pairs of uses, if there is one."""
    for use, other in zip(one[:1], two[:1], strict=True):
        rule = "race" if uses.value[use] == uses.value[other] else "clobber"
        a, b = (uses.names[uses.operator[n]] for n in (use, other))
        raise Refused(rule, f"'{b}' may touch bytes while operator '{a}' needs them: no wait")
