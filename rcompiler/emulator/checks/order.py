"""Fences, releases and acquires: how one block learns what another has done.

A release leaves what the thread knew at its fence at the word that it then writes; a thread that
reads the word by an acquire, or by a relaxed load before a fence, comes behind all that. Words keep
what every release left there as long as only read-modify-writes follow (a release sequence).
What of this has the scope of a block orders threads of that block alone.
"""

from __future__ import annotations

import numpy as np

from rcompiler.emulator.checks.observed import Observed
from rcompiler.emulator.lanes import WARP, Array, Ints


def _join(old: Ints | None, new: Ints) -> Ints:
    return new if old is None else np.maximum(old, new)


class Order:
    """Of one cohort; `words` of the launch keep what releases leave."""

    def __init__(self, c: Observed) -> None:
        self.c = c
        self._released: dict[int, Ints] = {}  # lane -> what its fences publish
        self._near: dict[int, Ints] = {}  # the same of fences for the lane's block alone
        self._near_words: dict[tuple[int, int], Ints] = {}  # (block, word) -> what they left there
        self._fenced: dict[int, int] = {}  # lane -> the moment of its last fence for all
        self._seen: dict[int, Ints] = {}  # lane -> what it may take by a fence

    def fence(self, mask: Array, acquire: bool, release: bool, scope: str) -> None:
        c, cta = self.c, scope in ("cta", "cluster")  # a cluster is one block
        if not c.launch.checks.races:
            return
        lanes = np.flatnonzero(mask)
        c.launch.now += 1
        if release and scope != "cta":
            c.launch.proxies.publish_mbarriers(c.threads_of(lanes), c.launch.now)
        if acquire:
            for lane in lanes.tolist():
                seen = self._seen.pop(lane, None)
                if seen is not None:
                    self.c.clocks.take(np.array([lane]), seen)
        if release:
            self._release(lanes, cta)

    def _release(self, lanes: Array, cta: bool) -> None:
        c = self.c
        for lane in lanes.tolist():
            made = c.clocks.vector(np.array([lane]), c.live, c.launch.now)
            kept = self._near if cta else self._released
            kept[lane] = _join(kept.get(lane), made)
            if not cta:
                self._fenced[lane] = c.launch.now

    # -- words

    def wrote(
        self, lanes: Array, keys: Array, before: Array, after: Array, order: str, update: bool,
        sees: bool = False,
    ) -> None:  # fmt: skip
        """Strong writes of the lanes to words, one after another; update: read-modify-writes.

        before, after: the bits of the words around each write. sees: whether the thread gets
        what was there before, which is the last value whatever other threads are shown.
        """
        c, words = self.c, self.c.launch.words
        if not c.launch.checks.races:
            return
        if order.startswith(("release", "acq_rel")):
            self._release(lanes, order.endswith(".cta"))
        if not self._released and not self._near and not words:
            return
        threads = c.threads_of(lanes).tolist()
        for k, (lane, key) in enumerate(zip(lanes.tolist(), keys.tolist(), strict=True)):
            left = self._released.get(lane)
            if sees:
                self._see(lane, key, words.show_last(key, int(c.clocks.block[lane])), order)
            words.write(key, int(before[k]), int(after[k]), left, update, threads[k], c.launch.now)
            self._leave_near((lane // c.threads, key), self._near.get(lane), update)
        if len(lanes) > 1:
            self._whole_warps(lanes, keys)

    def _leave_near(self, word: tuple[int, int], left: Ints | None, update: bool) -> None:
        if left is not None:
            self._near_words[word] = _join(self._near_words.get(word) if update else None, left)
        elif not update:
            self._near_words.pop(word, None)

    def _whole_warps(self, lanes: Array, keys: Array) -> None:
        """A warp all of whose threads release to one word publishes what all have done."""
        clocks, words = self.c.clocks, self.c.launch.words
        for group, word in _by_warp(lanes, keys):
            first = int(group[0]) // WARP * WARP
            alive = np.flatnonzero(self.c.live[first : first + WARP]) + first
            fenced = [self._fenced.get(lane, 0) for lane in alive.tolist()]
            if len(set(word.tolist())) == 1 and len(group) == len(alive) and min(fenced):
                key, left = int(word[0]), words.last(int(word[0]))
                assert left is not None  # all of them have released
                vector = left.copy()
                start = clocks.numbers[first // clocks.threads] * clocks.columns
                warp = first % clocks.threads // WARP
                for column in (start + warp, start + clocks.warps + warp):
                    vector[column] = max(vector[column], min(fenced))
                words.amend(key, vector)

    def read(self, lanes: Array, keys: Array, bits: Array, order: str) -> Array:
        """Strong loads of the lanes from words that hold `bits`: the bits that they see."""
        c, words = self.c, self.c.launch.words
        if not c.launch.checks.races or not (words or self._near_words):
            return bits
        bits = bits.copy()
        for k, (lane, key) in enumerate(zip(lanes.tolist(), keys.tolist(), strict=True)):

            def behind(writers: Array, moments: Array, lane: int = lane) -> Array:
                return c.clocks.behind(np.full(len(writers), lane), writers, moments)

            shown = words.show(key, int(c.clocks.block[lane]), behind)
            if shown is None:
                self._see(lane, key, None, order)
                continue
            version, last = shown
            if not last:
                bits[k] = version.bits
                c.launch.progress += 1
            self._see(lane, key, version.left, order)
        return bits

    def _see(self, lane: int, key: int, left: Ints | None, order: str) -> None:
        """Come behind what was left at a word, at once or by the next fence."""
        clocks, block = self.c.clocks, lane // self.c.threads
        if left is not None and order.endswith(".cta"):
            left = clocks.only_own(left, block)
        for known in (left, self._near_words.get((block, key))):
            if known is None:
                continue
            if order.startswith(("acquire", "acq_rel")):
                clocks.take(np.array([lane]), known)
            else:
                self._seen[lane] = _join(self._seen.get(lane), known)


def _by_warp(lanes: Array, keys: Array) -> list[tuple[Array, Array]]:
    cuts = np.flatnonzero(np.diff(lanes // WARP)) + 1
    return list(zip(np.split(lanes, cuts), np.split(keys, cuts), strict=True))
