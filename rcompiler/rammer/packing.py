"""Put blocks of known live ranges into one arena: first fit, best fit, stacking of local ones."""

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from itertools import product

import numpy as np

from rcompiler.rammer.layout import aligned
from rcompiler.rammer.live_conflicts import LiveConflicts
from rcompiler.rammer.occupied import Occupied
from rcompiler.rammer.placement import Placement
from rcompiler.rammer.regions import Ints, merge_ranges
from rcompiler.rammer.reuse import Clash, LiveRanges, check_pair

BUDGET = 1 << 29  # pairs of runs that stacking may compare: bounds the time of planning
TRIES = 16  # places to stack a block at before it gets bytes of its own
_FAR = np.iinfo(np.int64).max  # no block starts here
Plan = tuple[list[int], int]  # offset of each block, bytes in use
LOOKS = 1 << 27  # blocks that stacking may look at, which bounds it, too
CALL = 512  # runs of either block that could be compared in the time of a call
_TRIPLES = 1 << 12  # of operators that are compared at once: more take longer than `check_pair`
FEW = 16  # operators that use a block, each checked by itself: more of them take longer


class Packing:
    """Blocks with their sizes and conflicts, and ways to put them into one arena.

    A block is one value, or several that in-place operators turn into each other.
    """

    def __init__(self, placement: Placement, use: LiveRanges, blocks: Ints) -> None:
        self.use = use
        graph = placement.graph
        together = {name: (("temp", -1), 0) for name in placement.place}
        self._stacked = replace(placement, place=together)
        self._known: dict[tuple[int, int], bool] = {}
        self._spans: dict[tuple[str, int], tuple[int, int, int]] = {}
        self._work = self._looked = 0
        names, self.block = np.unique(blocks, return_inverse=True)
        self.n = len(names)
        value = np.array([graph.value[name].bytes for name in use.names], np.int64)
        self.bytes = np.zeros(self.n, np.int64)
        np.maximum.at(self.bytes, self.block, value)
        self.size = -(-self.bytes // 64) * 64
        eus = use.ends.shape[1]
        self.ends = np.zeros((self.n, eus), np.int32)
        self.starts = np.full((self.n, eus), np.iinfo(np.int32).max, np.int32)
        self.last = np.zeros(self.n, np.int64)
        np.maximum.at(self.ends, self.block, use.ends)
        np.minimum.at(self.starts, self.block, use.starts)
        np.maximum.at(self.last, self.block, use.last)

    @cached_property
    def conflicts(self) -> LiveConflicts:
        """Which blocks must not share bytes."""
        return LiveConflicts(self.ends, self.starts)

    def stackable(self, one: int, two: int) -> bool:
        """Whether blocks whose live ranges overlap may start at the same byte all the same.

        They may when each EU is done with a part of one before a part of the other is written
        there: the exact rule of the validator, run by run.
        """
        key = (min(one, two), max(one, two))
        if key not in self._known:
            if self._work > BUDGET:
                return False
            self._work += self._cost(one) * self._cost(two)
            if self._work > BUDGET:
                return False
            pairs = [*product(self._members[one], self._members[two])]
            self._known[key] = not any(
                self._spoils(a, b) or self._spoils(b, a) for a, b in pairs
            ) and self._may_share(pairs)
        return self._known[key]

    def _may_share(self, pairs: list[tuple[str, str]]) -> bool:
        """Whether all pairs of values may lie over each other, run by run."""
        try:
            for one, two in pairs:
                check_pair(self._stacked, one, two)
        except Clash:
            return False
        return True

    def _spoils(self, value: str, other: str) -> bool:
        """Whether an operator writes a byte of `other` over one of `value` between two operators of
        which one wrote that and one still reads it. So it is with most pairs, and `check_pair`
        takes ten times as long to find it.
        """
        graph, times = self._stacked.graph, self._stacked.times
        made, over = (
            [self._touched(graph.writing(writer)) for writer in graph.writers[root]]
            for root in (value, other)
        )
        read = [*map(self._touched, graph.readers.get(value, ()))]
        if not read or len(made) * len(over) * len(read) > _TRIPLES:
            return False
        m, o, r = (np.array(each, np.int64) for each in (made, over, read))  # (n, 3)
        ends, starts = times.ends, times.starts
        first = np.all(ends[m[:, 0]][:, None] <= starts[o[:, 0]], axis=2)  # (made, over)
        then = np.all(ends[o[:, 0]][:, None] <= starts[r[:, 0]], axis=2)  # (over, read)
        low = np.maximum(np.maximum(m[:, None, None, 1], o[:, None, 1]), r[:, 1])
        high = np.minimum(np.minimum(m[:, None, None, 2], o[:, None, 2]), r[:, 2])
        return bool((first[:, :, None] & then & (low < high)).any())

    def _touched(self, operand: tuple[str, int]) -> tuple[int, int, int]:
        """Row of an operator, and the first byte and the one behind the last that its runs touch
        through an operand; none where there are gaps.
        """
        if operand not in self._spans:
            touched = merge_ranges(self._stacked.shares(*operand).ranges[1])
            [low, high] = touched[0].tolist() if len(touched) == 1 else (0, 0)
            self._spans[operand] = self._stacked.row[operand[0]], low, high
        return self._spans[operand]

    def _cost(self, block: int) -> int:
        """Runs that a check of the block compares; at least what takes as long as the call does."""
        graph, runs = self._stacked.graph, self._stacked.runs
        users = [
            op
            for name in self._members[block]
            for op, _ in (*graph.writers[name], *graph.readers.get(name, ()))
        ]
        return max(CALL, CALL * len(users) // FEW, sum(len(runs[op].which) for op in users))

    @cached_property
    def _members(self) -> list[list[str]]:
        members: list[list[str]] = [[] for _ in range(self.n)]
        for name, block in zip(self.use.names, self.block.tolist(), strict=True):
            members[block].append(name)
        return members

    def orders(self) -> list[list[int]]:
        """Orders in which to place the blocks: large, early, and large or long-lived ones first."""
        first = self.starts.astype(np.int64).sum(axis=1)
        length = self.last - first
        weight = self.size * np.maximum(length - length.min(initial=0) + 1, 1)
        keys = ((first, -self.size), (-self.size, first), (first, -weight))
        return [np.lexsort(key).tolist() for key in keys]

    def first(self, bound: int) -> Plan:
        """Offsets of the blocks and the bytes in use, by the first order and fit of `best`."""
        found = self._pack(self.orders()[0], _first_fit, aligned(bound), _FAR)
        assert found is not None  # none is as large as _FAR
        return found

    def best(self, bound: int) -> Plan:
        """The same, of some orders and fits the best, which takes several times as long."""
        best = self.first(bound)
        for order, choose in list(product(self.orders(), (_first_fit, _best_fit)))[1:]:
            if best[1] <= aligned(bound):
                break
            best = self._pack(order, choose, aligned(bound), best[1]) or best
        return best

    def _pack(self, order: list[int], choose: "Choose", limit: int, most: int) -> Plan | None:
        """A plan of less than `most` bytes; blocks that go beyond `limit` are stacked."""
        occupied = Occupied(self.conflicts, self.size)
        peak = 0
        for i in order:
            place, size = 0, int(self.size[i])
            if size:
                taken = occupied.around(i)
                ends, gaps = np.zeros((2, len(taken) + 1), np.int64)
                ends[1:], gaps[:-1], gaps[-1] = taken[:, 1], taken[:, 0], _FAR
                gaps -= ends
                fits = (gaps >= size).nonzero()[0]
                place = int(ends[choose(fits, gaps)])
                if place + size > limit:
                    place = self._stack(i, occupied.offset, place)
            occupied.put(i, place)
            peak = max(peak, place + size)
            if peak >= most:
                return None
        return occupied.offset.tolist(), peak

    def _stack(self, i: int, offset: Ints, place: int) -> int:
        """A lower place for block i at the start of others that it may be stacked on.

        offset: (n,) of all blocks; -1: of one that lies nowhere yet.
        """
        if self._work > BUDGET or self._looked > LOOKS:
            return place
        others = self.conflicts.blocks(i)
        self._looked += len(others)
        others = others[offset[others] >= 0]
        others = others[offset[others].argsort(kind="stable")]
        # (n + 1,) starts of the others, in order, and one behind all; ends of all before each
        starts = np.append(offset[others], _FAR)
        ends = np.append(0, np.maximum.accumulate(offset[others] + self.size[others]))
        first = np.flatnonzero(starts[1:] != starts[:-1])[:-1] + 1
        first = np.append(0, first)  # of those with one start, the first
        behind = np.append(first[1:], len(others))
        low = starts[first]
        # what starts before is over there, what starts later does so behind the block
        alone = (ends[first] <= low) & (low + self.size[i] <= starts[behind]) & (low < place)
        for number in np.flatnonzero(alone)[:TRIES].tolist():
            hit = others[first[number] : behind[number]]
            if all(self.stackable(i, j) for j in hit[self.size[hit] > 0].tolist()):
                return int(low[number])
        return place


Choose = Callable[[Ints, Ints], int]


def _first_fit(fits: Ints, gaps: Ints) -> int:
    return int(fits[0])


def _best_fit(fits: Ints, gaps: Ints) -> int:
    return int(fits[np.argmin(gaps[fits])])
