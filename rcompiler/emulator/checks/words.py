"""Words by which threads tell each other: every value they had, and what was left with it.

A thread that asks for a word may see an older value than the last one, as long as nothing orders it
behind a later one: it may just have come earlier. So a block is shown the value from before the
first write first, then the last ones one after another. A program that goes on although it has not
waited, or waited for too little, then does so behind less than it needs, whatever the order of
blocks was.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from rcompiler.emulator.lanes import Array, Ints

_KEPT = 256  # values of one word
_NEAR = 2  # values before the last one that are shown


@dataclass(frozen=True)
class Version:
    """A value; what was left with it; the thread that wrote it, -1 for the host, and when."""

    bits: int
    left: Ints | None
    writer: int = -1
    when: int = 0


@dataclass
class _History:
    """first: how many versions were forgotten. seen: block -> the last version it was shown."""

    versions: list[Version]
    first: int = 0
    seen: dict[int, int] = field(default_factory=dict)


class Words:
    """Of a launch. Keys are those of MemoryUnit.keys."""

    def __init__(self) -> None:
        self._words: dict[int, _History] = {}

    def __bool__(self) -> bool:
        return bool(self._words)

    def last(self, key: int) -> Ints | None:
        """What was left with the last value."""
        history = self._words.get(key)
        return history.versions[-1].left if history else None

    def write(
        self, key: int, before: int, bits: int, left: Ints | None, update: bool, writer: int,
        when: int,
    ) -> None:  # fmt: skip
        """A strong write. before: the value until now. left: of the writer's releases, if any.

        An update keeps what was left before; another write ends that.
        """
        history = self._words.get(key)
        if history is None:
            if left is None:
                return  # nothing that anybody could learn from this word
            history = self._words[key] = _History([Version(before, None)])
        old = history.versions[-1].left if update else None
        if old is not None:
            left = old if left is None else np.maximum(old, left)
        history.versions.append(Version(bits, left, writer, when))
        if len(history.versions) > _KEPT:
            forgotten = len(history.versions) - _KEPT
            del history.versions[:forgotten]
            history.first += forgotten

    def amend(self, key: int, left: Ints) -> None:
        """More was left with the last value."""
        versions = self._words[key].versions
        versions[-1] = Version(versions[-1].bits, left, versions[-1].writer, versions[-1].when)

    def show_last(self, key: int, block: int) -> Ints | None:
        """To a read-modify-write: it always sees the last value."""
        history = self._words.get(key)
        if history is None:
            return None
        history.seen[block] = history.first + len(history.versions) - 1
        return history.versions[-1].left

    def show(
        self, key: int, block: int, behind: Callable[[Array, Array], Array]
    ) -> tuple[Version, bool] | None:
        """To a load: a version, and whether it is the last one; None of an unknown word.

        behind(writers, moments): which writes the asking thread is ordered behind.
        """
        history = self._words.get(key)
        if history is None:
            return None
        last = history.first + len(history.versions) - 1
        asked_before = block in history.seen
        at = max(history.seen.get(block, 0), history.first)
        newer = history.versions[at + 1 - history.first :]
        if newer:
            writers, moments = np.array([(v.writer, v.when) for v in newer]).T
            known = np.flatnonzero(behind(writers, moments))
            if len(known):
                at, asked_before = at + 1 + int(known[-1]), False
        if asked_before and at < last:
            at = max(at + 1, last - _NEAR)
        history.seen[block] = at
        return history.versions[at - history.first], at == last
