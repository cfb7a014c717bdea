"""Which elements and bytes of an operand each task of a kernel touches: boxes, exact."""

from collections.abc import Sequence
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from rcompiler.checker.facts import MOST, MOST_AT_ONCE, Ints, forbid, ramp, refuse

_MOST_PAIRS = 1 << 22  # of intervals


class Access:
    """An operand of a kernel: `dims` of a dense row-major tensor, see `Facts.boxes`.

    result, pinned: whether it is written, and whether it lies in the memory of the EU; bytes,
    task_bytes: of all of it, and of the largest box; disjoint: no two tasks have a common
    element; covered: all of them together have every one.
    """

    def __init__(self, grid: Ints, data: Any, result: bool, pinned: bool) -> None:
        self.shape, self.itemsize, dims = data
        self.result, self.pinned = result, pinned
        self.cut = self.itemsize, self.shape.tolist(), dims.tolist()
        self.dims = axis, scale, offset, extent = dims.T.copy()
        fits = (-1 <= axis) & (axis < len(grid)) & (scale >= 0) & (extent >= 0)
        possible = self.itemsize > 0 and bool((self.shape >= 0).all())
        if len(axis) != len(self.shape) or not possible or not fits.all():
            refuse("notes", "the shape or the box of an operand is impossible")
        # a dim that no axis cuts is cut by one of a single task
        scale[axis < 0], offset[axis < 0], extent[axis < 0] = 0, 0, self.shape[axis < 0]
        self._grid, self.tasks = np.append(grid, 1), prod(grid.tolist())
        sizes = self._grid[axis]
        self.bytes = prod(self.shape.tolist()) * self.itemsize
        if self.bytes > MOST or (scale > MOST // np.maximum(sizes, 1)).any():
            refuse("notes", "an operand is too large, or its boxes lie too far away")
        self.task_bytes = prod(np.minimum(extent, self.shape).tolist()) * self.itemsize
        apart = axis[(scale >= extent) & (scale > 0)]
        self.disjoint = {*np.flatnonzero(grid > 1).tolist()} <= {*apart.tolist()}
        # without gaps, from the first element to the last, and no diagonal
        full = (offset <= 0) & (scale * (sizes - 1) + offset + extent >= self.shape)
        full &= (scale <= extent) | (sizes <= 1)
        moving = axis[sizes > 1].tolist()
        whole = len({*moving}) == len(moving) and min(grid, default=1) > 0 and bool(full.all())
        self.covered = whole or not self.bytes

    @cached_property
    def spans(self) -> tuple[Ints, Ints]:
        """(number of the task, its bytes as intervals): one for each row that lies side by side."""
        axis, scale, offset, extent = self.dims
        point = np.indices(self._grid.tolist()).reshape(len(self._grid), -1)[axis].T
        low = scale * point + offset
        boxes = np.stack([low, low + extent], axis=2).clip(0, self.shape[:, None])
        owner = np.flatnonzero((boxes[:, :, 0] < boxes[:, :, 1]).all(axis=1))
        boxes = boxes[owner]
        index, start = np.arange(len(boxes)), np.zeros(len(boxes), np.int64)
        length = np.full(len(boxes), self.itemsize)
        step, complete = self.itemsize, True
        for dim in range(len(self.shape) - 1, -1, -1):
            low, high = boxes[index, dim].T
            if complete:
                start, length = start + low * step, length * (high - low)
                complete = bool(((low == 0) & (high == self.shape[dim])).all())
            else:
                row, rows = ramp(high - low), np.repeat(np.arange(len(index)), high - low)
                start = start[rows] + (low[rows] + row) * step
                index, length = index[rows], length[rows]
            step *= int(self.shape[dim])
        return owner[index], np.stack([start, start + length], axis=1)

    @property
    def side_by_side(self) -> bool:
        """Whether the box of each task is one run of bytes, behind that of the task before."""
        edges = np.minimum(np.arange(self.tasks + 1) * self.task_bytes, self.bytes)
        return np.array_equal(self.spans[1], np.stack([edges[:-1], edges[1:]], axis=1))


def meeting(one: Ints, two: Ints) -> tuple[Ints, Ints] | None:
    """Which intervals (rows of begin, end) have bytes in common with which of the second ones.

    None: they are too many to be held against each other.
    """
    sort = np.argsort(two[:, 0])
    begin, end = two[sort].T
    # running maxima of the ends are sorted and leave nothing out
    first = np.searchsorted(np.maximum.accumulate(end), one[:, 0], side="right")
    sizes = np.maximum(np.searchsorted(begin, one[:, 1]) - first, 0)
    if sizes.sum() > _MOST_PAIRS:
        return None
    i, j = np.repeat(np.arange(len(one)), sizes), ramp(sizes) + np.repeat(first, sizes)
    some = one[i, 0] < end[j]
    return i[some], sort[j[some]]


class Kernel:
    """The operands of a kernel, results last, and what its code was given of them.

    tasks: how many it has; in_place: numbers of an operand and a result of the same boxes, of
    which each element is written after it was read.
    """

    def __init__(self, boxes: Any, sizes: tuple[int, Sequence[int], int, Sequence[int]]) -> None:
        grid, reads, writes, pairs = boxes
        self.tasks, given, results, pinned = sizes
        both = enumerate([*reads, *writes])
        self.operands = [Access(grid, x, n >= len(reads), n in pinned) for n, x in both]
        asked = [a.task_bytes if a.pinned else a.bytes for a in self.operands]
        total = prod(grid.tolist())
        few = min(grid, default=1) >= 0 and total * (len(grid) + 1) <= MOST_AT_ONCE
        fits = (total, asked, len(writes)) == (self.tasks, [*given], results)
        forbid(not few or not fits, "notes", "a kernel has other tasks or operands than its code")
        if not all(access.covered for access in self.operands if access.result):
            refuse("task", "a kernel leaves a part of a result unwritten")
        own = [(r, w + len(reads)) for r, w in pairs if 0 <= r < len(reads) and w >= 0]
        cuts = [access.cut if access.disjoint else None for access in self.operands]
        self.in_place = [(r, w) for r, w in own if cuts[r] == cuts[w] is not None]
