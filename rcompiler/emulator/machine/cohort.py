"""Blocks that advance together: their threads, where these are, and their registers."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import numpy.typing as npt

from rcompiler.emulator.checks.clocks import Clocks
from rcompiler.emulator.checks.order import Order
from rcompiler.emulator.checks.proxies import ProxyFences
from rcompiler.emulator.faults import EmulationFault, Site
from rcompiler.emulator.machine.access import MemoryUnit
from rcompiler.emulator.machine.atomics import Atomics
from rcompiler.emulator.machine.barriers import Barriers
from rcompiler.emulator.machine.bulk import BulkCopies
from rcompiler.emulator.machine.cluster_barrier import ClusterBarriers
from rcompiler.emulator.machine.copies import Copies
from rcompiler.emulator.machine.counters import Counters
from rcompiler.emulator.machine.launch import Launch
from rcompiler.emulator.machine.matrix import MatrixUnit
from rcompiler.emulator.machine.specials import special
from rcompiler.emulator.machine.warp import Warps
from rcompiler.emulator.machine.warpgroup import Warpgroups
from rcompiler.emulator.ptx.types import bits_of

Array = npt.NDArray[Any]
DONE, ASLEEP, BUSY = "done", "asleep", "busy"


class Cohort:
    """Blocks `numbers` of a launch. A lane is a thread of one of them; arrays have one per lane.

    Threads that are at the same basic block execute it together, lowest block first, which brings
    branches together again. Threads of a spinning loop pause: they go on when nobody else can.
    Blocks that want whole warps wait for them. order: whom to ask which warps advance; None: all.
    """

    def __init__(
        self, launch: Launch, numbers: list[int], order: random.Random | None = None
    ) -> None:
        self.launch, self.numbers, self.threads = launch, numbers, launch.threads
        self._random = order
        self.count = len(numbers) * self.threads
        self.lanes = np.arange(self.count)
        self.live = self.lanes % self.threads < launch.alive
        self.carry = np.zeros(self.count, bool)
        self.clocks = Clocks(numbers, self.threads, launch.blocks)
        self.order, self.proxies = Order(self), ProxyFences(self)
        self.memory, self.atomics = MemoryUnit(self), Atomics(self)
        self.barriers, self.cluster = Barriers(self), ClusterBarriers(self)
        self.warp, self.matrix = Warps(self), MatrixUnit(self)
        self.counters, self.copies, self.bulk = Counters(self), Copies(self), BulkCopies(self)
        self.warpgroup = Warpgroups(self)
        layout = launch.kernel.layout
        self._registers = [np.zeros(self.count, bits_of(t)) for t in layout.registers]
        self._frame = np.zeros((self.count, layout.frame_bytes), np.uint8)
        self._returns = np.zeros((len(layout.functions), self.count), np.int64)
        self._ready: dict[int, Array] = {launch.kernel.start: self.live.copy()}
        self._asleep: dict[int, Array] = {}
        self._parked: dict[int, Array] = {}
        self._asked_at = np.zeros(self.count, np.int64)
        self._asked = np.zeros(self.count, np.uint64)
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

    # -- where threads go

    def go(self, number: int, mask: Array) -> None:
        if number in self._parked:
            mask = mask | self._parked.pop(number)
        if mask.any():
            known = self._ready.get(number)
            self._ready[number] = mask if known is None else known | mask

    def pause(self, number: int, mask: Array) -> None:
        if mask.any():
            known = self._asleep.get(number)
            self._asleep[number] = mask.copy() if known is None else known | mask

    def exit(self, mask: Array) -> None:
        self.launch.progress += 1
        self.live = self.live & ~mask

    def call(self, function: int, back: int, mask: Array) -> None:
        self._returns[function][mask] = back

    def leave(self, function: int, mask: Array) -> None:
        back = self._returns[function]
        for number in np.unique(back[mask]):
            self.go(int(number), mask & (back == number))

    def sleep(self, duration: Array, mask: Array) -> None:
        """Emulated time passes, of the thread that sleeps least."""
        if mask.any():
            self.launch.clock += int(duration[mask].min())

    def wild(self, at: int, mask: Array) -> None:
        """Threads whose branch leads nowhere."""
        if mask.any():
            raise self.fault("trap", at, int(np.flatnonzero(mask)[0]), "a branch beyond its list")

    def trap(self, at: int, mask: Array) -> None:
        if mask.any():
            raise self.fault("trap", at, int(np.flatnonzero(mask)[0]), "the program gave up")

    # -- values

    def wide(self, value: Any) -> Array:
        """One element per lane."""
        if isinstance(value, np.ndarray) and value.ndim:
            return value
        return np.full(self.count, value)

    def raw(self, value: Any, bits: str) -> Array:
        """The bits of values, for a register of that type."""
        if not (isinstance(value, np.ndarray) and value.ndim):
            value = np.full(self.count, value)
        if value.dtype == bits:
            return value
        if value.dtype.itemsize == int(bits[1:]):
            return np.ascontiguousarray(value).view(bits)
        return value.astype(bits)

    def assign(self, register: int, lanes: Array, value: Any) -> None:
        """Give a register of some lanes a value, between blocks."""
        values = self._registers[register].copy()
        values[lanes] = value
        self._registers[register] = values

    def special(self, name: str) -> Array:
        return special(self, name)

    def argument(self, offset: int, width: int, count: int) -> list[Any]:
        """Parts of the kernel's arguments, the same for all."""
        return list(np.frombuffer(self.launch.arguments, f"u{width}", count, offset))

    # -- parameters of calls

    def read_frame(self, offset: int, width: int, count: int) -> list[Array]:
        part = np.ascontiguousarray(self._frame[:, offset : offset + width * count])
        columns = part.view(f"u{width}")
        return [np.ascontiguousarray(columns[:, k]) for k in range(count)]

    def write_frame(self, offset: int, values: tuple[Array, ...], mask: Array | None) -> None:
        lanes = slice(None) if mask is None else mask
        for value in values:
            width = value.dtype.itemsize
            data = np.ascontiguousarray(value).view(np.uint8).reshape(-1, width)
            self._frame[lanes, offset : offset + width] = data[lanes]
            offset += width

    def copy_frame(self, into: int, source: int, size: int, mask: Array | None) -> None:
        lanes = slice(None) if mask is None else mask
        self._frame[lanes, into : into + size] = self._frame[lanes, source : source + size]

    # -- faults

    def threads_of(self, lanes: Array) -> Array:
        """Numbers of lanes' threads in the launch."""
        return self.clocks.block[lanes] * self.threads + lanes % self.threads

    def asks(self, at: int, lanes: Array, addresses: Array) -> None:
        """Remember what threads asked for last: if they wait for ever, this is for what."""
        self._asked_at[lanes], self._asked[lanes] = at, addresses

    def site(self, at: int, lane: int) -> Site:
        return self.launch.site(at, int(self.threads_of(np.array([lane]))[0]))

    def fault(
        self, kind: str, at: int, lane: int, detail: str, *, address: int | None = None,
        allocation: str = "", other: Site | None = None,
    ) -> EmulationFault:  # fmt: skip
        return EmulationFault(
            kind,
            self.site(at, lane),
            detail,
            address=address,
            allocation=allocation,
            other=other,
        )

    def waiting(self) -> list[tuple[Site, int]]:
        """Threads that spin, one of each loop and block: what they ask, and where."""
        found = []
        for mask in self._asleep.values():
            lanes = np.flatnonzero(mask)
            for lane in lanes[np.unique(lanes // self.threads, return_index=True)[1]].tolist():
                found.append((self.site(int(self._asked_at[lane]), lane), int(self._asked[lane])))
        return found
