"""Bytes of an arena that blocks have got, asked for those that a block must not touch.

Blocks of a group (see `live_conflicts`) lie side by side more often than not, so their bytes are
kept as few intervals, and a block that is in conflict with all of a group meets those.
"""

from bisect import bisect_left, bisect_right

import numpy as np

from rcompiler.rammer.live_conflicts import LiveConflicts
from rcompiler.rammer.regions import Ints, merge_ranges


class Occupied:
    """The blocks that lie somewhere.

    offset: (n,) where each lies; -1: nowhere.
    """

    def __init__(self, conflicts: LiveConflicts, size: Ints) -> None:
        self._conflicts, self._size = conflicts, size
        self.offset = np.full(len(size), -1, np.int64)
        # of each group its bytes: from and to where, if these are one interval, and all of them
        self._hull = np.zeros((conflicts.groups, 2), np.int64)
        self._several = np.zeros(conflicts.groups, np.bool_)
        self._spans: list[list[tuple[int, int]]] = [[] for _ in range(conflicts.groups)]

    def put(self, block: int, offset: int) -> None:
        """Let a block lie there."""
        self.offset[block] = offset
        group = int(self._conflicts.group[block])
        spans = self._spans[group]
        _join(spans, offset, offset + int(self._size[block]))
        self._hull[group] = spans[0][0], spans[-1][1]
        self._several[group] = len(spans) > 1

    def around(self, block: int) -> Ints:
        """(k, 2): the bytes of all that is in conflict with a block, as merged intervals."""
        found = self._conflicts.of(block)
        blocks = found.blocks[self.offset[found.blocks] >= 0]
        own = np.empty((len(blocks), 2), np.int64)
        own[:, 0] = self.offset[blocks]
        own[:, 1] = own[:, 0] + self._size[blocks]
        if not len(found.groups):
            return merge_ranges(own)
        several = self._several[found.groups]
        spans = [span for k in found.groups[several].tolist() for span in self._spans[k]]
        more = np.array(spans, np.int64).reshape(-1, 2)
        return merge_ranges(np.concatenate([own, self._hull[found.groups[~several]], more]))


def _join(spans: list[tuple[int, int]], low: int, high: int) -> None:
    """Add an interval to sorted ones, and join those that touch or overlap."""
    first = bisect_left(spans, low, key=lambda span: span[1])
    behind = bisect_right(spans, high, key=lambda span: span[0])
    if first < behind:
        low, high = min(low, spans[first][0]), max(high, spans[behind - 1][1])
    spans[first:behind] = [(low, high)]
