"""Which of many task ranges touch common bytes: exact, for equal and for different layouts."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rcompiler.rammer.kernel import Access, Kernel
from rcompiler.rammer.regions import (
    Ints,
    counted,
    labelled_byte_ranges,
    merge_ranges,
    range_boxes,
    task_boxes,
)
from rcompiler.roller.numerics import distinct

Bools = NDArray[np.bool_]
KEEP = 1 << 18  # pairs: larger results are not remembered
_SMALL = 1 << 12  # pairs of boxes that are all compared: a join would cost more
_CHUNK = 1 << 22  # pairs of boxes compared at once: bounds the memory
_NONE = np.zeros(0, np.int64)
_NONE.flags.writeable = False


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

    def pick(self, which: Ints | slice) -> "Shares":
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
            tasks = self.first[owner] + counted(self.count) * self.stride[owner]
            boxes = task_boxes(self.grid, self.access, tasks)
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

    @cached_property
    def key(self) -> bytes:
        """Equal for equal shares, up to their base."""
        key = hashlib.blake2b(repr((self.grid, self.access)).encode())
        for column in (self.first, self.count, self.stride):
            key.update(np.ascontiguousarray(column).data)
        return key.digest()

    @cached_property
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
    """`overlapping` with a memory: layers repeat, and so do their kernels and splits."""

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, bytes, int], tuple[Ints, Ints]] = {}

    def __call__(self, a: Shares, b: Shares) -> Bools:
        """(len(a), len(b)): which ranges touch a common byte."""
        result = np.zeros((len(a), len(b)), bool)
        result[self.pairs(a, b)] = True
        return result

    def pairs(self, a: Shares, b: Shares) -> tuple[Ints, Ints]:
        """Those pairs alone: indices (k,) and (k,); read-only."""
        if a.base >= b.end or b.base >= a.end:
            return _NONE, _NONE
        key = (a.key, b.key, a.base - b.base)
        known = self._known.get(key)
        if known is None:
            # the boxes are not kept with shares that are
            known = overlapping(a.pick(slice(None)), b.pick(slice(None)))
            for column in known:
                column.flags.writeable = False
            if len(known[0]) <= KEEP:
                self._known[key] = known
        return known


def overlapping(a: Shares, b: Shares) -> tuple[Ints, Ints]:
    """Pairs of ranges that touch a common byte: indices (k,) and (k,), each pair once."""
    if a.base >= b.end or b.base >= a.end or not len(a) or not len(b):
        return _NONE, _NONE
    same = a.access.shape == b.access.shape and a.access.itemsize == b.access.itemsize
    if same and a.base == b.base:
        (own_a, part_a), (own_b, part_b) = a.boxes, b.boxes
    else:
        own_a, own_b = a.ranges[0], b.ranges[0]
        part_a, part_b = a.ranges[1][:, None], b.ranges[1][:, None]
    codes = [own_a[i] * len(b) + own_b[j] for i, j in box_pairs(part_a, part_b)]
    found = np.concatenate(codes) if codes else _NONE
    if not (_distinct(own_a) and _distinct(own_b)):
        found = distinct(found)
    return found // len(b), found % len(b)


def _distinct(owners: Ints) -> bool:
    """Whether each owner has one box; owners of boxes are sorted, those of ranges need not be."""
    return bool((owners[1:] > owners[:-1]).all())


def box_pairs(a: Ints, b: Ints) -> Iterator[tuple[Ints, Ints]]:
    """Pairs of boxes (n, rank, 2) and (m, rank, 2) with a common point, a part at a time."""
    if len(a) * len(b) <= _SMALL or not a.shape[1]:
        hits = ((a[:, None, :, 0] < b[None, :, :, 1]) & (b[None, :, :, 0] < a[:, None, :, 1])).all(
            axis=2
        )
        i, j = np.nonzero(hits)
        yield i, j
        return
    # Join along the dim that leaves the fewest candidates, then compare the other dims.
    joins = [_join(a[:, dim], b[:, dim]) for dim in range(a.shape[1])]
    totals = [int(sizes.sum()) for _, _, sizes in joins]
    best = int(np.argmin(totals))
    order, first, sizes = joins[best]
    for start, end in _chunks(sizes):
        size = sizes[start:end]
        i = np.repeat(np.arange(start, end), size)
        j = order[counted(size) + np.repeat(first[start:end], size)]
        for dim in range(a.shape[1]):
            hit = (a[i, dim, 0] < b[j, dim, 1]) & (b[j, dim, 0] < a[i, dim, 1])
            i, j = i[hit], j[hit]
        yield i, j


def _join(a: Ints, b: Ints) -> tuple[Ints, Ints, Ints]:
    """Candidates among intervals b (m, 2) for each of a (n, 2), as slices of an order of b.

    Returns order (m,), first (n,), sizes (n,): `order[first[i] : first[i] + sizes[i]]` holds all
    that a[i] overlaps. Ends need not be sorted in the order of the starts: their running maximum
    is, and leaves nothing out.
    """
    order = np.argsort(b[:, 0], kind="stable")
    reach = np.maximum.accumulate(b[order, 1])
    first = np.searchsorted(reach, a[:, 0], side="right")
    last = np.searchsorted(b[order, 0], a[:, 1], side="left")
    return order, first, np.maximum(last - first, 0)


def _chunks(sizes: Ints) -> Sequence[tuple[int, int]]:
    """Consecutive slices of at most about _CHUNK elements in total."""
    total = np.cumsum(sizes)
    if not len(total) or total[-1] <= _CHUNK:
        return [(0, len(sizes))]
    cuts = np.searchsorted(total, np.arange(_CHUNK, total[-1], _CHUNK)) + 1
    edges = distinct(np.r_[0, cuts, len(sizes)])
    return [(int(s), int(e)) for s, e in zip(edges[:-1], edges[1:], strict=True)]
