"""What has happened before what: per thread, up to which moment it is behind the others.

Moments are numbers that the launch gives to accesses in the order in which it executes them. Of
each warp two things are kept: up to which moment all of its threads are behind the knowing one, and
up to which moment its first lane is. So a thread that publishes alone what it did alone is known
exactly if it is a first lane; of another one only what its whole warp had done by then is known,
which can report a race where there is none, never the reverse.
"""

from __future__ import annotations

import numpy as np

from rcompiler.emulator.lanes import WARP, Array, Ints

NEVER_DONE = np.int32(2**31 - 1)  # the moment of an access that is still going on


class Clocks:
    """Of the threads of a cohort: `blocks` blocks of `threads` threads, a multiple of 32.

    numbers: of the blocks in the launch, of `total`. own[thread, column]: what it knows of its own
    block: column w of all of warp w, W + w of its first lane. floor[thread]: no column is below.
    """

    def __init__(self, numbers: list[int], threads: int, total: int) -> None:
        self.numbers, self.threads, self.total = numbers, threads, total
        self.warps = threads // WARP
        self.columns = 2 * self.warps
        count = len(numbers) * threads
        self.own: Ints = np.zeros((count, self.columns), np.int32)
        self.floor: Ints = np.zeros(count, np.int32)
        self._far: dict[int, Ints] = {}  # block of the cohort -> [thread, columns of all blocks]
        thread = np.arange(count) % threads
        self.column = np.where(thread % WARP == 0, self.warps, 0) + thread // WARP
        self.bit = np.uint64(1) << self.column.astype(np.uint64)
        self.block = np.array(numbers, np.int64)[np.arange(count) // threads]
        self._bits = np.uint64(1) << np.arange(self.columns, dtype=np.uint64)

    # -- questions

    def behind(self, lanes: Array, writers: Array, when: Array) -> Array:
        """Whether what threads did at these moments happens before what the lanes do now.

        writers: numbers of threads in the launch; a thread is behind itself.
        """
        thread = writers % self.threads
        block = writers // self.threads
        column = np.where(thread % WARP == 0, self.warps, 0) + thread // WARP
        own = block == self.block[lanes]
        result = own & (self.own[lanes, column] >= when)
        mine = self.block[lanes] * self.threads + lanes % self.threads
        result |= writers == mine
        result &= when != NEVER_DONE
        foreign = np.flatnonzero(~own)
        if len(foreign) and self._far:
            known = self._far_rows(lanes[foreign])
            place = block[foreign] * self.columns + column[foreign]
            told = known[np.arange(len(foreign)), place] >= when[foreign]
            result[foreign] = told & (when[foreign] != NEVER_DONE)
        return result

    def _far_rows(self, lanes: Array) -> Ints:
        """What lanes know of all blocks; 0 where their own block was told nothing."""
        rows = np.zeros((len(lanes), self.total * self.columns), np.int32)
        blocks = lanes // self.threads
        for block in np.unique(blocks).tolist():
            far = self._far.get(block)
            if far is not None:
                chosen = blocks == block
                rows[chosen] = far[lanes[chosen] % self.threads]
        return rows

    def covers(self, lanes: Array, masks: Array, when: Array, block: int = -1) -> Array:
        """The same of all entities in `masks`, by columns, of one block; -1: the lanes' own."""
        if block < 0:
            known = self.own[lanes]
        else:
            start = block * self.columns
            known = self._far_rows(lanes)[:, start : start + self.columns]
        asked = (masks[:, None] & self._bits) != 0
        return ~(asked & (known < when[:, None])).any(axis=1)

    def knows(self, lane: int, vector: Ints) -> bool:
        """Whether a lane is behind all that a vector says of its own block."""
        start = self.numbers[lane // self.threads] * self.columns
        return bool((self.own[lane] >= vector[start : start + self.columns]).all())

    # -- what makes order

    def sync_warps(self, mask: Array, live: Array, now: int) -> None:
        """Threads of a warp meet, in every warp all of whose threads are here."""
        here, alive = mask.reshape(-1, WARP), live.reshape(-1, WARP)
        which = np.flatnonzero((here | ~alive).all(axis=1) & here.any(axis=1))
        rows = self.own.reshape(-1, WARP, self.columns)
        known = rows[which].max(axis=1)
        warp, index = which % self.warps, np.arange(len(which))
        known[index, warp] = known[index, self.warps + warp] = now
        rows[which] = known[:, None, :]
        for block, far in self._far.items():
            first = block * self.warps
            inside = which[(which >= first) & (which < first + self.warps)] - first
            grouped = far.reshape(self.warps, WARP, -1)
            grouped[inside] = grouped[inside].max(axis=1)[:, None, :]

    def summary(self, lanes: Array, live: Array, now: int) -> tuple[Ints, Ints | None]:
        """What lanes of one block know and have done together: own columns, and the others'."""
        known = self.own[lanes].max(axis=0)
        thread = lanes % self.threads
        here = np.zeros(self.threads, bool)
        here[thread] = True
        first = int(lanes[0]) // self.threads
        alive = live[first * self.threads : (first + 1) * self.threads]
        whole = (here | ~alive).reshape(-1, WARP).all(axis=1) & here.reshape(-1, WARP).any(axis=1)
        known[: self.warps][whole] = now
        known[self.warps :][here[::WARP]] = now
        known[self.warps :] = np.maximum(known[self.warps :], known[: self.warps])
        far = self._far.get(first)
        return known, None if far is None else far[thread].max(axis=0)

    def learn(self, lanes: Array, own: Ints, far: Ints | None) -> None:
        """Lanes of one block come behind what a summary says."""
        known = np.maximum(self.own[lanes], own)
        self.own[lanes] = known
        self.floor[lanes] = known.min(axis=1)
        if far is not None:
            rows = self._far_of(int(lanes[0]) // self.threads)
            rows[lanes % self.threads] = np.maximum(rows[lanes % self.threads], far)

    def meet_all(self, block: int, now: int) -> None:
        """All threads of a block meet."""
        lanes = slice(block * self.threads, (block + 1) * self.threads)
        self.own[lanes] = now
        self.floor[lanes] = now
        if block in self._far:
            self._far[block][:] = self._far[block].max(axis=0)

    # -- vectors over all blocks, to be left at a word and taken from there

    def vector(self, lanes: Array, live: Array, now: int) -> Ints:
        """What lanes of one block know and have done: the columns of all blocks."""
        own, far = self.summary(lanes, live, now)
        result = np.zeros(self.total * self.columns, np.int32) if far is None else far.copy()
        start = self.numbers[int(lanes[0]) // self.threads] * self.columns
        result[start : start + self.columns] = own
        return result

    def only_own(self, vector: Ints, block: int) -> Ints:
        """Nothing but the columns of one block of the cohort: what a .cta scope publishes."""
        start = self.numbers[block] * self.columns
        result = np.zeros_like(vector)
        result[start : start + self.columns] = vector[start : start + self.columns]
        return result

    def take(self, lanes: Array, vector: Ints) -> None:
        """Lanes of one block come behind what a vector says."""
        start = self.numbers[int(lanes[0]) // self.threads] * self.columns
        self.learn(lanes, vector[start : start + self.columns], vector)

    def _far_of(self, block: int) -> Ints:
        if block not in self._far:
            self._far[block] = np.zeros((self.threads, self.total * self.columns), np.int32)
        return self._far[block]
