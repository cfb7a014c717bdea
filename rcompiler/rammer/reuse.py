"""Values that share bytes: one must be over before the other is written, in every execution.

Most pairs are settled whole: all accesses of one come before all writes of the other. The rest
(in-place operators, overlaps of a part) is decided on the exact bytes of the runs.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rcompiler.errors import ScheduleError
from rcompiler.rammer.overlap import Bools, Shares, box_pairs
from rcompiler.rammer.placement import Placement, describe
from rcompiler.rammer.regions import Ints, disjoint, intersect_ranges

Operand = tuple[str, int]
_AT_ONCE = 1 << 10  # values whose accesses are joined at once: bounds the memory


class Clash(Exception):
    """Two runs of one or two operators that may spoil each other's bytes of the same memory.

    The operands are those through which runs number i and j touch common bytes; verb: what the
    second run does there. Who plans memory tries many pairs and drops what it may not share, so
    only `error` makes the text.
    """

    def __init__(
        self, placement: Placement, one: Operand, i: int, two: Operand, j: int, verb: str
    ) -> None:
        super().__init__(one, i, two, j, verb)
        self._placement, self._verb = placement, verb
        self._one, self._i, self._two, self._j = one, i, two, j

    @property
    def operators(self) -> tuple[str, str]:
        """The operators of the two runs."""
        return self._one[0], self._two[0]

    def error(self) -> ScheduleError:
        """What the user is told."""
        placement, one, two = self._placement, self._one, self._two
        order = placement.order
        a, b = placement.runs[one[0]], placement.runs[two[0]]
        left, right = placement.shares(*one), placement.shares(*two)
        ranges = intersect_ranges(left.bytes_of(self._i), right.bytes_of(self._j))
        names = [(*r.operator.inputs, *r.operator.outputs)[o[1]] for r, o in ((a, one), (b, two))]
        uses = "writes" if one[1] >= len(a.operator.inputs) else "reads"
        return ScheduleError(
            f"{describe(order, int(a.which[self._i]))} {uses} {names[0]}, but "
            f"{describe(order, int(b.which[self._j]))} {self._verb} {names[1]} over it: bytes "
            f"{ranges[0, 0]}..{ranges[0, 1] - 1} of the same memory. Give the values different "
            "bytes, or order the two by a signal and a wait",
            "clobber",
        )


@dataclass(frozen=True)
class LiveRanges:
    """When root values are in use. names: n roots, sorted by their last access.

    ends: (n, eus) instructions of each EU up to the last access; starts: (n, eus) instructions
    that are over before the first write; first, last: (n,) turn of the first write and of the last
    access.
    """

    names: list[str]
    ends: NDArray[np.int32]
    starts: NDArray[np.int32]
    first: Ints
    last: Ints


def live_ranges(placement: Placement, roots: Sequence[str]) -> LiveRanges:
    """Summarise all accesses of written root values; values that no run touches are left out."""
    graph, times, row = placement.graph, placement.times, placement.row
    writers = {r: [row[op] for op, _ in graph.writers[r]] for r in roots}
    users = {r: [*w, *(row[op] for op, _ in graph.readers.get(r, ()))] for r, w in writers.items()}
    last = dict(zip(roots, _each(np.maximum, times.last, users.values()).tolist(), strict=True))
    names = sorted((r for r in roots if last[r] >= 0), key=lambda r: (last[r], r))
    return LiveRanges(
        names,
        _each(np.maximum, times.ends, [users[r] for r in names]),
        _each(np.minimum, times.starts, [writers[r] for r in names]),
        _each(np.minimum, times.first, [writers[r] for r in names]),
        np.array([last[r] for r in names], np.int64),
    )


def _each(join: np.ufunc, rows: np.ndarray, groups: Collection[Sequence[int]]) -> np.ndarray:
    """(n, ...): the rows of each of n groups joined; none is empty."""
    found, all_groups = np.zeros((len(groups), *rows.shape[1:]), rows.dtype), list(groups)
    for low in range(0, len(all_groups), _AT_ONCE):
        some = all_groups[low : low + _AT_ONCE]
        sizes = np.array([len(group) for group in some])
        picked = rows[np.concatenate(some)]
        found[low : low + _AT_ONCE] = join.reduceat(picked, np.cumsum(sizes) - sizes, axis=0)
    return found


def check_reuse(placement: Placement) -> None:
    """Check that values with common bytes use them one after the other. Raises ScheduleError."""
    spaces: dict[tuple[str, int], list[str]] = {}
    for root in placement.graph.writers:
        if root in placement.place:
            spaces.setdefault(placement.place[root][0], []).append(root)
    try:
        for roots in spaces.values():
            for use in _apart(placement, live_ranges(placement, roots)):
                _Occupants(placement, use).check()
        for root, (space, _) in placement.place.items():
            if placement.graph.value[root].kind == "input":
                for written in spaces.get(space, ()):
                    check_last_value(placement, root, written)
    except Clash as clash:
        raise clash.error() from None


def _apart(placement: Placement, use: LiveRanges) -> Iterator[LiveRanges]:
    """The values of one space in sets that have no byte in common, without those that are alone."""
    low = np.array([placement.place[root][1] for root in use.names], np.int64)
    size = np.array([placement.graph.value[root].bytes for root in use.names], np.int64)
    order = np.argsort(low, kind="stable")
    end = np.maximum.accumulate(low[order] + size[order])
    for some in np.split(order, np.flatnonzero(low[order][1:] >= end[:-1]) + 1):
        if len(some) > 1:
            some.sort()
            names = [use.names[k] for k in some.tolist()]
            ends, starts = use.ends[some], use.starts[some]
            yield LiveRanges(names, ends, starts, use.first[some], use.last[some])


class _Occupants:
    """Values of one space, in the order of their first writes, and the bytes they still hold.

    A value that comes after another one on all common bytes takes them over: whatever is written
    there later comes after both if it comes after the later one. So each value is compared with the
    last ones at its bytes only.
    """

    def __init__(self, placement: Placement, use: LiveRanges) -> None:
        self.placement, self.use = placement, use
        graph, place = placement.graph, placement.place
        self.start = np.array([place[root][1] for root in use.names], np.int64)
        self.end = self.start + [graph.value[root].bytes for root in use.names]
        # Bytes that nothing written later has taken over: sorted and disjoint intervals.
        self.held = [
            [(start + low, start + high) for low, high in graph.written_spans(root)]
            for root, start in zip(use.names, self.start.tolist(), strict=True)
        ]

    def check(self) -> None:
        """Check each value against earlier ones. Raises Clash."""
        done: list[int] = []
        alive = np.zeros(0, np.int64)  # those that hold bytes
        for i in np.argsort(self.use.first, kind="stable").tolist():
            common = self._common(alive, i)
            near = [j for j in common if meet(self.held[j], self.held[i])]
            if not all([self._take_over(j, i) for j in near]):
                # What those took over is not known to come before this one.
                for j in self._common(np.array(done, np.int64), i):
                    if j not in near:
                        self._take_over(j, i)
            gone = [j for j in near if not self.held[j]]
            alive = np.append(alive[~np.isin(alive, gone)] if gone else alive, i)
            done.append(i)

    def _common(self, some: Ints, i: int) -> list[int]:
        """Those of some values that may have bytes in common with value i."""
        found = some[(self.start[some] < self.end[i]) & (self.start[i] < self.end[some])]
        return sorted(found.tolist())

    def _take_over(self, earlier: int, later: int) -> bool:
        """Check a pair; whether the later one comes after the earlier one on all common bytes."""
        use = self.use
        if not (use.ends[earlier] <= use.starts[later]).all() and not check_pair(
            self.placement, use.names[earlier], use.names[later]
        ):
            return False
        self.held[earlier] = without(self.held[earlier], self.held[later])
        return True


def check_pair(placement: Placement, one: str, two: str) -> bool:
    """Check two root values that have bytes in common, run by run. Raises Clash.

    Returns whether every access of `one` comes before every write of `two` at common bytes.
    """
    graph = placement.graph

    def writes(root: str) -> list[Operand]:
        return [*map(graph.writing, graph.writers[root])]

    def reads_before(owner: str, intruder: str) -> bool:
        reads = graph.readers.get(owner, ())
        pairs = [(read, write) for write, read in _near(placement, writes(intruder), reads)
                 if not in_place(placement, read, write)]  # fmt: skip
        producers = _Producers(placement, writes(owner))
        return all([_check_read(placement, producers, *pair) for pair in pairs])

    pairs = _near(placement, writes(one), writes(two))
    forward = all([_check_writes(placement, *pair) for pair in pairs])  # lists: check all of them
    forward &= reads_before(one, two)
    if not forward:  # else what reads `two` comes, after the writes of it, after all of `one`
        reads_before(two, one)
    return forward


def _near(
    placement: Placement, ones: Sequence[Operand], twos: Sequence[Operand]
) -> list[tuple[Operand, Operand]]:
    """The pairs of two operands that may touch common bytes, in the order of `ones` and `twos`.

    A loop collects a row of a value in each of its steps: of two such values only the rows of one
    place meet, which are as many as there are steps, and not as many as there are pairs.
    """

    def hulls(operands: Sequence[Operand]) -> Ints:
        shares = (placement.shares(*each) for each in operands)
        found = np.array([(each.base, each.end) for each in shares], np.int64)
        return found.reshape(len(operands), 1, 2)

    parts = list(box_pairs(hulls(ones), hulls(twos)))
    i, j = (np.concatenate(column) for column in zip(*parts, strict=True)) if parts else ((), ())
    order = np.lexsort((j, i))
    return [(ones[i[k]], twos[j[k]]) for k in order.tolist()]


def check_last_value(placement: Placement, state: str, written: str) -> None:
    """Check that what a launch begins with is read before it is written over. Raises Clash.

    state: a root value that is there before the first run; written: one over the same memory.
    """
    graph, times, row = placement.graph, placement.times, placement.row
    for read in graph.readers.get(state, ()):
        for writer in graph.writers[written]:
            write = graph.writing(writer)
            over = (times.ends[row[read[0]]] <= times.starts[row[write[0]]]).all()
            if not over and not in_place(placement, read, write):
                _check_last_read(placement, read, write)


def _check_last_read(placement: Placement, read: Operand, write: Operand) -> None:
    """Each read of what was there before any write comes before the writes of common bytes."""
    i, j = _pairs(placement, read, write)
    late = ~_precedes(placement, read, i, write, j)
    if read[0] == write[0]:
        for which in i[late & (i == j)].tolist():
            _check_tasks(placement, read, write, which)
        late &= i != j
    if late.any():
        k = int(np.flatnonzero(late)[0])
        verb = "may, at the same time or before, write"
        raise Clash(placement, read, int(i[k]), write, int(j[k]), verb)


def in_place(placement: Placement, read: Operand, write: Operand) -> bool:
    """Whether an operator writes a result exactly where, and after, it reads that operand."""
    if read[0] != write[0]:
        return False
    runs = placement.runs[read[0]]
    if (read[1], write[1] - len(runs.operator.inputs)) not in runs.kernel.in_place:
        return False
    source, target = placement.shares(*read), placement.shares(*write)
    same = source.base == target.base and source.access == target.access
    return same and disjoint(runs.kernel.grid, target.access)


def _pairs(placement: Placement, one: Operand, two: Operand) -> tuple[Ints, Ints]:
    """Runs, by their numbers in their operators, that touch common bytes through two operands."""
    return placement.touching.pairs(placement.shares(*one), placement.shares(*two))


def _precedes(placement: Placement, one: Operand, i: Ints, two: Operand, j: Ints) -> Bools:
    first, second = placement.runs[one[0]].which[i], placement.runs[two[0]].which[j]
    return placement.order.precedes(first, second)


def _check_writes(placement: Placement, one: Operand, two: Operand) -> bool:
    """Writes of common bytes have an order; whether `one` is always first."""
    i, j = _pairs(placement, one, two)
    later = ~_precedes(placement, one, i, two, j)
    if not later.any():
        return True
    i, j = i[later], j[later]
    free = ~_precedes(placement, two, j, one, i)
    if one[0] == two[0]:  # two results of one operator: the tasks of a run have an order
        for k in np.flatnonzero(i == j).tolist():
            free[k] = _task_pairs(placement, one, two, int(i[k])).diagonal().any()
    if free.any():
        k = int(np.flatnonzero(free)[0])
        raise Clash(placement, one, int(i[k]), two, int(j[k]), "writes, in no order,")
    return False


class _Producers:
    """What writes a value, and when other values are written over it: the same for all reads."""

    def __init__(self, placement: Placement, operands: list[Operand]) -> None:
        self.operands = operands
        self._placement = placement
        self._spoiled: dict[tuple[Operand, Operand], tuple[Ints, Ints]] = {}

    def spoiled(self, write: Operand, producer: Operand) -> tuple[Ints, Ints]:
        """Runs of a write, and of a producer, that touch common bytes and where the write is not
        certainly over before.
        """
        key = (write, producer)
        if key not in self._spoiled:
            over, made = _pairs(self._placement, write, producer)
            late = ~_precedes(self._placement, write, over, producer, made)
            self._spoiled[key] = over[late], made[late]
        return self._spoiled[key]


def _check_read(placement: Placement, producers: _Producers, read: Operand, write: Operand) -> bool:
    """A write of another value: after the read, or before the read value was written there.

    Returns whether it is always after the read.
    """
    i, j = _pairs(placement, read, write)
    early = ~_precedes(placement, read, i, write, j)
    if read[0] == write[0]:
        for which in i[early & (i == j)].tolist():
            _check_tasks(placement, read, write, which)
        early &= i != j
    if not early.any():
        return True
    i, j = i[early], j[early]
    unordered = ~_precedes(placement, write, j, read, i)
    if unordered.any():
        k = int(np.flatnonzero(unordered)[0])
        verb = "may, at the same time or before, write"
        raise Clash(placement, read, int(i[k]), write, int(j[k]), verb)
    for producer in producers.operands:
        spoiled = producers.spoiled(write, producer)
        if len(spoiled[0]):
            _check_between(placement, producer, spoiled, (read, i), (write, j))
    return False


def _check_between(
    placement: Placement,
    producer: Operand,
    spoiled: tuple[Ints, Ints],
    reads: tuple[Operand, Ints],
    writes: tuple[Operand, Ints],
) -> None:
    """Writes of another value that come before reads: also before the value itself is written."""
    (read, i), (write, j), (over, made) = reads, writes, spoiled
    left, right = placement.shares(*read), placement.shares(*write)
    written = placement.shares(*producer)
    for reader, writer in zip(i.tolist(), j.tolist(), strict=True):
        suspects = made[over == writer].tolist()
        if not suspects:
            continue
        shared = intersect_ranges(left.bytes_of(reader), right.bytes_of(writer))
        for k in suspects:
            same_run = (write[0], writer) == (producer[0], k)
            if same_run and not _overwrites(placement, producer, write, writer, shared):
                continue
            if len(intersect_ranges(shared, written.bytes_of(k))):
                raise Clash(placement, read, reader, write, writer, "before that writes")


def _check_tasks(placement: Placement, read: Operand, write: Operand, which: int) -> None:
    """One run whose result lies over its operand: no task may read what it or an earlier wrote."""
    if np.tril(_task_pairs(placement, read, write, which)).any():
        raise Clash(placement, read, which, write, which, "in place, writes")


def _overwrites(
    placement: Placement, producer: Operand, write: Operand, which: int, shared: Ints
) -> bool:
    """Whether, in one run, a task writes over what it or an earlier one produced of `shared`."""
    first, second = (_tasks_of(placement, operand, which) for operand in (producer, write))
    for i, j in np.argwhere(np.triu(placement.touching(first, second))).tolist():
        common = intersect_ranges(first.bytes_of(i), second.bytes_of(j))
        if len(intersect_ranges(shared, common)):
            return True
    return False


def _task_pairs(placement: Placement, one: Operand, two: Operand, which: int) -> Bools:
    """(n, n): which tasks of a run touch, through two operands, a common byte."""
    return placement.touching(_tasks_of(placement, one, which), _tasks_of(placement, two, which))


def _tasks_of(placement: Placement, operand: Operand, which: int) -> Shares:
    """The tasks of one run, one by one."""
    runs = placement.runs[operand[0]]
    tasks = runs.first[which] + runs.stride[which] * np.arange(runs.count[which])
    shares, ones = placement.shares(*operand), np.ones(len(tasks), np.int64)
    return Shares(runs.kernel.grid, shares.access, shares.base, tasks, ones, ones)


# Most values have few byte intervals, for which numpy's calls are too long. A list of them is
# sorted and disjoint: [(first byte, byte behind the last), ...].
Interval = tuple[int, int]


def meet(a: Sequence[Interval], b: Sequence[Interval]) -> bool:
    """Whether two lists have a byte in common."""
    i = j = 0
    while i < len(a) and j < len(b):
        if a[i][1] <= b[j][0]:
            i += 1
        elif b[j][1] <= a[i][0]:
            j += 1
        else:
            return True
    return False


def without(a: Sequence[Interval], b: Sequence[Interval]) -> list[Interval]:
    """What of `a` is not in `b`."""
    rest: list[Interval] = []
    j = 0
    for low, high in a:
        while j < len(b) and b[j][1] <= low:
            j += 1
        k = j
        while low < high and k < len(b) and b[k][0] < high:
            if low < b[k][0]:
                rest.append((low, b[k][0]))
            low = b[k][1]
            k += 1
        if low < high:
            rest.append((low, high))
    return rest
