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
        self.itemsize, self.result, self.pinned = data[1], result, pinned
        # in Python, as dims are few; one more of each, so that there is always a dim
        shape, dims, turns = [1, *data[0].tolist()], data[2].tolist(), [*grid.tolist(), 1]
        none = len(dims) != len(shape) - 1 or self.itemsize <= 0 or min(*shape, *turns) < 0
        none |= any(not -1 <= a < len(grid) or s < 0 or e < 0 for a, s, _, e in dims)
        forbid(none, "notes", "the shape or the box of an operand is impossible")
        # (axis, scale, offset, extent, size); what no axis cuts is cut by one of a single task
        cuts = zip([(-1, 0, 0, 0), *dims], shape, strict=True)
        dims = [(*cut, n) if cut[0] >= 0 else (-1, 0, 0, n, n) for cut, n in cuts]
        self.cut, self.tasks, self._grid = (self.itemsize, dims), prod(turns), np.array(turns)
        self.shape, self.dims = np.array(shape), np.array(dims).T[:4]
        self.bytes = prod(shape) * self.itemsize
        far = self.bytes > MOST or any(s * turns[a] > MOST for a, s, *_ in dims)
        forbid(far, "notes", "an operand is too large, or its boxes lie too far away")
        self.task_bytes = prod(min(e, n) for *_, e, n in dims) * self.itemsize
        apart = {a for a, s, _, e, _ in dims if s >= e and s > 0}
        self.disjoint = {a for a, n in enumerate(turns) if n > 1} <= apart
        # without gaps, from the first element to the last, and no diagonal
        full = all(o <= 0 and s * (turns[a] - 1) + o + e >= n for a, s, o, e, n in dims)
        full = full and all(s <= e or turns[a] == 1 for a, s, _, e, _ in dims)
        moving = [a for a, *_ in dims if turns[a] > 1]
        self.covered = not self.bytes or (self.tasks > 0 and len({*moving}) == len(moving) and full)

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


class KernelOperands:
    """The operands of all kernels, one kernel behind the other, results last.

    counts, tasks: (kernels,) how many operands and tasks each has; in_place: pairs of operands, as
    first * all + second: one that is read and a result, of the same boxes, of which each element is
    written after it was read; updates: pairs (first, second) that have to lie in one place, as only
    a part of the result is written.
    """

    def __init__(self, facts: Facts) -> None:
        self.accesses, self.updates = list[Access](), list[tuple[int, int]]()
        pairs = list[tuple[int, int]]()
        for (grid, reads, writes, own), code in zip(facts.boxes, facts.sizes, strict=True):
            tasks, begin, both = prod(grid.tolist()), len(self.accesses), [*reads, *writes]
            each = [Access(grid, x, n >= len(reads), n in code[3]) for n, x in enumerate(both)]
            asked = [a.task_bytes if a.pinned else a.bytes for a in each]
            fits = (tasks, asked, len(writes)) == (code[0], [*code[1]], code[2])
            few = tasks * max([len(grid) + 1, *(len(a.shape) for a in each)]) <= MOST_AT_ONCE
            forbid(not few or not fits, "notes", "a kernel has not the boxes of its code")
            forbid(not all(a.covered for a in each if a.result), "task", "a result has gaps")
            own = [own for own in own if 0 <= own[0] < len(reads) and own[1] >= 0]
            own = [(r, len(reads) + w, *more) for r, w, *more in own]
            self.updates += [(begin + r, begin + w) for r, w, *more in own if more]
            own = [(r, w) for r, w, *_ in own if each[r].cut == each[w].cut and each[r].disjoint]
            pairs += [(begin + r, begin + w) for r, w in own]
            self.accesses += each
        self.counts = np.array([len(own[1]) + len(own[2]) for own in facts.boxes], int)
        self.tasks = np.array([code[0] for code in facts.sizes], np.int64)
        self.in_place = np.array(pairs, np.int64).reshape(-1, 2) @ [len(self.accesses), 1]
