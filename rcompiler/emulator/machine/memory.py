"""Global memory: one arena of bytes, and the allocations in it."""

from __future__ import annotations

from bisect import bisect_right, insort
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rcompiler.emulator.translate.layout import GLOBAL
from rcompiler.errors import DeviceError

Bytes = npt.NDArray[np.uint8]
_ALIGN = 256
_GUARD = 256  # bytes between allocations, so that an overrun hits nothing
_FIRST = 1 << 20


@dataclass(frozen=True, order=True)
class Allocation:
    """Bytes start..start+size of the arena. name: of a variable, or what the driver calls it."""

    start: int
    size: int
    name: str
    constant: bool = False

    def __str__(self) -> str:
        return f"{self.name}, {self.size} bytes at {GLOBAL + self.start:#x}"


class DeviceMemory:
    """An arena that grows up to `capacity` bytes; `written`: which bytes have a value."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.bytes: Bytes = np.zeros(_FIRST, np.uint8)
        self.written: Bytes = np.zeros(_FIRST, np.uint8)
        self.end = _ALIGN
        self._live: list[Allocation] = []
        self._free: list[tuple[int, int]] = []  # start, size with guard
        self._made = 0
        self._views: dict[int, npt.NDArray[Any]] = {}

    def view(self, width: int) -> npt.NDArray[Any]:
        """The arena as unsigned numbers of `width` bytes."""
        if width not in self._views:
            self._views[width] = self.bytes.view(f"u{width}")
        return self._views[width]

    def allocate(self, size: int, name: str = "", constant: bool = False) -> Allocation:
        room = -(-max(size, 1) // _ALIGN) * _ALIGN + _GUARD
        start = self._take(room)
        self._made += 1
        made = Allocation(start, size, name or f"allocation {self._made}", constant)
        insort(self._live, made)
        self.written[start : start + room] = 0
        return made

    def _take(self, room: int) -> int:
        for k, (start, size) in enumerate(self._free):
            if size >= room:
                del self._free[k]
                if size > room:
                    insort(self._free, (start + room, size - room))
                return start
        start = self.end
        if start + room > self.capacity:
            raise DeviceError(
                f"the emulated device has {self.capacity} bytes of memory, and {room} more than "
                f"the {start} in use do not fit. Give the driver a larger memory_bytes"
            )
        self.end = start + room
        if self.end > len(self.bytes):
            self._grow()
        return start

    def _grow(self) -> None:
        size = max(2 * len(self.bytes), 1 << (self.end - 1).bit_length())
        for name in ("bytes", "written"):
            grown = np.zeros(size, np.uint8)
            old = getattr(self, name)
            grown[: len(old)] = old
            setattr(self, name, grown)
        self._views.clear()

    def free(self, address: int) -> None:
        found = self.find(address)
        if found is None or found.start + GLOBAL != address:
            raise DeviceError(f"{address:#x} is not the address of an allocation")
        self._live.remove(found)
        room = -(-max(found.size, 1) // _ALIGN) * _ALIGN + _GUARD
        insort(self._free, (found.start, room))
        self._free = _coalesced(self._free)

    def find(self, address: int) -> Allocation | None:
        """The allocation that an address lies in."""
        near = self.near(address)
        offset = address - GLOBAL
        return near if near and near.start <= offset < near.start + near.size else None

    def near(self, address: int) -> Allocation | None:
        """The allocation that an address lies in or behind."""
        at = bisect_right(self._live, address - GLOBAL, key=lambda a: a.start) - 1
        return self._live[at] if at >= 0 else None

    def host_range(self, address: int, size: int) -> slice:
        """Bytes that the host may copy, or DeviceError."""
        found = self.find(address)
        if size == 0:
            return slice(0, 0)
        start = address - GLOBAL
        if found is None or size < 0 or start + size > found.start + found.size:
            raise DeviceError(
                f"{size} bytes at {address:#x} lie in no allocation"
                + (f"; near is {found}" if found else "")
            )
        return slice(start, start + size)

    def outside(self, offsets: npt.NDArray[np.uint64], size: int) -> npt.NDArray[np.bool_]:
        """Which accesses of `size` bytes at these offsets of the arena lie in no allocation."""
        low, high = int(offsets.min()), int(offsets.max())
        if low < 1 << 62:
            one = self.near(GLOBAL + low)
            if one and one.start <= low and high + size <= one.start + one.size:
                return np.zeros(0, bool)
        starts = np.array([a.start for a in self._live] or [1 << 62], np.uint64)
        ends = np.array([a.start + a.size for a in self._live] or [0], np.uint64)
        at = np.searchsorted(starts, offsets, "right").astype(np.int64) - 1
        inside = (at >= 0) & (offsets < np.uint64(1 << 62))
        return ~(inside & (offsets + np.uint64(size) <= ends[at]))


def _coalesced(free: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, size in free:
        if merged and sum(merged[-1]) == start:
            merged[-1] = (merged[-1][0], merged[-1][1] + size)
        else:
            merged.append((start, size))
    return merged
