"""Which elements and bytes rTasks touch: exact boxes of task ranges, vectorised.

A box array is int64 of shape (n, rank, 2): lower bound and end of each tensor dim.
"""

from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from rcompiler.rammer.kernel import WHOLE, Access

Ints = NDArray[np.int64]


def counted(counts: Ints) -> Ints:
    """0, 1, ... count - 1 of each count, in a row."""
    return np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)


def grid_boxes(grid: Sequence[int], first: Ints, count: Ints) -> tuple[Ints, Ints]:
    """Split contiguous task ranges into boxes of grid coordinates.

    first, count: (n,) ranges of row-major task indices. Returns (owner (k,), boxes (k, rank, 2)):
    the range each box belongs to; at most 2 * rank - 1 boxes per range, and they are disjoint.
    """
    owner = np.flatnonzero(np.asarray(count) > 0)
    low = np.asarray(first, np.int64)[owner]
    high = low + np.asarray(count, np.int64)[owner]
    strides = [prod(grid[i + 1 :]) for i in range(len(grid))]
    pieces: list[tuple[Ints, Ints, Ints, int]] = []  # owner, from, to, grid dim it runs along
    for dim in range(len(grid) - 1, 0, -1):
        block = strides[dim - 1]
        if grid[dim] == 1 or not len(owner):
            continue  # the piece would be a whole block: the next dim out takes it
        inner_low, inner_high = -(-low // block) * block, high // block * block
        inside = inner_low > inner_high  # within one block: a single piece
        head = ~inside & (low < inner_low)
        tail = ~inside & (inner_high < high)
        pieces.append((owner[inside], low[inside], high[inside], dim))
        pieces.append((owner[head], low[head], inner_low[head], dim))
        pieces.append((owner[tail], inner_high[tail], high[tail], dim))
        rest = ~inside & (inner_low < inner_high)
        owner, low, high = owner[rest], inner_low[rest], inner_high[rest]
    pieces.append((owner, low, high, 0))
    pieces = [piece for piece in pieces if len(piece[0])]
    if not pieces:
        return np.empty(0, np.int64), np.empty((0, len(grid), 2), np.int64)
    boxes = []
    for _, start, end, dim in pieces:
        box = np.zeros((len(start), len(grid), 2), np.int64)
        for i, size in enumerate(grid):
            if i < dim:
                box[:, i, 0] = start // strides[i] % size
                box[:, i, 1] = box[:, i, 0] + 1
            elif i == dim:
                box[:, i, 0] = start // strides[i] % size
                box[:, i, 1] = box[:, i, 0] + (end - start) // strides[i]
            else:
                box[:, i, 1] = size
        boxes.append(box)
    return np.concatenate([p[0] for p in pieces]), np.concatenate(boxes)


def _split_axis(owner: Ints, boxes: Ints, axis: int) -> tuple[Ints, Ints]:
    """Cut grid boxes into slices one coordinate thick along `axis`."""
    sizes = boxes[:, axis, 1] - boxes[:, axis, 0]
    index = np.repeat(np.arange(len(boxes)), sizes)
    cut = boxes[index]
    cut[:, axis, 0] += counted(sizes)
    cut[:, axis, 1] = cut[:, axis, 0] + 1
    return owner[index], cut


def range_boxes(grid: Sequence[int], access: Access, first: Ints, count: Ints) -> tuple[Ints, Ints]:
    """Boxes of the tensor that contiguous task ranges touch, exactly.

    first, count: (n,). Returns (owner (k,), boxes (k, rank, 2)); boxes of one owner may overlap,
    empty boxes are left out.
    """
    owner, coords = grid_boxes(grid, first, count)
    used: set[int] = set()
    for dim in access.dims:
        if dim.axis == WHOLE or grid[dim.axis] == 1:
            continue
        # A range of coordinates is one interval unless it has gaps; two dims that follow the same
        # axis are a diagonal, not a box.
        if dim.scale > dim.extent or dim.axis in used:
            owner, coords = _split_axis(owner, coords, dim.axis)
        used.add(dim.axis)
    boxes = np.empty((len(owner), len(access.shape), 2), np.int64)
    for i, (dim, size) in enumerate(zip(access.dims, access.shape, strict=True)):
        if dim.axis == WHOLE:
            boxes[:, i] = (0, size)
            continue
        axis = coords[:, dim.axis]
        boxes[:, i, 0] = dim.scale * axis[:, 0] + dim.offset
        boxes[:, i, 1] = dim.scale * (axis[:, 1] - 1) + (dim.offset + dim.extent)
    np.maximum(boxes, 0, out=boxes)
    np.minimum(boxes, np.array(access.shape, np.int64)[:, None], out=boxes)
    full = (boxes[:, :, 0] < boxes[:, :, 1]).all(axis=1)
    return (owner, boxes) if full.all() else (owner[full], boxes[full])


def task_boxes(grid: Sequence[int], access: Access, tasks: Ints | None = None) -> Ints:
    """The box of each task: (n, rank, 2), empty boxes included; default: all tasks."""
    tasks = np.arange(prod(grid)) if tasks is None else np.asarray(tasks, np.int64)
    coords = np.unravel_index(tasks, tuple(grid)) if grid else ()
    boxes = np.empty((len(tasks), len(access.shape), 2), np.int64)
    for i, (dim, size) in enumerate(zip(access.dims, access.shape, strict=True)):
        if dim.axis == WHOLE:
            boxes[:, i] = (0, size)
            continue
        start = dim.scale * coords[dim.axis] + dim.offset
        boxes[:, i, 0] = np.clip(start, 0, size)
        boxes[:, i, 1] = np.clip(start + dim.extent, 0, size)
    return boxes


def byte_ranges(access: Access, boxes: Ints, base: int = 0) -> Ints:
    """Byte intervals (k, 2) of boxes in the row-major tensor, sorted, disjoint and merged.

    base: byte offset of the tensor.
    """
    if not len(boxes):
        return np.empty((0, 2), np.int64)
    return merge_ranges(labelled_byte_ranges(access, boxes, base)[1])


def labelled_byte_ranges(access: Access, boxes: Ints, base: int = 0) -> tuple[Ints, Ints]:
    """(index of the box (k,), its byte intervals (k, 2)), one per contiguous row of a box."""
    rank = len(access.shape)
    step = access.itemsize
    start = np.full(len(boxes), base, np.int64)
    length = np.full(len(boxes), access.itemsize, np.int64)
    index = np.arange(len(boxes))
    whole = True
    for dim in range(rank - 1, -1, -1):
        low, high = boxes[index, dim, 0], boxes[index, dim, 1]
        if whole:  # everything inside is full, so this dim only makes the interval longer
            start = start + low * step
            length = length * (high - low)
            whole = bool(((low == 0) & (high == access.shape[dim])).all())
        else:
            sizes = high - low
            rows = np.repeat(np.arange(len(index)), sizes)
            start = start[rows] + (low[rows] + counted(sizes)) * step
            length, index = length[rows], index[rows]
        step *= access.shape[dim]
    return index, np.stack([start, start + length], axis=1)


def merge_ranges(ranges: Ints) -> Ints:
    """Sort byte intervals (n, 2) and join those that touch or overlap."""
    ranges = ranges[ranges[:, 0] < ranges[:, 1]]
    if not len(ranges):
        return ranges
    ranges = ranges[np.argsort(ranges[:, 0], kind="stable")]
    ends = np.maximum.accumulate(ranges[:, 1])
    breaks = np.flatnonzero(ranges[1:, 0] > ends[:-1])
    merged = np.empty((len(breaks) + 1, 2), np.int64)
    merged[0, 0], merged[-1, 1] = ranges[0, 0], ends[-1]
    merged[1:, 0], merged[:-1, 1] = ranges[breaks + 1, 0], ends[breaks]
    return merged


def intersect_ranges(a: Ints, b: Ints) -> Ints:
    """Intersection of two merged interval lists, merged."""
    first = np.searchsorted(b[:, 1], a[:, 0], side="right")
    last = np.searchsorted(b[:, 0], a[:, 1], side="left")
    sizes = np.maximum(last - first, 0)
    left = np.repeat(np.arange(len(a)), sizes)
    right = counted(sizes) + first[left]
    low = np.maximum(a[left, 0], b[right, 0])
    return np.stack([low, np.minimum(a[left, 1], b[right, 1])], axis=1)


def covers(grid: Sequence[int], access: Access) -> bool:
    """Whether all tasks together touch every element.

    Exact when no two dims follow the same axis (a product of intervals).
    """
    if prod(access.shape) == 0:
        return True
    followed = [d.axis for d in access.dims if d.axis != WHOLE and grid[d.axis] > 1]
    if len(set(followed)) != len(followed):
        boxes = task_boxes(grid, access)
        merged = byte_ranges(access, boxes[(boxes[:, :, 0] < boxes[:, :, 1]).all(axis=1)])
        return len(merged) == 1 and merged[0, 1] - merged[0, 0] == access.bytes
    for dim, size in zip(access.dims, access.shape, strict=True):
        if dim.axis == WHOLE:
            continue
        last = grid[dim.axis] - 1
        if (
            (dim.scale <= dim.extent or last == 0)
            and dim.offset <= 0
            and last >= 0
            and dim.scale * last + dim.offset + dim.extent >= size
        ):
            continue  # the intervals leave no gap
        low = dim.scale * np.arange(grid[dim.axis]) + dim.offset
        merged = merge_ranges(np.clip(np.stack([low, low + dim.extent], axis=1), 0, size))
        if len(merged) != 1 or tuple(merged[0]) != (0, size):
            return False
    return True


def disjoint(grid: Sequence[int], access: Access) -> bool:
    """Whether any two different tasks certainly touch different elements.

    True when each grid dim is followed by a tensor dim whose intervals do not overlap.
    """
    separate = {
        d.axis for d in access.dims if d.axis != WHOLE and d.scale >= d.extent and d.scale > 0
    }
    return all(size == 1 or axis in separate for axis, size in enumerate(grid))
