"""Copies between pageable memory of the host and a device, by way of page-locked memory.

The device reads and writes page-locked memory by itself; the host's own copies into it go on
meanwhile.
"""

import ctypes
from collections.abc import Callable, Iterator

import numpy as np

from rcompiler.runtime.gpu.driver import Bytes

_ALIGN = 256


def host_bytes(address: int, size: int) -> Bytes:
    """uint8[size] of this process's memory, where it lies; the caller keeps it alive."""
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))


class Staging:
    """Page-locked memory that is handed out piece by piece, and again when the device is done."""

    def __init__(self, address: int, size: int, wait: Callable[[], None]) -> None:
        """address, size: of the page-locked memory; wait: until the device has done its copies."""
        self._memory = host_bytes(address, size)
        self._address, self._wait, self._used = address, wait, 0

    def to_device(self, address: int, data: Bytes, copy: Callable[[int, int, int], None]) -> None:
        """Copy to the device's `address`; copy(target, source, size) starts one piece."""
        for start, size in self._pieces(data.size):
            source = self._take(size)
            self._memory[source : source + size] = data[start : start + size]
            copy(address + start, self._address + source, size)

    def to_host(self, address: int, size: int, copy: Callable[[int, int, int], None]) -> Bytes:
        """The bytes at the device's `address`, once all before it is done."""
        found = np.empty(size, np.uint8)
        for start, part in self._pieces(size):
            target = self._take(part)
            copy(self._address + target, address + start, part)
            self._wait()
            found[start : start + part] = self._memory[target : target + part]
        return found

    def _pieces(self, size: int) -> Iterator[tuple[int, int]]:
        most = self._memory.size
        return ((start, min(most, size - start)) for start in range(0, size, most))

    def _take(self, size: int) -> int:
        """Offset of so many bytes that the device does not use."""
        if self._used + size > self._memory.size:
            self._wait()
            self._used = 0
        offset = self._used
        self._used += -(-size // _ALIGN) * _ALIGN
        return offset
