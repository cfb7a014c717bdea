"""Boxes of tensors that rKernels copy by TMA, and the maps that describe them to the device.

A box knows its operand by number only, and a map the memory that operands lie in, so a kernel has a
map for each box and memory: rows of maps, by the number of the memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rcompiler.runtime.gpu.driver import Driver, TensorTile

MAP_BYTES = 128
MAX_RANK = 5
_WORD = 8
_HEAD = 2  # words in front of the records of the kernels


@dataclass(frozen=True)
class TensorMapBox:
    """argument: number of the operand; tile: the box, of a memory that begins at address 0."""

    argument: int
    tile: TensorTile

    def words(self) -> list[int]:
        """It as numbers."""
        tile = self.tile
        head = [self.argument, tile.element_bytes, tile.swizzle, len(tile.dims)]
        return [*head, *tile.dims, *tile.strides, *tile.box]

    @staticmethod
    def of(words: Sequence[int]) -> TensorMapBox:
        """From numbers. Raises ValueError for numbers that are no box."""
        if len(words) < 4:
            raise ValueError("a box of too few numbers")
        argument, element, swizzle, rank = words[:4]
        values = tuple(words[4:])
        if not 1 <= rank <= MAX_RANK or len(values) != 3 * rank - 1 or min(values) < 0:
            raise ValueError("a box of too few or many numbers")
        dims, strides, box = values[:rank], values[rank : 2 * rank - 1], values[2 * rank - 1 :]
        if argument < 0 or element not in (1, 2, 4, 8) or swizzle not in (0, 32, 64, 128):
            raise ValueError("a box of an unknown kind")
        return TensorMapBox(argument, TensorTile(0, element, dims, strides, box, swizzle))


class MapTable:
    """The table that the persistent kernel reads: how many maps there are, where the first one
    lies, and for each kernel where its first row lies and how long rows are.
    """

    def __init__(
        self,
        boxes: Mapping[int, Sequence[TensorMapBox]],
        kernels: int,
        memories: int,
        runs: Iterable[tuple[int, Sequence[int]]],
    ) -> None:
        """boxes: by the numbers of kernels; memories: that operands lie in; runs: kernel, and the
        memory of each operand, of all runs of the schedule.
        """
        self._kernels, self._memories = kernels, memories
        self._rows = [(kernel, box) for kernel in sorted(boxes) for box in boxes[kernel]]
        self._used: set[tuple[int, int]] = set()
        wanted = {kernel for kernel, _ in self._rows}
        for kernel, places in runs if wanted else ():
            if kernel in wanted:
                self._used.update(
                    (row, places[box.argument])
                    for row, (of, box) in enumerate(self._rows)
                    if of == kernel
                )

    @property
    def bytes(self) -> int:
        """Of the table and the maps behind it."""
        return self._head + len(self._rows) * self._memories * MAP_BYTES

    @property
    def _head(self) -> int:
        return -(-(_HEAD + 2 * self._kernels) * _WORD // MAP_BYTES) * MAP_BYTES

    def write(self, driver: Driver, address: int, places: Sequence[int]) -> None:
        """Write it to `bytes` bytes of the device at a multiple of 128; places: addresses of the
        memories. Raises DeviceError for a memory that does not start at a multiple of 16 bytes.
        """
        row_bytes = self._memories * MAP_BYTES
        maps = address + self._head
        firsts = {}
        for row, (kernel, _) in reversed(list(enumerate(self._rows))):
            firsts[kernel] = maps + row * row_bytes
        records = [(firsts.get(kernel, 0), row_bytes) for kernel in range(self._kernels)]
        head = [
            len(self._rows) * self._memories,
            maps,
            *(word for pair in records for word in pair),
        ]
        data = np.zeros(self.bytes, np.uint8)
        data[: len(head) * _WORD] = np.asarray(head, np.int64).view(np.uint8)
        for row, memory in sorted(self._used):
            tile = replace(self._rows[row][1].tile, address=places[memory])
            start = self._head + row * row_bytes + memory * MAP_BYTES
            data[start : start + MAP_BYTES] = np.frombuffer(driver.tensor_map(tile), np.uint8)
        driver.write(address, data)
