"""bar.sync and bar.arrive, whole blocks and parts of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rcompiler.emulator.lanes import Array, Ints
from rcompiler.emulator.machine.threads import Threads


@dataclass
class _Gathering:
    """Threads at one barrier: where those that wait go on, and what the others published.

    asked: of a barrier that reduces, the operation, the register of the result, lanes and answers.
    """

    expected: int
    arrived: int = 0
    waiting: list[tuple[int, int, Array]] = field(default_factory=list)  # at, block, lanes
    asked: list[tuple[str, int, Array, Array]] = field(default_factory=list)
    known: list[tuple[Ints, Ints | None]] = field(default_factory=list)


class Barriers:
    def __init__(self, c: Threads) -> None:
        self.c = c
        self._open: dict[tuple[int, int], _Gathering] = {}  # (block of the cohort, barrier)

    def sync(
        self, at: int, following: int, mask: Array, number: Array, count: Any,
        asked: tuple[str, int, Array] | None = None,
    ) -> None:  # fmt: skip
        for lanes, gathering, key in self._gather(at, mask, number, count):
            gathering.waiting.append((at, following, lanes))
            if asked is not None:
                mode, register, answers = asked
                gathering.asked.append((mode, register, lanes, answers[lanes]))
            self._arrive(at, lanes, gathering, key)

    def arrive(self, at: int, following: int, mask: Array, number: Array, count: Any) -> None:
        c = self.c
        for lanes, gathering, key in self._gather(at, mask, number, count):
            if c.launch.checks.races:
                c.launch.now += 1
                gathering.known.append(c.clocks.summary(lanes, c.live, c.launch.now))
            self._arrive(at, lanes, gathering, key)
        c.go(following, mask)

    def _gather(
        self, at: int, mask: Array, number: Array, count: Any
    ) -> list[tuple[Array, _Gathering, tuple[int, int]]]:
        """Arriving lanes by block and barrier."""
        c, found = self.c, []
        lanes = np.flatnonzero(mask)
        keys = lanes // c.threads * 16 + number[lanes]
        for key in np.unique(keys).tolist():
            part = lanes[keys == key]
            first = int(part[0])
            if not 0 <= int(number[first]) < 16:
                raise c.fault("barrier-misuse", at, first, f"barrier {int(number[first])} of 0..15")
            expected = c.launch.alive if count is None else int(count[first])
            place = (first // c.threads, int(number[first]))
            gathering = self._open.setdefault(place, _Gathering(expected))
            if gathering.expected != expected:
                raise c.fault(
                    "barrier-misuse",
                    at,
                    first,
                    f"barrier {place[1]} is used with {expected} threads, and with "
                    f"{gathering.expected} by those that are there",
                )
            found.append((part, gathering, place))
        return found

    def _arrive(self, at: int, lanes: Array, gathering: _Gathering, key: tuple[int, int]) -> None:
        gathering.arrived += len(lanes)
        if gathering.arrived > gathering.expected:
            raise self.c.fault(
                "barrier-misuse",
                at,
                int(lanes[0]),
                f"{gathering.arrived} threads at barrier {key[1]} of {gathering.expected}",
            )
        self.c.launch.progress += 1
        if gathering.arrived == gathering.expected:
            del self._open[key]
            self._order(key[0], gathering)
            self._reduce(gathering)
            for _, following, part in gathering.waiting:
                self.c.go_on(following, part)

    def _order(self, block: int, gathering: _Gathering) -> None:
        """Who waited is behind everybody who came."""
        c = self.c
        if not c.launch.checks.races:
            return
        c.launch.now += 1
        waiting = np.concatenate([lanes for _, _, lanes in gathering.waiting] or [c.lanes[:0]])
        if len(waiting) == c.threads:
            return c.clocks.meet_all(block, c.launch.now)
        if not len(waiting):
            return None
        known = [*gathering.known, c.clocks.summary(waiting, c.live, c.launch.now)]
        for own, far in known:
            c.clocks.learn(waiting, own, far)
        return None

    def _reduce(self, gathering: _Gathering) -> None:
        """Give the threads of a reducing barrier what all of them said."""
        if not gathering.asked:
            return
        answers = np.concatenate([said for _, _, _, said in gathering.asked])
        results = {"popc": answers.sum(), "and": answers.all(), "or": answers.any()}
        for mode, register, lanes, _ in gathering.asked:
            self.c.assign(register, lanes, results[mode])

    def check_all_left(self) -> None:
        """Raise if threads wait at a barrier and nobody can come any more."""
        c = self.c
        for (block, number), gathering in self._open.items():
            if not gathering.waiting:
                continue
            at, _, lanes = gathering.waiting[0]
            inside = slice(block * c.threads, (block + 1) * c.threads)
            elsewhere = int(c.live[inside].sum()) - sum(len(w[2]) for w in gathering.waiting)
            raise c.fault(
                "barrier-deadlock",
                at,
                int(lanes[0]),
                f"{gathering.arrived} of {gathering.expected} threads are at barrier {number}; of "
                f"the others {elsewhere} wait elsewhere, and the rest has exited",
            )
