"""Which elements and bytes of an operand each task of a kernel touches: boxes, exact."""

from collections.abc import Sequence
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from rcompiler.checker.facts import MOST, MOST_AT_ONCE, Ints, numbers, ramp, refuse

_MOST_PAIRS = 1 << 22  # of tasks


class Access:
    """An operand of a kernel: `dims` of a dense row-major tensor, see `Facts.boxes`.

    result, pinned: whether it is written, and whether it lies in the memory of the EU; bytes,
    task_bytes: of all of it, and of the largest box; disjoint: no two tasks have a common
    element; covered: all of them together have every one.
    """

    def __init__(self, grid: Ints, data: Any, result: bool, pinned: bool) -> None:
        shape, item, dims = data
        self.result, self.pinned = result, pinned
        flat = numbers([item, *shape, *(x for dim in dims for x in dim)])
        self.itemsize, self.shape = int(flat[0]), flat[1 : 1 + len(shape)]
        self.dims = axis, scale, offset, extent = flat[1 + len(shape) :].reshape(-1, 4).T.copy()
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
        self.key, self.cut = flat[: 1 + len(shape)].tolist(), flat.tolist()
        apart = axis[(scale >= extent) & (scale > 0)]
        self.disjoint = {*np.flatnonzero(grid > 1).tolist()} <= {*apart.tolist()}
        # without gaps, from the first element to the last, and no diagonal
        full = (offset <= 0) & (scale * (sizes - 1) + offset + extent >= self.shape)
        full &= (scale <= extent) | (sizes <= 1)
        moving = axis[sizes > 1].tolist()
        whole = len({*moving}) == len(moving) and min(grid, default=1) > 0 and bool(full.all())
        self.covered = whole or not self.bytes

    @cached_property
    def boxes(self) -> tuple[Ints, Ints]:
        """(number of the task (k,), its box (k, rank, 2)); empty ones are left out."""
        axis, scale, offset, extent = self.dims
        point = np.indices(self._grid.tolist()).reshape(len(self._grid), -1)[axis].T
        low = scale * point + offset
        found = np.stack([low, low + extent], axis=2).clip(0, self.shape[:, None])
        some = np.flatnonzero((found[:, :, 0] < found[:, :, 1]).all(axis=1))
        return some, found[some]

    @cached_property
    def spans(self) -> tuple[Ints, Ints]:
        """(number of the task, its bytes as intervals): one for each row that lies side by side."""
        owner, boxes = self.boxes
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


def meeting(one: Access, two: Access, apart: int) -> tuple[Ints, Ints] | None:
    """Pairs of tasks that touch common bytes, where the first operand lies so many bytes behind the
    second: by the boxes of like tensors if they are few, else by their bytes.

    None: they are too many to be held against each other.
    """
    (first, a), (second, b) = one.boxes, two.boxes
    if one.key == two.key and not apart and len(a) * len(b) <= _MOST_PAIRS:
        meet = (a[:, None, :, 0] < b[:, :, 1]) & (b[:, :, 0] < a[:, None, :, 1])
        i, j = np.nonzero(meet.all(axis=2))
        return first[i], second[j]
    (first, a), (second, b) = one.spans, two.spans
    sort = np.argsort(b[:, 0], kind="stable")
    a, b, second = a + apart, b[sort], second[sort]
    # running maxima of the ends are sorted and leave nothing out
    low = np.searchsorted(np.maximum.accumulate(b[:, 1]), a[:, 0], side="right")
    sizes = np.maximum(np.searchsorted(b[:, 0], a[:, 1]) - low, 0)
    if sizes.sum() > _MOST_PAIRS:
        return None
    j = ramp(sizes) + np.repeat(low, sizes)
    i = np.repeat(np.arange(len(a)), sizes)
    some = a[i, 0] < b[j, 1]
    return divmod(np.unique(first[i[some]] * two.tasks + second[j[some]]), max(two.tasks, 1))


class Kernel:
    """The operands of a kernel, results last, and what its code was given of them.

    tasks: how many it has; in_place: numbers of an operand and a result of the same boxes, of
    which each element is written after it was read.
    """

    def __init__(self, boxes: Any, sizes: tuple[int, Sequence[int], int, Sequence[int]]) -> None:
        grid, reads, writes, pairs = boxes
        self.tasks, given, results, pinned = sizes
        axes = numbers(grid)
        self.operands = [
            Access(axes, data, n >= len(reads), n in pinned)
            for n, data in enumerate((*reads, *writes))
        ]
        asked = [a.task_bytes if a.pinned else a.bytes for a in self.operands]
        total = prod(axes.tolist())
        few = min(axes, default=1) >= 0 and total * (len(axes) + 1) <= MOST_AT_ONCE
        fits = (total, asked, len(writes)) == (self.tasks, [*given], results)
        if not few or not fits:
            refuse("notes", "a kernel has other tasks or operands than its code")
        if not all(access.covered for access in self.operands if access.result):
            refuse("task", "a kernel leaves a part of a result unwritten")
        own = [(r, w + len(reads)) for r, w in pairs if 0 <= r < len(reads) and w >= 0]
        cuts = [access.cut if access.disjoint else None for access in self.operands]
        self.in_place = {(r, w) for r, w in own if cuts[r] == cuts[w] is not None}
