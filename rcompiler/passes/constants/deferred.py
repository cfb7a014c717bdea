"""Constants that are computed where they are needed: numpy arrays whose elements come later.

A chain of operations, as that from filters by way of float64 to their Winograd form, is evaluated
block by block from its operands to its result. What lies between stays in the caches, and the
result is written once, to its place in the weights of the model: memory that was never touched
before costs more than the arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

Box = tuple[slice, ...]
# Elements that are evaluated at a time: 1 MiB in float64, a second-level cache of the machine that
# compiles, which no record of a target knows.
BLOCK = 1 << 17


@dataclass(eq=False)
class Deferred:
    """An array that is computed box by box.

    block: the elements of a box. rows: dims whose elements are made of the same terms; boxes have
    all of them.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    block: Callable[[Box], np.ndarray]
    rows: frozenset[int] = frozenset()

    def __getitem__(self, box: Box) -> np.ndarray:
        return self.block(box)

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    @cached_property
    def whole(self) -> np.ndarray:
        """All elements, in C order."""
        made = np.empty(self.shape, self.dtype)
        self.write(made)
        return made

    def write(self, out: np.ndarray) -> None:
        """All elements into a C-contiguous array of the same shape."""
        step = self._step()
        for index in np.ndindex(*(-(-n // s) for n, s in zip(self.shape, step, strict=True))):
            box = tuple(
                slice(i * s, min(n, i * s + s))
                for i, s, n in zip(index, step, self.shape, strict=True)
            )
            out[box] = self.block(box)

    def _step(self) -> list[int]:
        """The extents of a block: rows and the last dims whole, the first dims one by one."""
        step = [max(1, n) for n in self.shape]
        for dim in sorted(set(range(len(step))) - self.rows):
            step[dim] = max(1, step[dim] * BLOCK // max(BLOCK, math.prod(step)))
        return step


class _Reshaped(Deferred):
    """Another array in the same C order; the blocks of that one are no boxes of this one."""

    def __init__(self, source: Deferred, shape: Sequence[int]) -> None:
        super().__init__(tuple(shape), source.dtype, lambda box: self.whole[box])
        self._source = source

    def write(self, out: np.ndarray) -> None:
        self._source.write(out.reshape(self._source.shape))


Constant = np.ndarray | Deferred


def whole(array: Constant) -> np.ndarray:
    """All elements of a constant."""
    return array.whole if isinstance(array, Deferred) else array


def write(array: Constant, out: np.ndarray) -> None:
    """All elements of a constant into a C-contiguous array of the same shape."""
    if isinstance(array, Deferred):
        array.write(out)
    else:
        out[...] = array


def reshape(array: Constant, shape: Sequence[int]) -> Constant:
    """The same elements in C order; they are not copied."""
    if isinstance(array, Deferred):
        return _Reshaped(array, shape)
    try:
        return np.reshape(array, shape, copy=False)
    except ValueError:  # no strides can tell
        return _Reshaped(Deferred(array.shape, array.dtype, array.__getitem__), shape)
