"""Many points of a loop nest at once: positions as numbers, or as arrays with one for each point.

A task is walked through loop by loop, but all turns of a loop, and all tasks, at the same time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np
from torch_mlir import ir

Number = int | np.ndarray  # the same at all points, or [points] of i64
Condition = bool | np.ndarray
Span = tuple[Number, Number]  # the first coordinate, and the one behind the last
Spans = tuple[Span, ...]

_MOST = 1 << 16  # points at once, which bounds memory
_LARGEST = 1 << 40  # of a position; sums of a few are far from the ends of 64 bits
_AT_ONCE = 1 << 20  # elements that are counted at once, which bounds memory


@dataclass(frozen=True)
class Points:
    """So many points, in the order in which a task after the other comes to them.

    task: the coordinates of their tasks in the grid. known: what their task's number and the loops
    around them are there. spans: what variables can be, of points of a forall that are looked at
    all at once.
    """

    count: int
    task: tuple[Number, ...]
    known: Mapping[ir.Value, Number]
    spans: Mapping[ir.Value, Span] = field(default_factory=dict)

    def first(self, condition: Condition) -> int | None:
        """The number of the first point of which a condition holds."""
        if isinstance(condition, np.ndarray):
            where = np.flatnonzero(condition)
            return int(where[0]) if len(where) else None
        return 0 if condition and self.count else None

    def taken(self, which: np.ndarray) -> Points:
        """Some of the points, by their numbers or as a mask."""
        count = int(which.sum()) if which.dtype == bool else len(which)
        known = {value: picked(number, which) for value, number in self.known.items()}
        spans = {v: (picked(a, which), picked(b, which)) for v, (a, b) in self.spans.items()}
        return Points(count, tuple(picked(n, which) for n in self.task), known, spans)

    def where(self, condition: Condition) -> Points:
        """Those of which a condition holds."""
        if isinstance(condition, np.ndarray):
            return self if condition.all() else self.taken(condition)
        return self if condition else Points(0, self.task, self.known, self.spans)

    def turns(
        self, variable: ir.Value, start: Number, end: Number, step: Number
    ) -> Iterator[Points]:
        """The turns of a loop, whose variable is start, start + step, ... below `end`: those of one
        point after those of the other, in groups that are not too large.
        """
        counts = np.broadcast_to(greatest(-(-(end - start) // step), 0), self.count)
        ends = np.cumsum(counts, dtype=np.int64)
        total = int(ends[-1]) if self.count else 0
        for first in range(0, total, _MOST):
            numbers = np.arange(first, min(first + _MOST, total))
            points = np.searchsorted(ends, numbers, side="right")
            turn = numbers - (ends - counts)[points]
            inner = self.taken(points)
            at = picked(start, points) + turn * picked(step, points)
            yield Points(inner.count, inner.task, {**inner.known, variable: at})


def tasks(number: ir.Value, grid: tuple[int, ...]) -> Iterator[Points]:
    """All tasks of a grid in their order, in groups that are not too large; number: of a task."""
    count = int(np.prod(grid, dtype=np.int64))
    for first in range(0, count, _MOST):
        numbers = np.arange(first, min(first + _MOST, count))
        at = np.unravel_index(numbers, grid) if grid else ()
        yield Points(len(numbers), tuple(at), {number: numbers})


def picked(number: Number, which: np.ndarray) -> Number:
    """A number at some points."""
    return number[which] if isinstance(number, np.ndarray) else number


def at_point(number: Number, point: int) -> int:
    """A number at one point."""
    return int(number[point]) if isinstance(number, np.ndarray) else number


def least(*numbers: Number) -> Number:
    """The least of some numbers at each point."""
    return _extreme(min, np.minimum, numbers)


def greatest(*numbers: Number) -> Number:
    """The greatest of some numbers at each point."""
    return _extreme(max, np.maximum, numbers)


def _extreme(of_ints: Any, of_arrays: Any, numbers: tuple[Number, ...]) -> Number:
    if any(isinstance(n, np.ndarray) for n in numbers):
        return reduce(of_arrays, numbers)
    return of_ints(numbers)


def bounded(number: Number) -> Number:
    """The number itself. Raises OverflowError for one that no position of a tensor can be: arrays
    have 64 bits, and what is proved must not be proved of numbers that wrapped.
    """
    if _magnitude(number) >= _LARGEST:
        raise OverflowError
    return number


def times(a: Number, b: Number) -> Number:
    """The product of two positions. Raises OverflowError as `bounded`."""
    if _magnitude(a) * _magnitude(b) >= _LARGEST:
        raise OverflowError
    return a * b


def _magnitude(number: Number) -> int:
    if isinstance(number, np.ndarray):
        return max(int(number.max()), -int(number.min())) if number.size else 0
    return abs(number)


def chosen(condition: Condition, a: Number, b: Number) -> Number:
    """`a` where a condition holds, elsewhere `b`."""
    if isinstance(condition, np.ndarray):
        return np.where(condition, a, b)
    return a if condition else b


def same_key(number: Number) -> object:
    """Equal for equal numbers."""
    return number.tobytes() if isinstance(number, np.ndarray) else number


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
