"""Where a linalg op reads and writes a tensor: an indexing map over a window of loops."""

from collections.abc import Sequence

import numpy as np
from numpy.lib.stride_tricks import as_strided
from torch_mlir import ir

from numpy_linalg import affine

Window = Sequence[range]  # the coordinates of each loop that are looked at


class Access:
    """An indexing map, read once.

    Arrays of elements have one dim for each loop; along loops that they do not depend on they may
    be of size 1.
    """

    def __init__(self, map_: ir.AffineMap) -> None:
        self._map, self._rank = map_, map_.n_dims
        self.plain = affine.plain_dims(map_)
        found = [affine.linear(each, map_.n_dims) for each in map_.results]
        self._linear = None if None in found else [each for each in found if each is not None]

    def uses(self, dim: int) -> bool:
        """Whether elements depend on a loop."""
        return any(affine.uses(each, dim) for each in self._map.results)

    def read(self, tensor: np.ndarray, window: Window) -> np.ndarray:
        """The elements at the points of a window; possibly a view of the tensor."""
        if self._linear is not None:
            return self._view(self._linear, tensor, window)
        return tensor[self.indices(tensor.shape, window)]

    def write(self, tensor: np.ndarray, window: Window, elements: np.ndarray) -> None:
        """Put elements into a tensor."""
        if self._linear is not None:
            self._view(self._linear, tensor, window)[...] = elements
        else:
            tensor[self.indices(tensor.shape, window)] = elements

    def indices(self, shape: Sequence[int], window: Window) -> tuple[np.ndarray, ...]:
        """The coordinates in a tensor, which lie inside of it."""
        points = []
        for dim, steps in enumerate(window):
            along = [len(steps) if d == dim else 1 for d in range(self._rank)]
            points.append(np.arange(steps.start, steps.stop).reshape(along))
        found = []
        for dim, index in enumerate(affine.results(self._map, points)):
            index = np.asarray(index) + np.zeros([1] * self._rank, np.int64)
            self._check(dim, index.min(), index.max(), shape)
            found.append(index)
        return tuple(found)

    def _view(
        self, linear: list[tuple[int, list[int]]], tensor: np.ndarray, window: Window
    ) -> np.ndarray:
        """The elements, along each loop by the distance of two steps in memory."""
        strides, used, start = [0] * self._rank, [False] * self._rank, []
        for dim, (constant, factors) in enumerate(linear):
            low = high = first = constant
            for d, (factor, steps) in enumerate(zip(factors, window, strict=True)):
                if factor:
                    ends = factor * steps.start, factor * (steps.stop - 1)
                    low, high, first = low + min(ends), high + max(ends), first + ends[0]
                    strides[d] += factor * tensor.strides[dim]
                    used[d] = True
            self._check(dim, low, high, tensor.shape)
            start.append(slice(first, None))
        shape = [len(steps) if u else 1 for u, steps in zip(used, window, strict=True)]
        return as_strided(tensor[(*start, ...)], shape, strides)  # of no dims, too, a view

    def _check(self, dim: int, low: int, high: int, shape: Sequence[int]) -> None:
        if not 0 <= low <= high < shape[dim]:
            raise IndexError(
                f"{self._map} leads to elements {low} to {high} of dim {dim} of a tensor "
                f"{tuple(shape)}"
            )
