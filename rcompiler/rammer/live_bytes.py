"""Bytes that an execution of a schedule needs at once: no arena for it can be smaller.

Counted by whole values, from the first write to the last access, that is quick and nearly always
the same. But values may share bytes whose live ranges overlap, where each part of one is read
for the last time before that part of the other is written; then the bytes count run by run.
"""

import numpy as np

from rcompiler.rammer.packing import Packing
from rcompiler.rammer.placement import Placement
from rcompiler.rammer.regions import Ints, merge_ranges
from rcompiler.roller.numerics import distinct


def live_values(placement: Placement, packing: Packing) -> int:
    """Most bytes of values in use at once in the execution that `Order.turn` tells."""
    runs = len(placement.order.runs)
    first = np.full(packing.n, runs, np.int64)
    np.minimum.at(first, packing.block, packing.use.first)
    change = np.zeros(runs + 2, np.int64)
    np.add.at(change, first, packing.bytes)
    np.add.at(change, packing.last + 1, -packing.bytes)
    return int(np.cumsum(change).max(initial=0))


def live_bytes(placement: Placement, packing: Packing) -> int:
    """The same by bytes: those that one run wrote and a later one reads, between any two runs.

    Of values that in-place operators turn into each other, those of the largest count.
    """
    runs = len(placement.order.runs)
    by_block = np.zeros(runs + 1, np.int64)
    members: dict[int, list[str]] = {}
    for name, block in zip(packing.use.names, packing.block.tolist(), strict=True):
        members.setdefault(block, []).append(name)
    for names in members.values():
        by_block += np.max([_between_runs(placement, name) for name in names], axis=0)
    return int(by_block.max(initial=0))


def _between_runs(placement: Placement, root: str) -> Ints:
    """(runs + 1,): bytes of a root value that are written before a turn and read from it on."""
    graph, runs = placement.graph, len(placement.order.runs)
    writes = [*map(graph.writing, graph.writers[root])]
    reads = list(graph.readers.get(root, ()))
    ends = [_accesses(placement, op, operand) for op, operand in (*writes, *reads)]
    places = distinct(np.concatenate([ranges.ravel() for ranges, _ in ends]))
    written = np.full(max(len(places) - 1, 0), runs, np.int64)  # by piece between two places
    read = np.full(len(written), -1, np.int64)
    for number, (ranges, turns) in enumerate(ends):
        low, high = np.searchsorted(places, ranges[:, 0]), np.searchsorted(places, ranges[:, 1])
        for begin, end, turn in zip(low.tolist(), high.tolist(), turns.tolist(), strict=True):
            piece = slice(begin, end)
            if number < len(writes):
                written[piece] = np.minimum(written[piece], turn)
            else:
                read[piece] = np.maximum(read[piece], turn)
    live = written < read
    size = np.diff(places)[live]
    change = np.zeros(runs + 2, np.int64)
    np.add.at(change, written[live] + 1, size)
    np.add.at(change, read[live] + 1, -size)
    return np.cumsum(change)[: runs + 1]


def _accesses(placement: Placement, operator: str, operand: int) -> tuple[Ints, Ints]:
    """(k, 2) byte intervals that the runs of an operator touch through an operand, and (k,) turns
    of these runs.
    """
    owner, ranges = placement.shares(operator, operand).ranges
    which = placement.runs[operator].which
    found, turns = [np.zeros((0, 2), np.int64)], [np.zeros(0, np.int64)]
    for number in distinct(owner).tolist():
        merged = merge_ranges(ranges[owner == number])
        found.append(merged)
        turns.append(np.full(len(merged), placement.order.turn[which[number]]))
    return np.concatenate(found), np.concatenate(turns)
