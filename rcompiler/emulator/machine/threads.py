"""The threads of blocks that advance together: who they are, where they go on, what they hold."""

from __future__ import annotations

from typing import Any

import numpy as np

from rcompiler.emulator.checks.clocks import Clocks
from rcompiler.emulator.faults import EmulationFault, Site
from rcompiler.emulator.lanes import Array
from rcompiler.emulator.machine.launch import Launch
from rcompiler.emulator.ptx.types import bits_of


class Threads:
    """Of blocks `numbers` of a launch. A lane is a thread of one of them; arrays have one per lane.

    All that a unit knows of its cohort; other units that it needs are given to it. live: which
    lanes have not exited. clocks: what has happened before what.
    """

    def __init__(self, launch: Launch, numbers: list[int]) -> None:
        self.launch, self.numbers, self.threads = launch, numbers, launch.threads
        self.count = len(numbers) * self.threads
        self.lanes = np.arange(self.count)
        self.live = self.lanes % self.threads < launch.alive
        self.carry = np.zeros(self.count, bool)
        self.clocks = Clocks(numbers, self.threads, launch.blocks)
        layout = launch.kernel.layout
        self._registers = [np.zeros(self.count, bits_of(t)) for t in layout.registers]
        self._frame = np.zeros((self.count, layout.frame_bytes), np.uint8)
        self._returns = np.zeros((len(layout.functions), self.count), np.int64)
        self._ready: dict[int, Array] = {launch.kernel.start: self.live.copy()}
        self._asleep: dict[int, Array] = {}
        self._parked: dict[int, Array] = {}
        self._asked_at = np.zeros(self.count, np.int64)
        self._asked = np.zeros(self.count, np.uint64)

    # -- where threads go

    def go(self, number: int, mask: Array) -> None:
        if number in self._parked:
            mask = mask | self._parked.pop(number)
        if mask.any():
            known = self._ready.get(number)
            self._ready[number] = mask if known is None else known | mask

    def go_on(self, number: int, lanes: Array) -> None:
        """The same of lanes by their numbers."""
        mask = np.zeros(self.count, bool)
        mask[lanes] = True
        self.go(number, mask)

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
