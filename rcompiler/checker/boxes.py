"""Which elements and bytes ranges of rTasks touch: boxes, exact."""

from collections.abc import Sequence
from math import prod

import numpy as np

from rcompiler.checker.facts import Ints, ramp, refuse, whole


class Access:
    """An operand of a kernel: `dims` of a dense row-major tensor, see `Facts.boxes`."""

    def __init__(self, grid: Sequence[int], data: Sequence[object]) -> None:
        shape, itemsize, dims = data
        self.grid = np.array(grid, np.int64)
        self.shape = np.array([whole(size) for size in shape], np.int64)  # type: ignore[attr-defined]
        self.itemsize = whole(itemsize)
        self.dims = np.array([[whole(x) for x in d] for d in dims], np.int64).reshape(-1, 4)  # type: ignore[attr-defined]
        axis = self.dims[:, 0]
        fits = (-1 <= axis) & (axis < len(grid)) & (self.dims[:, 1] >= 0) & (self.dims[:, 3] >= 0)
        if len(axis) != len(self.shape) or not fits.all():
            refuse("notes", "the box of an operand does not fit its kernel")
        if self.itemsize < 1 or (self.shape < 0).any():
            refuse("notes", "an operand has an impossible shape")
        self.bytes = prod(self.shape.tolist()) * self.itemsize
        part = np.where(axis < 0, self.shape, np.minimum(self.dims[:, 3], self.shape))
        self.task_bytes = prod(part.tolist()) * self.itemsize
        moves = axis[(axis >= 0) & self._many(axis)]
        gaps = (self.dims[:, 1] > self.dims[:, 3]) & (axis >= 0)
        # a box of the grid is a box of the tensor: no gaps, no diagonal
        self.regular = (
            len(set(moves.tolist())) == len(moves) and not (gaps & self._many(axis)).any()
        )
        apart = (self.dims[:, 1] >= self.dims[:, 3]) & (self.dims[:, 1] > 0) & (axis >= 0)
        single = set(np.flatnonzero(self.grid <= 1).tolist())
        self.disjoint = single | set(axis[apart].tolist()) == set(range(len(grid)))
        self.key = (tuple(self.shape.tolist()), self.itemsize)

    def _many(self, axis: Ints) -> np.ndarray:
        return np.append(self.grid, 1)[axis] > 1

    def covered(self) -> bool:
        """Whether all tasks together touch every element."""
        if not self.bytes:
            return True
        if not self.regular and len(self.grid):
            every = np.arange(prod(self.grid.tolist()))
            ones = np.ones(len(every), np.int64)
            spans = self.spans(self.ranges(every, ones, ones)[1])[1]
            spans = spans[np.argsort(spans[:, 0], kind="stable")]
            ends = np.maximum.accumulate(spans[:, 1])
            return bool(len(spans) and spans[0, 0] == 0 and ends[-1] >= self.bytes
                        and (spans[1:, 0] <= ends[:-1]).all())  # fmt: skip
        last = np.append(self.grid, 1)[self.dims[:, 0]] - 1
        _, scale, offset, extent = self.dims.T
        ends = scale * last + offset + extent
        fine = (
            (offset <= 0) & (ends >= self.shape) & ((scale <= extent) | (last == 0)) & (last >= 0)
        )
        return bool((fine | (self.dims[:, 0] < 0)).all())

    def ranges(self, first: Ints, count: Ints, stride: Ints) -> tuple[Ints, Ints]:
        """(owner (k,), boxes (k, rank, 2)) of task ranges; empty boxes are left out."""
        owner = np.arange(len(first))
        apart = (count > 1) & ((stride != 1) | (not self.regular))
        if apart.any():  # task by task
            sizes = np.where(apart, count, 1)
            owner, step = np.repeat(owner, sizes), ramp(sizes)
            first = first[owner] + step * np.where(apart, stride, 0)[owner]
            count = np.where(apart, 1, count)[owner]
        pieces, coordinates = self._grid_boxes(first, count)
        owner = owner[pieces]
        boxes = np.empty((len(owner), len(self.shape), 2), np.int64)
        for i, (axis, scale, offset, extent) in enumerate(self.dims.tolist()):
            if axis < 0:
                boxes[:, i] = 0, self.shape[i]
            else:
                boxes[:, i, 0] = scale * coordinates[:, axis, 0] + offset
                boxes[:, i, 1] = scale * (coordinates[:, axis, 1] - 1) + offset + extent
        np.clip(boxes, 0, self.shape[:, None], out=boxes)
        full = (boxes[:, :, 0] < boxes[:, :, 1]).all(axis=1)
        return owner[full], boxes[full]

    def _grid_boxes(self, low: Ints, count: Ints) -> tuple[Ints, Ints]:
        """Boxes of grid coordinates that make up ranges of row-major tasks: (range, boxes)."""
        rank = len(self.grid)
        owner, high = np.arange(len(low)), low + count
        box = np.zeros((len(low), rank, 2), np.int64)
        found: list[tuple[Ints, Ints]] = []
        for dim in range(rank):
            block = prod(self.grid[dim + 1 :].tolist())
            begin, end = -(-low // block), high // block  # whole blocks
            at = low // block
            one = begin > end  # inside of one block
            middle = begin < end
            done = box[middle]
            done[:, dim, 0], done[:, dim, 1] = begin[middle], end[middle]
            done[:, dim + 1 :, 1] = self.grid[dim + 1 :]
            found.append((owner[middle], done))
            head, tail = ~one & (low < begin * block), ~one & (end * block < high)
            parts = []
            for which, base, start, stop in (
                (one, at * block, low, high),
                (head, at * block, low, begin * block),
                (tail, end * block, end * block, high),
            ):
                inner = box[which]
                inner[:, dim, 0] = base[which] // block if block else 0
                inner[:, dim, 1] = inner[:, dim, 0] + 1
                parts.append(
                    (owner[which], start[which] - base[which], stop[which] - base[which], inner)
                )
            owner, low, high, box = (np.concatenate(column) for column in zip(*parts, strict=True))
        if not rank:
            found.append((owner, box))
        return np.concatenate([f[0] for f in found]), np.concatenate([f[1] for f in found])

    def hulls(self, boxes: Ints) -> Ints:
        """(k, 2): first byte and end of each box."""
        strides = (
            self.itemsize * np.append(np.cumprod(self.shape[:0:-1])[::-1], 1)[: len(self.shape)]
        )
        low = (boxes[:, :, 0] * strides).sum(axis=1)
        return np.stack([low, ((boxes[:, :, 1] - 1) * strides).sum(axis=1) + self.itemsize], axis=1)

    def spans(self, boxes: Ints) -> tuple[Ints, Ints]:
        """(box, its byte intervals): one for each row of a box that lies side by side."""
        index, start = np.arange(len(boxes)), np.zeros(len(boxes), np.int64)
        length = np.full(len(boxes), self.itemsize)
        step, complete = self.itemsize, True
        for dim in range(len(self.shape) - 1, -1, -1):
            low, high = boxes[index, dim].T
            if complete:
                start, length = start + low * step, length * (high - low)
                complete = bool(((low == 0) & (high == self.shape[dim])).all())
            else:
                rows = np.repeat(np.arange(len(index)), high - low)
                start = start[rows] + (low[rows] + ramp(high - low)) * step
                index, length = index[rows], length[rows]
            step *= int(self.shape[dim])
        return index, np.stack([start, start + length], axis=1)
