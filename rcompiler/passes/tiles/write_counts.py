"""How often each element of a result is written, by boxes at many points of a loop nest at once."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from rcompiler.passes.tiles.needed_boxes import Spans
from rcompiler.passes.tiles.points import bounded

_AT_ONCE = 1 << 20  # elements that are counted at once, which bounds memory


class WriteCounts:
    """How often each element of a tensor is written. Raises OverflowError as `points.bounded`."""

    def __init__(self, shape: Sequence[int]) -> None:
        self._shape = tuple(shape)
        self._counts = np.zeros(bounded(math.prod(shape)), np.int32)
        self._strides = [math.prod(shape[d + 1 :]) for d in range(len(shape))]

    def add(self, box: Spans, steps: Sequence[int], points: int) -> None:
        """At so many points a box in steps is written."""
        starts = np.zeros(points, np.int64)
        for (start, _), stride in zip(box, self._strides, strict=True):
            starts += start * stride
        sizes = np.empty((points, len(box)), np.int64)
        for d, ((start, end), step) in enumerate(zip(box, steps, strict=True)):
            sizes[:, d] = -(-(end - start) // step)
        for size in np.unique(sizes, axis=0):
            inside = np.zeros(1, np.int64)
            for n, step, stride in zip(size, steps, self._strides, strict=True):
                inside = (inside[:, None] + np.arange(n) * (step * stride)).ravel()
            own = starts[(sizes == size).all(axis=1)]
            together = max(_AT_ONCE // max(len(inside), 1), 1)
            for first in range(0, len(own), together):
                part = (own[first : first + together, None] + inside).ravel()
                np.add.at(self._counts, part, 1)

    def first_not_once(self) -> tuple[list[int], int] | None:
        """The first element that is not written once, and how often it is."""
        wrong = np.flatnonzero(self._counts != 1)
        if not len(wrong):
            return None
        where = np.unravel_index(wrong[0], self._shape) if self._shape else ()
        return [int(n) for n in where], int(self._counts[wrong[0]])
