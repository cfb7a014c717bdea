"""Memory of a device that a model holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate

import numpy as np

from rcompiler.runtime.gpu.driver import Driver

WORD = 8  # bytes


def behind_one_another(start: int, words: Iterable[int]) -> list[int]:
    """Addresses of tables of so many words each, the first of them at `start`."""
    return [start + WORD * before for before in accumulate(words, initial=0)][:-1]


class OwnedMemory:
    """Addresses on the device that are given back together."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._addresses: list[int] = []
        self._mapped: list[int] = []

    def new(self, size: int) -> int:
        """Address of `size` bytes."""
        address = self._driver.allocate(max(size, 1))
        self._addresses.append(address)
        return address

    def words(self, numbers: Sequence[int] | np.ndarray) -> int:
        """Address of these 64-bit words."""
        array = np.ascontiguousarray(numbers, np.int64)
        address = self.new(array.nbytes)
        if array.size:
            self._driver.write(address, array.view(np.uint8))
        return address

    def parts(self, tables: Iterable[Sequence[int] | np.ndarray]) -> list[int]:
        """The address of each of several tables of 64-bit words, which lie behind one another."""
        arrays = [np.asarray(table, np.int64) for table in tables]
        whole = self.words(np.concatenate([np.zeros(0, np.int64), *arrays]))
        return behind_one_another(whole, map(len, arrays))

    def zeros(self, count: int) -> int:
        """Address of so many 64-bit words, all 0."""
        return self.words(np.zeros(count, np.int64))

    def mapped(self, size: int) -> int:
        """Address of bytes that the host sees even when a launch has failed."""
        address = self._driver.map_host(max(size, 1))
        self._mapped.append(address)
        return address

    def free(self) -> None:
        """Give everything back."""
        for address in self._addresses:
            self._driver.free(address)
        for address in self._mapped:
            self._driver.unmap_host(address)
        self._addresses, self._mapped = [], []
