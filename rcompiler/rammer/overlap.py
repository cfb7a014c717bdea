"""Which of many task ranges touch common bytes: exact, for equal and for different layouts."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rcompiler.rammer.graph import Access, Kernel
from rcompiler.rammer.regions import (
    Ints,
    labelled_byte_ranges,
    merge_ranges,
    range_boxes,
    task_boxes,
)

Bools = NDArray[np.bool_]
KEEP = 1 << 16  # pairs: larger results are not remembered
_CHUNK = 1 << 22  # pairs of boxes compared at once: bounds the memory


@dataclass(frozen=True)
class Shares:
    """The bytes that n task ranges of one kernel touch through one operand.

    base: byte address of the tensor; first, count, stride: (n,) the ranges.
    """

    grid: tuple[int, ...]
    access: Access
    base: int
    first: Ints
    count: Ints
    stride: Ints

    def __len__(self) -> int:
        return len(self.first)

    def pick(self, which: Ints) -> "Shares":
        """Only some of the ranges."""
        first, count, stride = self.first[which], self.count[which], self.stride[which]
        return Shares(self.grid, self.access, self.base, first, count, stride)

    @cached_property
    def boxes(self) -> tuple[Ints, Ints]:
        """(owner (k,), boxes (k, rank, 2)), sorted by owner."""
        if (self.stride[self.count > 1] == 1).all():
            owner, boxes = range_boxes(self.grid, self.access, self.first, self.count)
        else:
            owner = np.repeat(np.arange(len(self)), self.count)
            step = np.arange(len(owner)) - np.repeat(np.cumsum(self.count) - self.count, self.count)
            boxes = task_boxes(
                self.grid, self.access, self.first[owner] + step * self.stride[owner]
            )
            full = (boxes[:, :, 0] < boxes[:, :, 1]).all(axis=1)
            owner, boxes = owner[full], boxes[full]
        order = np.argsort(owner, kind="stable")
        return owner[order], boxes[order]

    @cached_property
    def ranges(self) -> tuple[Ints, Ints]:
        """(owner (k,), byte intervals (k, 2)), sorted by first byte."""
        owner, boxes = self.boxes
        index, ranges = labelled_byte_ranges(self.access, boxes, self.base)
        order = np.argsort(ranges[:, 0], kind="stable")
        return owner[index][order], ranges[order]

    @property
    def end(self) -> int:
        """First byte address behind the tensor."""
        return self.base + self.access.bytes

    def bytes_of(self, which: int) -> Ints:
        """Byte intervals (k, 2) of one range, sorted and merged."""
        owner, boxes = self.boxes
        mine = boxes[owner == which]
        return merge_ranges(labelled_byte_ranges(self.access, mine, self.base)[1])


def shares_of(
    kernel: Kernel, access: Access, base: int, first: Ints, count: Ints, stride: Ints | None = None
) -> Shares:
    """Shares of one operand of a kernel; stride 1 unless given."""
    steps = np.ones(len(first), np.int64) if stride is None else stride
    return Shares(kernel.grid, access, base, first, count, steps)


class Overlaps:
    """`touching` with a memory: layers repeat, and so do their kernels and splits."""

    def __init__(self) -> None:
        self._known: dict[tuple, Bools] = {}

    def __call__(self, a: Shares, b: Shares) -> Bools:
        """(len(a), len(b)): which ranges touch a common byte; read-only."""
        if len(a) * len(b) > KEEP:
            return touching(a, b)
        key: tuple = (a.grid, a.access, b.grid, b.access, a.base - b.base)
        for s in (a, b):
            key += (s.first.tobytes(), s.count.tobytes(), s.stride.tobytes())
        if key not in self._known:
            self._known[key] = touching(a, b)
            self._known[key].flags.writeable = False
        return self._known[key]


def touching(a: Shares, b: Shares) -> Bools:
    """(len(a), len(b)): which ranges touch a common byte."""
    result = np.zeros((len(a), len(b)), bool)
    if a.base >= b.end or b.base >= a.end or not len(a) or not len(b):
        return result
    same = a.access.shape == b.access.shape and a.access.itemsize == b.access.itemsize
    if same and a.base == b.base:
        _touching_boxes(a.boxes, b.boxes, result)
    else:
        _touching_ranges(a.ranges, b.ranges, result)
    return result


def _touching_boxes(a: tuple[Ints, Ints], b: tuple[Ints, Ints], result: Bools) -> None:
    own_a, box_a = a
    own_b, box_b = b
    step = max(1, _CHUNK // max(1, len(box_b)))
    for start in range(0, len(box_a), step):
        part = box_a[start : start + step]
        hits = np.ones((len(part), len(box_b)), bool)
        for dim in range(part.shape[1]):
            hits &= part[:, None, dim, 0] < box_b[None, :, dim, 1]
            hits &= box_b[None, :, dim, 0] < part[:, None, dim, 1]
        _mark(result, own_a[start : start + step], own_b, hits)


def _mark(result: Bools, own_a: Ints, own_b: Ints, hits: Bools) -> None:
    """Or the hits of boxes into the pairs of their owners; owners are sorted."""
    if not hits.size:
        return
    first_a, first_b = _firsts(own_a), _firsts(own_b)
    pairs = np.logical_or.reduceat(hits, first_a, axis=0)
    pairs = np.logical_or.reduceat(pairs, first_b, axis=1)
    result[np.ix_(own_a[first_a], own_b[first_b])] |= pairs


def _firsts(owners: Ints) -> Ints:
    """Index of the first entry of each owner; owners are sorted and not empty."""
    return np.concatenate([[0], np.flatnonzero(owners[1:] != owners[:-1]) + 1])


def _touching_ranges(a: tuple[Ints, Ints], b: tuple[Ints, Ints], result: Bools) -> None:
    own_a, range_a = a
    own_b, range_b = b
    # Ends need not be sorted when ranges of b overlap each other: their running maximum is, and
    # gives a start of the search that leaves nothing out.
    reach = np.maximum.accumulate(range_b[:, 1])
    first = np.searchsorted(reach, range_a[:, 0], side="right")
    last = np.searchsorted(range_b[:, 0], range_a[:, 1], side="left")
    sizes = np.maximum(last - first, 0)
    for start, end in _chunks(sizes):
        size = sizes[start:end]
        left = np.repeat(np.arange(start, end), size)
        right = np.arange(len(left)) - np.repeat(np.cumsum(size) - size, size) + first[left]
        hit = range_b[right, 1] > range_a[left, 0]
        result[own_a[left[hit]], own_b[right[hit]]] = True


def _chunks(sizes: Ints) -> Sequence[tuple[int, int]]:
    """Consecutive slices of at most about _CHUNK elements in total."""
    total = np.cumsum(sizes)
    if not len(total) or total[-1] <= _CHUNK:
        return [(0, len(sizes))]
    cuts = np.searchsorted(total, np.arange(_CHUNK, total[-1], _CHUNK)) + 1
    edges = np.unique(np.r_[0, cuts, len(sizes)])
    return [(int(s), int(e)) for s, e in zip(edges[:-1], edges[1:], strict=True)]
