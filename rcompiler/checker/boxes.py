"""Which elements and bytes of an operand each task of a kernel touches: boxes, exact."""

from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from rcompiler.checker.facts import MOST, MOST_AT_ONCE, Facts, Ints, forbid, ramp


class Access:
    """An operand of a kernel: `dims` of a dense row-major tensor, see `Facts.boxes`.

    result, pinned: whether it is written, and whether it lies in the memory of the EU; bytes,
    task_bytes: of all of it, and of the largest box; disjoint: no two tasks have a common
    element; covered: all of them together have every one.
    """

    def __init__(self, grid: Ints, data: Any, result: bool, pinned: bool) -> None:
        shape, self.itemsize, dims = data
        self.result, self.pinned = result, pinned
        self.cut = self.itemsize, shape.tolist(), dims.tolist()
        self.shape = np.append(1, shape)  # so that there is always a dim
        self.dims = axis, scale, offset, extent = np.append([[-1, 0, 0, 1]], dims, axis=0).T.copy()
        none = len(axis) != len(self.shape) or self.itemsize <= 0 or min([*self.shape, *grid]) < 0
        none |= ((axis < -1) | (axis >= len(grid)) | (scale < 0) | (extent < 0)).any()
        forbid(none, "notes", "the shape or the box of an operand is impossible")
        # a dim that no axis cuts is cut by one of a single task
        scale[axis < 0], offset[axis < 0], extent[axis < 0] = 0, 0, self.shape[axis < 0]
        self._grid, self.tasks = np.append(grid, 1), prod(grid.tolist())
        sizes = self._grid[axis]
        self.bytes = prod(self.shape.tolist()) * self.itemsize
        far = self.bytes > MOST or (scale > MOST // np.maximum(sizes, 1)).any()
        forbid(far, "notes", "an operand is too large, or its boxes lie too far away")
        self.task_bytes = prod(np.minimum(extent, self.shape).tolist()) * self.itemsize
        self.disjoint = {*np.flatnonzero(grid > 1)} <= {*axis[(scale >= extent) & (scale > 0)]}
        # without gaps, from the first element to the last, and no diagonal
        full = (offset <= 0) & (scale * (sizes - 1) + offset + extent >= self.shape)
        full &= (scale <= extent) | (sizes == 1)
        moving = axis[sizes > 1].tolist()
        whole = self.tasks > 0 and len({*moving}) == len(moving) and bool(full.all())
        self.covered = whole or not self.bytes

    @cached_property
    def spans(self) -> tuple[Ints, Ints]:
        """(number of the task, its bytes as intervals): one for each row that lies side by side."""
        axis, scale, offset, extent = self.dims
        point = np.indices(self._grid.tolist()).reshape(len(self._grid), -1)[axis].T
        low = scale * point + offset
        low, high = low.clip(0, self.shape), (low + extent).clip(0, self.shape)
        size, step = high - low, np.cumprod(np.append(self.itemsize, self.shape[:0:-1]))[::-1]
        cut = np.append(0, np.flatnonzero((size != self.shape).any(axis=0)))[-1]  # whole behind it
        rows = size[:, :cut].prod(axis=1) * (size > 0).all(axis=1)
        task, row = np.repeat(np.arange(len(rows)), rows), ramp(rows)
        start, length = low[task, cut] * step[cut], size[task, cut] * step[cut]
        for dim in range(cut - 1, -1, -1):
            row, place = divmod(row, size[task, dim])
            start += (low[task, dim] + place) * step[dim]
        return task, np.stack([start, start + length], axis=1)

    @property
    def side_by_side(self) -> bool:
        """Whether the box of each task is one run of bytes, behind that of the task before."""
        edges = np.minimum(np.arange(self.tasks + 1) * self.task_bytes, self.bytes)
        return np.array_equal(self.spans[1], np.stack([edges[:-1], edges[1:]], axis=1))


class Kernels:
    """The operands of all kernels, one kernel behind the other, results last.

    counts, tasks: (kernels,) how many operands and tasks each has; in_place: pairs of operands, as
    first * all + second: one that is read and a result, of the same boxes, of which each element is
    written after it was read.
    """

    def __init__(self, facts: Facts) -> None:
        self.accesses, pairs = list[Access](), list[tuple[int, int]]()
        for (grid, reads, writes, own), code in zip(facts.boxes, facts.sizes, strict=True):
            tasks, begin, both = prod(grid.tolist()), len(self.accesses), [*reads, *writes]
            each = [Access(grid, x, n >= len(reads), n in code[3]) for n, x in enumerate(both)]
            asked = [a.task_bytes if a.pinned else a.bytes for a in each]
            fits = (tasks, asked, len(writes)) == (code[0], [*code[1]], code[2])
            few = tasks * max([len(grid) + 1, *(len(a.shape) for a in each)]) <= MOST_AT_ONCE
            forbid(not few or not fits, "notes", "a kernel has not the boxes of its code")
            forbid(not all(a.covered for a in each if a.result), "task", "a result has gaps")
            own = [(r, len(reads) + w) for r, w in own if 0 <= r < len(reads) and w >= 0]
            own = [(r, w) for r, w in own if each[r].cut == each[w].cut and each[r].disjoint]
            pairs += [(begin + r, begin + w) for r, w in own]
            self.accesses += each
        self.counts = np.array(
            [len(reads) + len(writes) for _, reads, writes, _ in facts.boxes], int
        )
        self.tasks = np.array([code[0] for code in facts.sizes], np.int64)
        self.in_place = np.array(pairs, np.int64).reshape(-1, 2) @ [len(self.accesses), 1]
