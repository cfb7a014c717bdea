"""Bytes of one section that lie in several places of a file, without a copy of all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

import numpy as np


class Pieces:
    """What `uint8[size]` says of its bytes and parts, of several arrays one behind the other."""

    def __init__(self, arrays: Sequence[np.ndarray]) -> None:
        self._arrays = tuple(arrays)
        self._ends = list(accumulate(array.size for array in self._arrays))
        self.size = self._ends[-1] if self._ends else 0

    def __getitem__(self, part: slice) -> np.ndarray:
        """The bytes of a part: a view where one of the arrays has all of it, else a copy."""
        found = [*self._views(*part.indices(self.size)[:2])]
        return found[0] if len(found) == 1 else np.concatenate([np.empty(0, np.uint8), *found])

    def since(self, begin: int) -> Pieces:
        """All from there on, as pieces."""
        return Pieces([*self._views(begin, self.size)])

    def _views(self, begin: int, end: int) -> Iterator[np.ndarray]:
        for array, stop in zip(self._arrays, self._ends, strict=True):
            start = stop - array.size
            view = array[max(begin - start, 0) : max(end - start, 0)]
            if view.size:
                yield view
