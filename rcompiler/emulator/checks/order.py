"""Fences, releases and acquires: how one block learns what another has done.

A release leaves what the thread knew at its fence at the word that it then writes; a thread that
reads the word by an acquire, or by a relaxed load before a fence, comes behind all that. Words keep
what every release left there as long as only read-modify-writes follow (a release sequence).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from rcompiler.emulator.checks.clocks import WARP, Ints

if TYPE_CHECKING:
    from rcompiler.emulator.machine.cohort import Cohort

Array = npt.NDArray[Any]
Key = TypeVar("Key")


def _join(old: Ints | None, new: Ints) -> Ints:
    return new if old is None else np.maximum(old, new)


class Order:
    """Of one cohort. `words` of the launch: word -> what its releases left there."""

    def __init__(self, cohort: Cohort) -> None:
        self.c = cohort
        self._released: dict[int, Ints] = {}  # lane -> what its fences publish
        self._near: dict[int, Ints] = {}  # the same of fences for the lane's block alone
        self._near_words: dict[tuple[int, int], Ints] = {}  # (block, word) -> what they left there
        self._fenced: dict[int, int] = {}  # lane -> the moment of its last fence for all
        self._seen: dict[int, Ints] = {}  # lane -> what it may take by a fence

    def fence(self, mask: Array, acquire: bool, release: bool, cta: bool) -> None:
        if not self.c.launch.checks.races:
            return
        lanes = np.flatnonzero(mask)
        self.c.launch.now += 1
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

    def wrote(self, lanes: Array, keys: Array, order: str, update: bool) -> None:
        """Strong writes of the lanes to words; update: read-modify-writes."""
        if not self.c.launch.checks.races:
            return
        words = self.c.launch.words
        if order.startswith(("release", "acq_rel")):
            self._release(lanes, order.endswith(".cta"))
        if not self._released and not self._near and not words:
            return
        for lane, key in zip(lanes.tolist(), keys.tolist(), strict=True):
            _leave(words, key, self._released.get(lane), update)
            near = (lane // self.c.threads, key)
            _leave(self._near_words, near, self._near.get(lane), update)
        if len(lanes) > 1:
            self._whole_warps(lanes, keys)

    def _whole_warps(self, lanes: Array, keys: Array) -> None:
        """A warp all of whose threads release to one word publishes what all have done."""
        clocks, words = self.c.clocks, self.c.launch.words
        for group, word in _by_warp(lanes, keys):
            first = int(group[0]) // WARP * WARP
            alive = np.flatnonzero(self.c.live[first : first + WARP]) + first
            fenced = [self._fenced.get(lane, 0) for lane in alive.tolist()]
            if len(set(word.tolist())) == 1 and len(group) == len(alive) and min(fenced):
                key = int(word[0])
                vector = words[key].copy()
                start = clocks.numbers[first // clocks.threads] * clocks.columns
                warp = first % clocks.threads // WARP
                for column in (start + warp, start + clocks.warps + warp):
                    vector[column] = max(vector[column], min(fenced))
                words[key] = vector

    def read(self, lanes: Array, keys: Array, order: str) -> None:
        """Strong reads of the lanes from words."""
        words = self.c.launch.words
        if not self.c.launch.checks.races or not (words or self._near_words):
            return
        acquire = order.startswith(("acquire", "acq_rel"))
        for lane, key in zip(lanes.tolist(), keys.tolist(), strict=True):
            left = words.get(key)
            if left is not None and order.endswith(".cta"):
                left = self.c.clocks.only_own(left, lane // self.c.threads)
            near = self._near_words.get((lane // self.c.threads, key))
            for known in (left, near):
                if known is not None and acquire:
                    self.c.clocks.take(np.array([lane]), known)
                elif known is not None:
                    self._seen[lane] = _join(self._seen.get(lane), known)


def _leave(words: dict[Key, Ints], key: Key, left: Ints | None, update: bool) -> None:
    """A write to a word: what was left there stays if it is an update, and `left` comes to it."""
    if left is not None:
        words[key] = _join(words.get(key) if update else None, left)
    elif not update:
        words.pop(key, None)


def _by_warp(lanes: Array, keys: Array) -> list[tuple[Array, Array]]:
    cuts = np.flatnonzero(np.diff(lanes // WARP)) + 1
    return list(zip(np.split(lanes, cuts), np.split(keys, cuts), strict=True))
