"""Blocks that advance together: which of their threads are next, and what these work with."""

from __future__ import annotations

import random

import numpy as np

from rcompiler.emulator.checks.order import Order
from rcompiler.emulator.faults import Site
from rcompiler.emulator.lanes import Array
from rcompiler.emulator.machine.access import MemoryUnit
from rcompiler.emulator.machine.atomics import Atomics
from rcompiler.emulator.machine.barriers import Barriers
from rcompiler.emulator.machine.bulk import BulkCopies
from rcompiler.emulator.machine.cluster_barrier import ClusterBarriers
from rcompiler.emulator.machine.copies import Copies
from rcompiler.emulator.machine.counters import Counters
from rcompiler.emulator.machine.launch import Launch
from rcompiler.emulator.machine.matrix import MatrixUnit
from rcompiler.emulator.machine.proxy_fences import ProxyFences
from rcompiler.emulator.machine.specials import special
from rcompiler.emulator.machine.threads import Threads
from rcompiler.emulator.machine.warp import Warps
from rcompiler.emulator.machine.warpgroup import Warpgroups

DONE, ASLEEP, BUSY = "done", "asleep", "busy"


class Cohort(Threads):
    """The threads of some blocks of a launch, with the units that their instructions use.

    Threads that are at the same basic block execute it together, lowest block first, which brings
    branches together again. Threads of a spinning loop pause: they go on when nobody else can.
    Blocks that want whole warps wait for them. order: whom to ask which warps advance; None: all.
    """

    def __init__(
        self, launch: Launch, numbers: list[int], order: random.Random | None = None
    ) -> None:
        super().__init__(launch, numbers)
        self._random = order
        self.order, self.memory = Order(self), MemoryUnit(self)
        self.proxies = ProxyFences(self, self.memory)
        self.atomics = Atomics(self, self.memory, self.order)
        self.barriers, self.cluster = Barriers(self), ClusterBarriers(self, self.proxies)
        self.warp = Warps(self)
        self.matrix = MatrixUnit(self, self.memory, self.warp)
        self.warpgroup = Warpgroups(self, self.memory, self.warp)
        self.counters = Counters(self, self.memory)
        self.copies = Copies(self, self.memory, self.counters)
        self.bulk = BulkCopies(self, self.memory, self.counters, self.proxies)
        self._woken_at = -1

    # -- running

    def run(self, budget: int) -> str:
        """Up to `budget` basic blocks: DONE, BUSY, or ASLEEP if all that is left only waits."""
        if not self._ready:
            self._wake()
        kernel, launch, registers = self.launch.kernel, self.launch, self._registers
        while self._ready or self._carry_on():
            if budget <= 0:
                return BUSY
            number, here, apart = self._next()
            budget = 0 if apart else budget - 1  # others may come between warps that part
            mask = self._together(number, here)
            if mask is None:
                continue
            launch.tick()
            if launch.steps > launch.limits.steps:
                lane = int(np.flatnonzero(mask)[0])
                at = kernel.first_instruction(number)
                raise self.fault("timeout", at, lane, "the launch takes too many steps")
            kernel.block(number, bool(mask.all()))(self, registers, mask)
        if self._asleep:
            return ASLEEP
        self.barriers.check_all_left()
        self.cluster.check_all_left()
        return DONE

    def _next(self) -> tuple[int, Array, bool]:
        """The block to execute and who does; whether these are, now and then, some warps alone."""
        number, size = min(self._ready), self.launch.unit
        if self._random is None or self.count == size or self._random.random() < 0.7:
            return number, self._ready.pop(number), False
        bits = self._random.getrandbits(self.count // size)
        chosen = np.array([bits >> k & 1 for k in range(self.count // size)], bool)
        for number in sorted(self._ready):
            mask = self._ready[number] & np.repeat(chosen, size)
            if mask.any():
                rest = self._ready.pop(number) & ~mask
                if rest.any():
                    self._ready[number] = rest
                return number, mask, True
        number = min(self._ready)
        return number, self._ready.pop(number), False

    def _carry_on(self) -> bool:
        """Nobody can go on: what is late is done now, or those go on who wait for their warp."""
        if self.counters.catch_up():
            self._wake()
        elif self._parked and not self._asleep:
            self._unpark()
        return bool(self._ready)

    def _wake(self) -> None:
        """Let paused threads ask again; those that wait for their warp in vain go on alone."""
        if self._parked and self._woken_at == self.launch.progress:
            self._unpark()
        self._woken_at = self.launch.progress
        self._ready, self._asleep = {**self._asleep, **self._ready}, {}

    def _unpark(self) -> None:
        """Run what waits for threads that do not come: the instruction says what is missing."""
        kernel = self.launch.kernel
        for number, mask in list(self._parked.items()):
            del self._parked[number]
            self.launch.tick()
            kernel.block(number, bool(mask.all()))(self, self._registers, mask)

    def _together(self, number: int, mask: Array) -> Array | None:
        """The threads whose warps (warpgroups) are complete; the others wait."""
        size = self.launch.kernel.together[number]
        if size == 1:
            return mask
        alive = self.live.reshape(-1, size)
        whole = (mask.reshape(-1, size) | ~alive).all(axis=1)
        if whole.all():
            return mask
        complete = mask & np.repeat(whole, size)
        waiting = mask & ~complete
        if waiting.any():  # beside those of other warps, which may have come before
            self._parked[number] = waiting | self._parked.get(number, False)
        return complete if complete.any() else None

    def waiting(self) -> list[tuple[Site, int]]:
        """Threads that spin, one of each loop and block: what they ask, and where."""
        found = []
        for mask in self._asleep.values():
            lanes = np.flatnonzero(mask)
            for lane in lanes[np.unique(lanes // self.threads, return_index=True)[1]].tolist():
                found.append((self.site(int(self._asked_at[lane]), lane), int(self._asked[lane])))
        return found

    def special(self, name: str) -> Array:
        """The value of a special register in every lane."""
        return special(self, name)
