"""Values that share bytes: one must be over before the other is written, in every execution.

Most pairs are settled whole: all accesses of one come before all writes of the other. The rest
(in-place operators, overlaps of a part) is decided on the exact bytes of the runs.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rcompiler.errors import ScheduleError
from rcompiler.rammer.overlap import Shares
from rcompiler.rammer.placement import Placement, describe
from rcompiler.rammer.regions import (
    Ints,
    disjoint,
    intersect_ranges,
)

_BLOCK = 64
Operand = tuple[str, int]


@dataclass(frozen=True)
class Lives:
    """When root values are in use. names: n roots, sorted by their last access.

    ends: (n, eus) instructions of each EU up to the last access; starts: (n, eus) instructions
    that are over before the first write; last: (n,) turn of the last access.
    """

    names: list[str]
    ends: NDArray[np.int32]
    starts: NDArray[np.int32]
    last: Ints

    def settled(self) -> Ints:
        """(n,): how many of the first values are certainly over before value i is written."""
        blocks = range(0, len(self.names), _BLOCK)
        if not blocks:
            return np.zeros(0, np.int64)
        tops = np.array([self.ends[b : b + _BLOCK].max(axis=0) for b in blocks])
        tops = np.maximum.accumulate(tops)
        result = np.zeros(len(self.names), np.int64)
        for i, start in enumerate(self.starts):
            low, high = 0, len(tops)
            while low < high:  # the tops only grow
                middle = (low + high) // 2
                if (tops[middle] <= start).all():
                    low = middle + 1
                else:
                    high = middle
            result[i] = min(low * _BLOCK, i)
        return result


def lives(placement: Placement, roots: list[str]) -> Lives:
    """Summarise all accesses of written root values; values that no run touches are left out."""
    order, graph = placement.order, placement.graph
    cache: dict[str, tuple[NDArray[np.int32], NDArray[np.int32], int]] = {}

    def of(operator: str) -> tuple[NDArray[np.int32], NDArray[np.int32], int]:
        if operator not in cache:
            which = placement.runs[operator].which
            last = int(order.turn[which].max(initial=-1))
            cache[operator] = (order.ends(which), order.starts(which), last)
        return cache[operator]

    found = []
    for root in roots:
        writers = [of(op) for op, _ in graph.writers[root]]
        users = writers + [of(op) for op, _ in graph.readers.get(root, ())]
        last = max(u[2] for u in users)
        if last >= 0:
            ends = np.maximum.reduce([u[0] for u in users])
            starts = np.minimum.reduce([w[1] for w in writers])
            found.append((last, root, ends, starts))
    found.sort(key=lambda f: f[:2])
    none = np.zeros((0, order.eus), np.int32)
    return Lives(
        [f[1] for f in found],
        np.array([f[2] for f in found]) if found else none,
        np.array([f[3] for f in found]) if found else none,
        np.array([f[0] for f in found], np.int64),
    )


def check_reuse(placement: Placement) -> None:
    """Check every pair of written root values that have bytes in common."""
    spaces: dict[tuple[str, int], list[str]] = {}
    for root in placement.graph.writers:
        if root in placement.place:
            spaces.setdefault(placement.place[root][0], []).append(root)
    for roots in spaces.values():
        use = lives(placement, roots)
        start = np.array([placement.place[r][1] for r in use.names], np.int64)
        end = start + [placement.graph.value[r].bytes for r in use.names]
        for i, settled in enumerate(use.settled()):
            others = np.arange(settled, i)
            others = others[(start[others] < end[i]) & (start[i] < end[others])]
            if not len(others):
                continue
            apart = (use.ends[others] <= use.starts[i]).all(axis=1)
            apart |= (use.ends[i] <= use.starts[others]).all(axis=1)
            for other in others[~apart]:
                check_pair(placement, use.names[other], use.names[i])


def check_pair(placement: Placement, one: str, two: str) -> None:
    """Check two root values that have bytes in common, run by run. Raises ScheduleError."""
    graph = placement.graph

    def operands(root: str, reads: bool) -> list[Operand]:
        if reads:
            return list(graph.readers.get(root, ()))
        return [(op, len(graph.operator[op].inputs) + n) for op, n in graph.writers[root]]

    for write in operands(one, False):
        for other in operands(two, False):
            _check_writes(placement, write, other)
    for owner, intruder in ((one, two), (two, one)):
        for write in operands(intruder, False):
            for read in operands(owner, True):
                if not in_place(placement, read, write):
                    _check_read(placement, operands(owner, False), read, write)


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


def _check_writes(placement: Placement, one: Operand, two: Operand) -> None:
    free = ~placement.before(one[0], two[0]) & ~placement.before(two[0], one[0]).T
    free &= placement.touching(placement.shares(*one), placement.shares(*two))
    if one[0] == two[0]:  # two results of one operator: the tasks of a run have an order
        for i in np.flatnonzero(free.diagonal()).tolist():
            free[i, i] = _task_pairs(placement, one, two, i).diagonal().any()
    if free.any():
        i, j = (int(k[0]) for k in np.nonzero(free))
        raise _clash(placement, one, i, two, j, "writes, in no order,")


def _check_read(
    placement: Placement, producers: list[Operand], read: Operand, write: Operand
) -> None:
    """A write of another value: after the read, or before the read value was written there."""
    common = placement.touching(placement.shares(*read), placement.shares(*write))
    common = common & ~placement.before(read[0], write[0])
    if read[0] == write[0]:
        for i in np.flatnonzero(common.diagonal()).tolist():
            _check_tasks(placement, read, write, i)
        np.fill_diagonal(common, False)
    if not common.any():
        return
    unordered = common & ~placement.before(write[0], read[0]).T
    if unordered.any():
        i, j = (int(k[0]) for k in np.nonzero(unordered))
        raise _clash(placement, read, i, write, j, "may, at the same time or before, write")
    left, right = placement.shares(*read), placement.shares(*write)
    for producer in producers:
        written = placement.shares(*producer)
        wrong = ~placement.before(write[0], producer[0]) & placement.touching(right, written)
        for i, j in np.argwhere(common & np.asarray(wrong.any(axis=1))[None, :]).tolist():
            shared = intersect_ranges(left.bytes_of(i), right.bytes_of(j))
            for k in np.flatnonzero(wrong[j]).tolist():
                same_run = (write[0], j) == (producer[0], k)
                if same_run and not _overwrites(placement, producer, write, j, shared):
                    continue
                if len(intersect_ranges(shared, written.bytes_of(k))):
                    raise _clash(placement, read, i, write, j, "before that writes")


def _check_tasks(placement: Placement, read: Operand, write: Operand, which: int) -> None:
    """One run whose result lies over its operand: no task may read what it or an earlier wrote."""
    if np.tril(_task_pairs(placement, read, write, which)).any():
        raise _clash(placement, read, which, write, which, "in place, writes")


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


def _task_pairs(placement: Placement, one: Operand, two: Operand, which: int) -> NDArray[np.bool_]:
    """(n, n): which tasks of a run touch, through two operands, a common byte."""
    return placement.touching(_tasks_of(placement, one, which), _tasks_of(placement, two, which))


def _tasks_of(placement: Placement, operand: Operand, which: int) -> Shares:
    """The tasks of one run, one by one."""
    runs = placement.runs[operand[0]]
    tasks = runs.first[which] + runs.stride[which] * np.arange(runs.count[which])
    shares, ones = placement.shares(*operand), np.ones(len(tasks), np.int64)
    return Shares(runs.kernel.grid, shares.access, shares.base, tasks, ones, ones)


def _clash(
    placement: Placement, one: Operand, i: int, two: Operand, j: int, verb: str
) -> ScheduleError:
    order = placement.order
    a, b = placement.runs[one[0]], placement.runs[two[0]]
    left, right = placement.shares(*one), placement.shares(*two)
    ranges = intersect_ranges(left.bytes_of(i), right.bytes_of(j))
    names = [(*r.operator.inputs, *r.operator.outputs)[o[1]] for r, o in ((a, one), (b, two))]
    uses = "writes" if one[1] >= len(a.operator.inputs) else "reads"
    return ScheduleError(
        f"{describe(order, int(a.which[i]))} {uses} {names[0]}, but "
        f"{describe(order, int(b.which[j]))} {verb} {names[1]} over it: bytes {ranges[0, 0]}.."
        f"{ranges[0, 1] - 1} of the same memory. Give the values different bytes, or order the "
        "two by a signal and a wait",
        "clobber",
    )
