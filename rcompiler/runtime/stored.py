"""Constants whose elements stay in a file, and are read whenever somebody asks for them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from rcompiler.errors import InvalidModel
from rcompiler.runtime.deferred import Box, Deferred

_PIECE = 1 << 20  # bytes that are read at a time into an array


class Store(Protocol):
    """Bytes by their places, of a file that is open."""

    def read(self, start: int, count: int) -> np.ndarray:
        """Bytes as uint8. Raises ValueError, OSError."""

    def is_unchanged(self) -> bool:
        """Whether they are still what they were when it was opened. Raises OSError."""


class Stored(Deferred):
    """An array in C order in a file.

    Nothing of it stays in memory: it is read again for each who asks, whole.
    """

    def __init__(self, store: Store, start: int, shape: Sequence[int], dtype: np.dtype) -> None:
        """start: where its bytes begin in the store."""
        self._store, self._start = store, start
        size = math.prod(shape) * dtype.itemsize

        def block(box: Box) -> np.ndarray:
            return _read(store, start, size).view(dtype).reshape(shape)[box]

        super().__init__(tuple(shape), dtype, block, frozenset(range(len(shape))))

    @property
    def whole(self) -> np.ndarray:
        """All elements, which nobody else has. Raises InvalidModel: they are there no more."""
        return self.part(0, self.nbytes).view(self.dtype).reshape(self.shape)

    def part(self, begin: int, end: int) -> np.ndarray:
        """Some of its bytes, as uint8. Raises InvalidModel as `whole`.

        Args:
            begin, end: in the bytes of the array.
        """
        return _read(self._store, self._start + begin, end - begin)

    def write(self, out: np.ndarray) -> None:
        """All elements into an array of the same shape, whatever its strides are. Raises
        InvalidModel as `whole`.
        """
        if self.nbytes <= _PIECE:
            out[...] = self.whole
            return
        out = out.squeeze()
        rows, each = out.shape[0], self.nbytes // out.shape[0]
        step = max(1, _PIECE // each)
        for first in range(0, rows, step):  # else they are there twice
            last = min(first + step, rows)
            part = self.part(first * each, last * each).view(self.dtype)
            out[first:last] = part.reshape(out[first:last].shape)

    def reshaped(self, shape: Sequence[int]) -> Stored:
        """The same elements in C order.

        Args:
            shape: of as many.
        """
        return Stored(self._store, self._start, shape, self.dtype)

    @property
    def place(self) -> tuple[int, int]:
        """Equal where the bytes of two arrays that are there are the same ones."""
        return id(self._store), self._start

    @property
    def unread(self) -> np.ndarray:
        """An array of its shape and type without any of its elements, and without memory."""
        return np.broadcast_to(np.zeros((), self.dtype), self.shape)

    def is_there(self) -> bool:
        """Whether it can be read still."""
        try:
            return self._store.is_unchanged()
        except OSError:
            return False


def _read(store: Store, start: int, count: int) -> np.ndarray:
    try:
        return store.read(start, count)
    except (ValueError, OSError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise InvalidModel(f"a weight of the model cannot be read again: {why}") from None
