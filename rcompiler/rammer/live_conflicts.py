"""Which blocks must not share bytes, as their live ranges say.

Two blocks are in conflict unless one is over before the other is written, on all EUs. Where an EU
runs ahead of the others, most pairs are: of the 65,536 numbers of a loop two thousand million. So
pairs are asked for block by block, and most answers are of a group of blocks at once, by bounds of
their clocks:

    group      ends of its blocks     starts of them        for a block of starts s and ends e
      0        all <= s on each EU                          none: they are over before it
      1                               all >= e on each EU   none: it is over before they begin
      2        all > s on some EU     all < e on some EU    all of them
      3        else                                         block by block

Blocks are grouped with their like, so that few groups are of the last kind: in chains in which both
ends and starts only grow, as those of the values that one line of a loop writes.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rcompiler.rammer.regions import Ints

GROUP = 128  # blocks
_CHAINS = 64  # that a block may go on with, before it goes on with the last one whatever it is
_KEPT = 1 << 14  # answers
Clocks = NDArray[np.signedinteger]


@dataclass(frozen=True)
class Conflicts:
    """What is in conflict with a block: whole groups, and blocks of others."""

    groups: Ints
    blocks: Ints


class LiveConflicts:
    """The conflicts of n blocks.

    group: (n,) number of the group of each block; groups: how many there are.
    """

    def __init__(self, ends: NDArray[np.int32], starts: NDArray[np.int32]) -> None:
        """ends, starts: (n, eus), as in `reuse.LiveRanges`; in this order conflicts are told."""
        self._ends, self._starts = distinct_clocks(ends, starts)
        n = len(ends)
        order = _chained(self._ends, self._starts)
        self.groups = -(-n // GROUP)
        self.group = np.empty(n, np.int64)
        self.group[order] = np.arange(n) // GROUP
        # (groups, GROUP) blocks of each; n: none, which is over before all
        self._members = np.full((self.groups, GROUP), n)
        self._members.reshape(-1)[:n] = order
        # (n, 2, eus): one block is in conflict with another one if some of its clocks are greater
        # than limits of that, of ends and of starts
        self._limits = np.stack([self._starts, -self._ends], axis=1)
        clocks = np.stack([self._ends, -self._starts], axis=1)
        none = np.full((1, *clocks.shape[1:]), np.iinfo(clocks.dtype).min, clocks.dtype)
        members = np.concatenate([clocks, none])[self._members]  # (groups, GROUP, 2, eus)
        self._clocks = np.ascontiguousarray(members.transpose(2, 3, 0, 1))
        self._least, self._most = self._clocks.min(axis=3), self._clocks.max(axis=3)
        self._answers: dict[int, Conflicts] = {}

    def of(self, block: int) -> Conflicts:
        """What is in conflict with a block; it may be among its groups itself."""
        found = self._answers.get(block)
        if found is None:
            if len(self._answers) >= _KEPT:
                self._answers.clear()
            found = self._answers[block] = self._asked(block)
        return found

    def _asked(self, block: int) -> Conflicts:
        limit = self._limits[block][:, :, None]
        near = (self._most > limit).any(axis=1).all(axis=0)
        whole = (self._least > limit).any(axis=1).all(axis=0)
        open_ = np.flatnonzero(near & ~whole)
        meet = (self._clocks[:, :, open_] > limit[..., None]).any(axis=1).all(axis=0)
        blocks = self._members[open_][meet]
        return Conflicts(np.flatnonzero(whole), blocks[blocks != block])

    def blocks(self, block: int) -> Ints:
        """All that are in conflict with a block, in order."""
        found = self.of(block)
        both = np.sort(np.concatenate([self._members[found.groups].ravel(), found.blocks]))
        return both[both != block]

    def are_in_turn(self, blocks: Ints) -> bool:
        """Whether no two of these blocks are in conflict."""
        order = np.argsort(self._starts[blocks].sum(axis=1, dtype=np.int64), kind="stable")
        ends, starts = self._ends[blocks[order]], self._starts[blocks[order]]
        # as starts grow, what is over before the next one is over before all that follow
        return bool((ends[:-1] <= starts[1:]).all() and (starts[:-1] <= starts[1:]).all())


def distinct_clocks(ends: NDArray[np.int32], starts: NDArray[np.int32]) -> tuple[Clocks, Clocks]:
    """The same comparisons of ends with starts, with fewer columns than there are EUs.

    ends, starts: (n, eus), as in `reuse.LiveRanges`. Only the order of what one EU does is
    compared, and that is the same for many EUs: they get their shares of the same operators in
    turn.
    """
    columns: dict[bytes, Clocks] = {}
    ranks = np.int16 if len(ends) <= np.iinfo(np.int16).max else np.int32  # short: compared faster
    for own_ends, own_starts in zip(ends.T, starts.T, strict=True):
        times, rank = np.unique(own_ends, return_inverse=True)
        column = np.concatenate([rank, np.searchsorted(times, own_starts, side="right") - 1])
        columns.setdefault(column.tobytes(), column.astype(ranks))
    both = np.stack([*columns.values()], axis=1)
    return both[: len(ends)], both[len(ends) :]


def _chained(ends: Clocks, starts: Clocks) -> Ints:
    """An order of the blocks, chain by chain."""
    both = np.concatenate([ends, starts], axis=1)
    if len(both) <= GROUP:
        return np.arange(len(both))
    chain = np.zeros(len(both), np.int64)
    tails = np.full((1, both.shape[1]), np.iinfo(both.dtype).min)
    order = np.argsort(both.sum(axis=1, dtype=np.int64), kind="stable")
    for block in order.tolist():
        fits = (tails <= both[block]).all(axis=1)
        number = int(fits.argmax())
        if not fits[number]:
            number = len(tails) - 1
            if len(tails) < _CHAINS:
                number, tails = number + 1, np.concatenate([tails, tails[-1:]])
        tails[number] = both[block]
        chain[block] = number
    return order[np.argsort(chain[order], kind="stable")]
