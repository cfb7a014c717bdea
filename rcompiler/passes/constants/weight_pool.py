"""One block of weights for several programs: what is equal lies there once."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping

import numpy as np

from rcompiler.passes.constants.storing import storage_of
from rcompiler.runtime.deferred import Constant, Deferred, write
from rcompiler.runtime.memory import ALIGNMENT, arena
from rcompiler.runtime.storage import Storage
from rcompiler.support.own_pages import own_pages


class WeightPool:
    """The constants of several programs of one model.

    A program that is added later finds those of the programs before it, and adds what it has beside
    them: what was placed stays where it is.

    Attributes:
        placed: by its offset, each constant that was added here.
        size: bytes of the block so far.
        known: offsets of all constants, by the sha256 of their bytes.
    """

    def __init__(self) -> None:
        self.placed: dict[int, Constant] = {}
        self.size = 0
        self.known: dict[bytes, int] = {}
        self._arrays: dict[str, np.ndarray] = {}

    @staticmethod
    def behind(known: Mapping[bytes, int], size: int) -> WeightPool:
        """The pool for one more program of a model whose others have so many bytes of weights: what
        it adds lies behind them. known: where theirs lie, see `known`.
        """
        pool = WeightPool()
        pool.known, pool.size = dict(known), size
        return pool

    def interned(self, arrays: Mapping[str, Constant]) -> dict[str, Constant]:
        """The arrays of a module by their keys: those that an earlier one had as these objects, so
        that what is made of them is known to have one source. What lies in a file has the source
        that it is there.
        """
        found: dict[str, Constant] = {}
        for key, array in arrays.items():
            if isinstance(array, Deferred):
                found[key] = array
                continue
            known = self._arrays.setdefault(key, array)
            same = (known.shape, known.dtype) == (array.shape, array.dtype)
            found[key] = known if same and np.array_equal(_bits(known), _bits(array)) else array
        return found

    def place(self, array: Constant, apart: str = "") -> int:
        """Where a constant lies, in bytes from the start of the block, aligned to 64. apart: a name
        of those with these bytes that do not lie where others with them do."""
        bytes_ = _bytes(array)
        digest = hashlib.sha256(bytes_.data).digest() + apart.encode()
        offset = self.known.get(digest)
        if offset is None:
            offset = self.known[digest] = self.size
            self.placed[offset] = array
            self.size += -(-array.nbytes // ALIGNMENT) * ALIGNMENT
        return offset

    def block(self, memory: Callable[[int, str], np.ndarray] = arena) -> tuple[np.ndarray, Storage]:
        """uint8[size], all constants at their places, and how a file keeps them.

        Args:
            memory: gives bytes, which begin at a page, for what is named.

        Raises:
            DeviceError: there is no memory for them.
        """
        made = memory(self.size, "weights of the model")
        self._fill(made, 0)
        return made, storage_of(self.placed, made, sources=True)

    def added(self) -> tuple[int, np.ndarray]:
        """Of a pool behind others: where what was added begins, and its bytes.

        Raises:
            DeviceError: there is no memory for them.
        """
        start = min(self.placed, default=self.size)
        made = arena(self.size - start, "weights of the model")
        self._fill(made, start)
        return start, made

    def _fill(self, made: np.ndarray, start: int) -> None:
        """Write all that was added here. made: uint8, the bytes of the block from `start` on."""
        for offset, array in self.placed.items():
            place = made[offset - start : offset - start + array.nbytes]
            write(array, place.view(array.dtype).reshape(array.shape))


def _bits(array: np.ndarray) -> np.ndarray:
    """Its elements as numbers that equal only themselves, where it lies."""
    return array.view(f"u{array.itemsize}") if array.itemsize in (1, 2, 4, 8) else array


def _bytes(array: Constant) -> np.ndarray:
    """uint8[bytes] of a constant. What is computed is not kept: it may be larger than all else."""
    made = own_pages(array.nbytes)
    write(array, made.view(array.dtype).reshape(array.shape))
    return made
