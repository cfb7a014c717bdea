"""Weights that are computed where they are needed: numpy arrays whose elements come later.

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
# Elements that are evaluated at a time: 256 KiB in float64. With what they are made of they stay in
# a second-level cache, and in memory that numpy's allocator keeps: ResNet-50's filters take 0.08 s,
# and 0.23 s with twice as many elements.
BLOCK = 1 << 15


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
    """Another array in the same C order."""

    def __init__(self, source: Deferred, shape: Sequence[int]) -> None:
        # Not a method of this object: a cycle would keep weights until somebody collects garbage.
        boxes = _ReshapedBoxes(source, tuple(shape))
        super().__init__(boxes.shape, source.dtype, boxes, boxes.rows)
        self._source = source

    def write(self, out: np.ndarray) -> None:
        self._source.write(out.reshape(self._source.shape))


class _ReshapedBoxes:
    """The boxes of an array in another shape."""

    def __init__(self, source: Deferred, shape: tuple[int, ...]) -> None:
        self._source, self.shape = source, shape
        self.rows: frozenset[int] = frozenset()
        self._parts = _split(source.shape, shape)
        if self._parts is not None:
            # all but the outermost part of a dim stay whole, so that a box of one is a box of both
            self._inner = {part for own in self._parts for part in own[1:]}
            outer = {own[0] for dim, own in enumerate(self._parts) if own and dim in source.rows}
            self.rows = frozenset(self._inner | outer)

    def __call__(self, box: Box) -> np.ndarray:
        if self._parts is None or any(box[d] != slice(0, self.shape[d]) for d in self._inner):
            return self._source.whole.reshape(self.shape)[box]
        read = []
        for own in self._parts:
            each = math.prod(self.shape[part] for part in own[1:])
            begin, end = (box[own[0]].start, box[own[0]].stop) if own else (0, 1)
            read.append(slice(begin * each, end * each))
        return self._source[tuple(read)].reshape([part.stop - part.start for part in box])


def _split(old: Sequence[int], new: Sequence[int]) -> list[list[int]] | None:
    """For each dim of an array the dims that it is split into, outermost first, where a reshape
    does nothing else (dims of extent 1 come and go); else None.
    """
    if 0 in old:
        return None
    parts: list[list[int]] = []
    dims = [dim for dim, extent in enumerate(new) if extent != 1]
    for extent in old:
        own = []
        while extent != 1 and dims and extent % new[dims[0]] == 0:
            own.append(dims.pop(0))
            extent //= new[own[-1]]
        if extent != 1:
            return None
        parts.append(own)
    return None if dims else parts


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
