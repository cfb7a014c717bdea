"""One block of weights for several programs: what is equal lies there once."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np

from rcompiler.passes.constants.storing import storage_of
from rcompiler.runtime.deferred import Constant, write
from rcompiler.runtime.memory import ALIGNMENT, arena
from rcompiler.runtime.storage import Storage


class WeightPool:
    """The constants of several programs of one model.

    A program that is added later finds those of the programs before it, and adds what it has beside
    them: what was placed stays where it is.

    Attributes:
        placed: by its offset, each constant.
        size: bytes of the block so far.
    """

    def __init__(self) -> None:
        self.placed: dict[int, Constant] = {}
        self.size = 0
        self._known: dict[bytes, int] = {}
        self._arrays: dict[str, np.ndarray] = {}

    def interned(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The arrays of a module by their keys: those that an earlier one had as these objects, so
        that what is made of them is known to have one source.
        """
        found = {}
        for key, array in arrays.items():
            known = self._arrays.setdefault(key, array)
            same = (known.shape, known.dtype) == (array.shape, array.dtype)
            found[key] = known if same and np.array_equal(_bits(known), _bits(array)) else array
        return found

    def place(self, array: Constant) -> int:
        """Where a constant lies, in bytes from the start of the block, aligned to 64."""
        bytes_ = _bytes(array)
        digest = hashlib.sha256(bytes_.data).digest()
        offset = self._known.get(digest)
        if offset is None:
            offset = self._known[digest] = self.size
            self.placed[offset] = array
            self.size += -(-array.nbytes // ALIGNMENT) * ALIGNMENT
        return offset

    def block(self) -> tuple[np.ndarray, Storage]:
        """uint8[size], all constants at their places, and how a file keeps them.

        Raises:
            DeviceError: there is no memory for them.
        """
        made = arena(self.size, "weights of the model")
        for offset, array in self.placed.items():
            place = made[offset : offset + array.nbytes]
            write(array, place.view(array.dtype).reshape(array.shape))
        return made, storage_of(self.placed, made, sources=True)


def _bits(array: np.ndarray) -> np.ndarray:
    """Its elements as numbers that equal only themselves, where it lies."""
    return array.view(f"u{array.itemsize}") if array.itemsize in (1, 2, 4, 8) else array


def _bytes(array: Constant) -> np.ndarray:
    """uint8[bytes] of a constant. What is computed is not kept: it may be larger than all else."""
    made = np.empty(array.shape, array.dtype)
    write(array, made)
    return made.reshape(-1).view(np.uint8)
