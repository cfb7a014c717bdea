"""Which elements and byte ranges of rTasks touch: boxes, exact."""

from collections.abc import Sequence
from functools import lru_cache
from math import prod

import numpy as np

from rcompiler.checker.facts import Ints, ramp, refuse, whole

_Box = tuple[tuple[int, int], ...]  # lower bound and end of each dim


class Access:
    """An operand of a kernel: `dims` of a dense row-major tensor, see `Facts.boxes`."""

    def __init__(self, grid: Sequence[int], data: Sequence[object]) -> None:
        numbers, item, boxes = data
        shape = [whole(size) for size in numbers]  # type: ignore[attr-defined]
        dims = [[whole(x) for x in dim] for dim in boxes]  # type: ignore[attr-defined]
        self.itemsize = whole(item)
        fits = (-1 <= a < len(grid) and scale >= 0 and extent >= 0 for a, scale, _, extent in dims)
        if len(dims) != len(shape) or not all(fits):
            refuse("notes", "the box of an operand does not fit its kernel")
        if self.itemsize < 1 or min(shape, default=0) < 0:
            refuse("notes", "an operand has an impossible shape")
        self.bytes = prod(shape) * self.itemsize
        part = [n if d[0] < 0 else min(d[3], n) for n, d in zip(shape, dims, strict=True)]
        self.task_bytes = prod(part) * self.itemsize
        moving = [dim for dim in dims if dim[0] >= 0 and grid[dim[0]] > 1]
        # a box of the grid is a box of the tensor: no gaps, no diagonal
        gaps = any(scale > extent for _, scale, _, extent in moving)
        self.regular = len({dim[0] for dim in moving}) == len(moving) and not gaps
        apart = {axis for axis, scale, _, extent in moving if scale >= extent and scale > 0}
        self.disjoint = all(size <= 1 or n in apart for n, size in enumerate(grid))
        self.key = (tuple(shape), self.itemsize)
        self.grid, self.shape = tuple(grid), np.array(shape, np.int64)
        self.dims = np.array(dims, np.int64).reshape(-1, 4)

    def covered(self) -> bool:
        """Whether all tasks together touch every element."""
        if not self.bytes:
            return True
        every = np.array([[0], [prod(self.grid)], [1]])
        boxes = self.ranges(*every)[1]
        if len(boxes) == 1:
            return bool((boxes[0, :, 1] - boxes[0, :, 0] == self.shape).all())
        spans = self.spans(boxes)[1]
        spans = spans[np.argsort(spans[:, 0], kind="stable")]
        ends = np.maximum.accumulate(np.append(0, spans[:, 1]))
        return bool((spans[:, 0] <= ends[:-1]).all() and ends[-1] >= self.bytes)

    def ranges(self, first: Ints, count: Ints, stride: Ints) -> tuple[Ints, Ints]:
        """(owner (k,), boxes (k, rank, 2)) of task ranges; empty boxes are left out."""
        owner = np.arange(len(first))
        apart = (count > 1) & ((stride != 1) | (not self.regular))
        if apart.any():  # task by task
            sizes = np.where(apart, count, 1)
            step = ramp(sizes)
            owner = np.repeat(owner, sizes)
            first = first[owner] + step * np.where(apart, stride, 0)[owner]
            count = np.where(apart, 1, count)[owner]
        pieces = [
            _grid_boxes(self.grid, low, low + n)
            for low, n in zip(first.tolist(), count.tolist(), strict=True)
        ]
        owner = np.repeat(owner, [len(boxes) for boxes in pieces])
        # of an operand that no axis cuts, axis -1 is a dim of one point
        box = np.zeros((len(owner), len(self.grid) + 1, 2), np.int64)
        if self.grid and len(owner):
            box[:, :-1] = [box for boxes in pieces for box in boxes]
        axis, scale, offset, extent = self.dims.T
        boxes = np.empty((len(owner), len(axis), 2), np.int64)
        boxes[:, :, 0] = scale * box[:, axis, 0] + offset
        boxes[:, :, 1] = scale * (box[:, axis, 1] - 1) + offset + extent
        boxes[:, axis < 0] = np.stack([0 * self.shape, self.shape], axis=1)[axis < 0]
        np.clip(boxes, 0, self.shape[:, None], out=boxes)
        full = (boxes[:, :, 0] < boxes[:, :, 1]).all(axis=1)
        return owner[full], boxes[full]

    def hulls(self, boxes: Ints) -> Ints:
        """(k, 2): first byte and end of each box."""
        inner = np.cumprod(np.append(self.itemsize, self.shape[:0:-1]))[::-1][: len(self.shape)]
        low = (boxes[:, :, 0] * inner).sum(axis=1)
        return np.stack([low, ((boxes[:, :, 1] - 1) * inner).sum(axis=1) + self.itemsize], axis=1)

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
                inner = ramp(high - low)
                rows = np.repeat(np.arange(len(index)), high - low)
                start = start[rows] + (low[rows] + inner) * step
                index, length = index[rows], length[rows]
            step *= int(self.shape[dim])
        return index, np.stack([start, start + length], axis=1)


@lru_cache(maxsize=1 << 16)
def _grid_boxes(grid: tuple[int, ...], low: int, high: int) -> tuple[_Box, ...]:
    """Boxes of grid coordinates that make up a range of row-major tasks."""
    if not grid or low >= high:
        return ((),) if low < high else ()
    block = prod(grid[1:])
    begin, end = -(-low // block), high // block  # whole blocks
    if begin > end:  # inside of one block
        parts = [(low, high)]
    else:
        parts = [(low, begin * block), (end * block, high)]
    found = [
        ((start // block, start // block + 1), *inner)
        for start, stop in parts
        for inner in _grid_boxes(grid[1:], start % block, start % block + stop - start)
    ]
    if begin < end:
        found.append(((begin, end), *((0, size) for size in grid[1:])))
    return tuple(found)
