"""mbarrier objects: they count arrivals and bytes of bulk copies, phase by phase."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from rcompiler.emulator.checks.shadow import Shadow
from rcompiler.emulator.lanes import WARP, Array, Ints
from rcompiler.emulator.machine.access import MemoryUnit
from rcompiler.emulator.machine.threads import Threads


@dataclass
class Counter:
    """pending: arrivals that the phase still needs, of `expected`; bytes: that it still needs.

    later: what asynchronous engines still have to do here; done once somebody waits. known: what
    those that arrived have done; visible: the same of the phases that are complete. creator, made:
    the thread that initialised it and the moment; aware: lanes that are known to be behind that.
    refused: lanes that asked in vain, and the phase in which they did.
    """

    expected: int
    pending: int
    bytes: int = 0
    phase: int = 0
    later: list[Callable[[], None]] = field(default_factory=list)
    known: Ints | None = None
    visible: Ints | None = None
    creator: int = 0
    made: int = 0
    made_at: int = 0
    aware: set[int] = field(default_factory=set)
    refused: dict[int, int] = field(default_factory=dict)


class Counters:
    def __init__(self, c: Threads, memory: MemoryUnit) -> None:
        self.c, self._memory = c, memory
        self._counters: dict[tuple[int, int], Counter] = {}  # (block of the cohort, offset)
        self._asked: dict[tuple[int, int], Counter] = {}  # in vain, with something late

    # -- what generated code calls

    def create(self, at: int, mask: Array, address: Array, count: Array) -> None:
        for lane, key in self._keys(at, mask, address):
            arrivals = int(count[lane])
            if not 0 < arrivals < 1 << 20:
                raise self.c.fault(
                    "barrier-misuse", at, lane, f"an mbarrier for {arrivals} arrivals"
                )
            self._claim(at, lane, key[1])
            self.c.launch.now += 1
            made = Counter(arrivals, arrivals, made=self.c.launch.now, made_at=at)
            made.creator = int(self.c.threads_of(np.array([lane]))[0])
            self._counters[key] = made

    def remove(self, at: int, mask: Array, address: Array) -> None:
        for lane, key in self._keys(at, mask, address):
            self.find(at, lane, key[1])
            self._claim(at, lane, key[1])
            del self._counters[key]

    def expect(self, at: int, mask: Array, address: Array, count: Array) -> None:
        for lane, key in self._keys(at, mask, address):
            self.find(at, lane, key[1]).bytes += int(count[lane])

    def arrive(
        self, at: int, mask: Array, address: Array, count: Array | None, expects: Array | None
    ) -> Array:
        """The phases at which the lanes arrive."""
        tokens = np.zeros(self.c.count, np.uint64)
        for key, lanes in self._by_warp(at, mask, address):
            self._publish(at, key, lanes)
            for lane in lanes:
                counter = self.find(at, lane, key[1])
                tokens[lane] = counter.phase
                if expects is not None:
                    counter.bytes += int(expects[lane])
                self._count(at, lane, counter, 1 if count is None else int(count[lane]))
        return tokens

    def test(self, at: int, mask: Array, address: Array, phase: Array, parity: bool) -> Array:
        """Whether the phase that a lane asks for is complete."""
        c = self.c
        done = np.zeros(c.count, bool)
        lanes = np.flatnonzero(mask)
        c.asks(at, lanes, address[lanes])
        passed: dict[tuple[int, int], list[int]] = {}
        for lane, key in self._keys(at, mask, address):
            counter = self.find(at, lane, key[1])
            asked = int(phase[lane])
            complete = (counter.phase & 1) != (asked & 1) if parity else counter.phase != asked
            done[lane] = complete and not self._too_early(lane, counter)
            if done[lane]:
                passed.setdefault(key, []).append(lane)
            elif counter.later:
                self._asked[key] = counter
        for key, group in passed.items():
            visible = self._counters[key].visible
            if visible is not None:
                c.clocks.take(np.array(group), visible)
        return done

    def _too_early(self, lane: int, counter: Counter) -> bool:
        """Whether the lane may still have come before the phase was complete.

        It may if nothing orders it behind that: then its first question is in vain.
        """
        if counter.visible is None or counter.refused.get(lane) == counter.phase:
            return False
        if self.c.clocks.knows(lane, counter.visible):
            return False
        counter.refused[lane] = counter.phase
        self.c.launch.progress += 1
        return True

    # -- what the units of asynchronous copies call

    def catch_up(self) -> bool:
        """Nobody can go on: do what is late where threads wait. Whether there was anything."""
        asked, self._asked = self._asked, {}
        for counter in asked.values():
            while counter.later:
                counter.later.pop(0)()
        return bool(asked)

    def find(self, at: int, lane: int, offset: int) -> Counter:
        c = self.c
        counter = self._counters.get((lane // c.threads, offset))
        if counter is None:
            raise c.fault(
                "barrier-misuse", at, lane, "no mbarrier was initialised there", address=offset
            )
        if c.launch.checks.races and lane not in counter.aware:
            self._check_aware(at, lane, offset, counter)
            counter.aware.add(lane)
        return counter

    def _check_aware(self, at: int, lane: int, offset: int, counter: Counter) -> None:
        c = self.c
        creator, made = np.array([counter.creator]), np.array([counter.made])
        if not c.clocks.behind(np.array([lane]), creator, made)[0]:
            raise c.fault(
                "shared-race",
                at,
                lane,
                "use of an mbarrier that nothing orders behind its initialisation",
                address=offset,
                other=c.launch.site(counter.made_at, counter.creator),
            )

    def complete(self, counter: Counter, count: int, known: Ints | None) -> None:
        """A bulk copy of `count` bytes is done."""
        counter.bytes -= count
        self._join(counter, known)
        self._step(counter)

    def arrive_later(
        self, at: int, mask: Array, address: Array, done: Callable[[Array], None], counted: bool
    ) -> None:
        """Lanes arrive once `done` has made the copies of a mask of them be done."""
        groups: dict[tuple[int, int], list[int]] = {}
        for lane, key in self._keys(at, mask, address):
            groups.setdefault(key, []).append(lane)
        for key, lanes in groups.items():
            counter = self.find(at, lanes[0], key[1])
            if counted:
                counter.pending += len(lanes)
            here = np.zeros(self.c.count, bool)
            here[lanes] = True

            def arrive(here: Array = here, counter: Counter = counter) -> None:
                done(here)
                for key, group in self._by_warp(at, here, address):
                    self._publish(at, key, group)
                    for lane in group:
                        self._count(at, lane, counter, 1)

            counter.later.append(arrive)

    # -- parts of them

    def _claim(self, at: int, lane: int, offset: int) -> None:
        """The memory of an mbarrier becomes one, or no one any more: who used it must be done."""
        c, shared = self.c, self._memory.spaces["shared"]
        if shared.shadow is None:
            return
        lanes = np.array([lane])
        places = shared.place(c, at, lanes, np.array([offset], np.uint64), 8)
        shared.check(c, at, lanes, places, 8, "an mbarrier", Shadow.write)

    def _keys(self, at: int, mask: Array, address: Array) -> list[tuple[int, tuple[int, int]]]:
        c = self.c
        lanes = np.flatnonzero(mask)
        offsets = self._memory.shared_offsets(address[lanes])
        if len(lanes):
            self._memory.spaces["shared"].place(c, at, lanes, offsets, 8)
        return [
            (lane, (lane // c.threads, offset))
            for lane, offset in zip(lanes.tolist(), offsets.tolist(), strict=True)
        ]

    def _by_warp(
        self, at: int, mask: Array, address: Array
    ) -> list[tuple[tuple[int, int], list[int]]]:
        """Lanes that arrive at one mbarrier, warp by warp: a phase may end between two of them."""
        groups: dict[tuple[tuple[int, int], int], list[int]] = {}
        for lane, key in self._keys(at, mask, address):
            groups.setdefault((key, lane // WARP), []).append(lane)
        return [(key, lanes) for (key, _), lanes in groups.items()]

    def _publish(self, at: int, key: tuple[int, int], lanes: list[int]) -> None:
        """What arriving lanes of a warp have done becomes known to those who wait."""
        c = self.c
        if not c.launch.checks.races:
            return
        c.launch.now += 1
        known = c.clocks.vector(np.array(lanes), c.live, c.launch.now)
        self._join(self.find(at, lanes[0], key[1]), known)

    def _join(self, counter: Counter, known: Ints | None) -> None:
        if known is not None:
            counter.known = known if counter.known is None else np.maximum(counter.known, known)

    def _count(self, at: int, lane: int, counter: Counter, arrivals: int) -> None:
        counter.pending -= arrivals
        if counter.pending < 0:
            raise self.c.fault(
                "barrier-misuse", at, lane, f"more arrivals than the {counter.expected} of a phase"
            )
        self._step(counter)

    def _step(self, counter: Counter) -> None:
        self.c.launch.progress += 1
        if counter.pending == 0 and counter.bytes == 0:
            counter.phase += 1
            counter.pending, counter.visible = counter.expected, counter.known
