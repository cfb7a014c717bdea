"""A block of weights that grows where it lies, so that programs that read it go on to do so."""

from __future__ import annotations

import mmap
import os

import numpy as np

from rcompiler.errors import DeviceError
from rcompiler.runtime.memory import ask_for_huge_pages, require

# Weights of a program in other layouts than those that are there: as a multiple of the first block.
# Winograd's F(4x4) filters are four times as large as what they are made of.
_MOST_ADDED = 4
_LEAST_ADDED = 64 << 20
_MAP_NORESERVE = 0x4000  # of Linux: no page is counted before it is written


class GrowingBlock:
    """Weights in one piece of memory, behind which there is room for more."""

    def __init__(self, later: int) -> None:
        """later: how many programs may add to it."""
        self._later, self._size = later, 0
        self._memory = np.empty(0, np.uint8)

    def begin(self, size: int, what: str) -> np.ndarray:
        """The first bytes of the block, zeros.

        Args:
            size: of them.
            what: they are, for messages.

        Raises:
            DeviceError: there is no room for them.
        """
        require(size, what)
        physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        most = size + self._later * (_MOST_ADDED * size + _LEAST_ADDED)
        most = max(min(most, physical), size, 1)
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
        try:
            memory = mmap.mmap(-1, most, flags)
        except OSError as error:
            raise DeviceError(
                f"{what}: the system refuses {most} bytes of address space for those of programs "
                f"that are built later ({error.strerror or error}); leave build out, or raise the "
                "limit"
            ) from None
        ask_for_huge_pages(memory)
        self._memory, self._size = np.frombuffer(memory, np.uint8), size
        return self._memory[:size]

    def extended(self, start: int, added: np.ndarray) -> np.ndarray:
        """All weights, with more of them behind those that are there.

        Args:
            start: where they begin, a multiple of 64 from the start of the block.
            added: uint8[bytes].

        Raises:
            DeviceError: there is no room for them.
        """
        if not added.size:
            return self._memory[: self._size]
        end = start + added.size
        if end > self._memory.size:
            raise DeviceError(
                f"the weights of the program in its layout take {added.size} bytes more, for which "
                "there is no room behind the others; compile the model with build='all'"
            )
        self._memory[start:end] = added
        self._size = end
        return self._memory[:end]
