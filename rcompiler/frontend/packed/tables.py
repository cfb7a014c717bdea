"""Where the rows of a packed batch lie, and how tensors come to them and from them.

All follows from the lengths of the requests, which are an argument: (batch,) int64, the longest
request first. Offsets are their prefix sum.

    request, position       of a row
    pack                    tensors of the groups -> rows
    unpack                  rows -> tensors of the groups, with zeros behind the requests
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property

import numpy as np

from rcompiler.frontend import bounds
from rcompiler.frontend.body import Body
from rcompiler.frontend.builder import Builder, Value
from rcompiler.frontend.scalar import Scalar
from rcompiler.frontend.sized import bare
from rcompiler.frontend.value import SizeAtRunTime, extent_of
from rcompiler.support.extent import Extent, Size, Symbol
from rcompiler.support.packed_names import LENGTHS

from .packing import Group, Packing
from .ragged import Padded, Rows, place


class Tables:
    """The movement of one program, written by a builder."""

    def __init__(self, b: Builder, packing: Packing) -> None:
        """Makes the argument that has the lengths."""
        self.b, self.packing, self._tiers = b, packing, packing.tiers()
        self.groups = [group for tier in self._tiers for group in tier]
        whole = b.argument(LENGTHS, [packing.batch.high], "int64")
        self._told = b.part(LENGTHS, whole, [Extent.of(packing.batch)])
        self._symbols = [self._of_group(group) for group in self.groups]

    # -- sizes ----------------------------------------------------------------------------------
    @staticmethod
    def _of_group(group: Group) -> tuple[Symbol | None, Symbol]:
        """How many requests it has, where these are several, and their lengths."""
        last = group.first + group.count - 1
        if group.count == 1:
            return None, Symbol(f"length of request {last}", 0, group.longest)
        name = f"requests {group.first} to {last}"
        return Symbol(name, 0, group.count), Symbol(f"lengths of {name}", 0, group.longest)

    def size_in(self, size: Size, number: int) -> Size:
        """What a size is in a group."""
        requests, length = self._symbols[number]
        count = self.groups[number].count if requests is None else Extent.of(requests)
        own: dict[Symbol, Size] = {self.packing.batch: count, self.packing.seq: Extent.of(length)}
        return size.replaced(own) if isinstance(size, Extent) else size

    def sizes_from(self, parts: Sequence[Value]) -> tuple[Size, ...]:
        """The shape of a tensor whose parts these are: that of the last, which has requests."""
        requests, length = self._symbols[-1]
        assert requests is not None
        back: dict[Symbol, Size] = {
            requests: Extent.of(self.packing.batch),
            length: Extent.of(self.packing.seq),
        }
        each = parts[-1].sizes
        return tuple(size.replaced(back) if isinstance(size, Extent) else size for size in each)

    @contextmanager
    def _named(self, name: str) -> Iterator[None]:
        """What is written is of no node."""
        before = self.b.location, self.b.hint
        self.b.location = self.b.hint = name
        try:
            yield
        finally:
            self.b.location, self.b.hint = before

    # -- tables: int64 --------------------------------------------------------------------------
    @cached_property
    def lengths(self) -> Value:
        """(most requests,); 0 where there is none."""
        self.b.at("lengths", "Lengths")
        with self._named("lengths"):
            made = bare(self.b.masked(self._told))
            for group, (requests, length) in zip(self.groups, self._symbols, strict=True):
                own = self.b.slice_along(made, 0, group.first, group.count)
                self.b.lengths[length] = own, requests
        return made

    def begin(self) -> None:
        """Write what masks read, and what is to be known before anything is computed by groups."""
        assert self.lengths is not None and self._fits

    @cached_property
    def offsets(self) -> Value:
        """(most requests,): the first row of each."""
        count = self.packing.batch.high

        def add(s: Body, length: Scalar, before: Scalar) -> Scalar:
            return before + s.select(s.index(1) < s.index(0), length, 0)

        lengths = self.lengths
        with self._named("offsets"):
            return self.b.fold([(lengths, "d1")], [count], "int64", 0, "pr", add)

    @cached_property
    def request(self) -> Value:
        """(most rows,): whose each row is."""

        def add(s: Body, offset: Scalar, before: Scalar) -> Scalar:
            begun = (offset <= s.cast(s.index(0), "int64")) & (s.index(1) > 0)
            return before + s.select(begun, s.const(1, "int64"), 0)

        offsets, rows = self.offsets, self.packing.rows.high
        with self._named("requests"):
            return self.b.fold([(offsets, "d1")], [rows], "int64", 0, "pr", add)

    @cached_property
    def position(self) -> Value:
        """(most rows,): where each row is in its request."""
        offsets, request = self.offsets, self.request
        last = self.packing.seq.high - 1

        def body(s: Body, whose: Scalar) -> Scalar:
            first = s.extract(offsets, [s.cast(whose, "index")])
            return s.clamp(s.cast(s.index(0), "int64") - first, 0, last)

        with self._named("positions"):
            return self.b.tabulate([self.packing.rows.high], "int64", body, (request, "d0"))

    @cached_property
    def _fits(self) -> list[Value]:
        """Of each tier whether all requests fit into its groups: scalars of bool."""

        def least(s: Body, length: Scalar, most: Scalar, left: Scalar) -> Scalar:
            return s.minimum(left, most - length)

        found, lengths = [], self.lengths
        with self._named("fits"):
            for tier in self._tiers:
                room = [group.longest for group in tier for _ in range(group.count)]
                reads = (lengths, "d0"), (self.b.constant(np.array(room), "int64"), "d0")
                left = self.b.fold(reads, [], "int64", max(room), "r", least)
                found.append(self.b.elementwise(lambda s, a: a >= 0, left, dtype="bool"))
        return found

    def _padded(self, tier: Sequence[Group]) -> Value:
        """(most rows,): where each row is when the groups lie one behind the other."""
        starts, start = [], 0
        for group in tier:
            starts += [start + group.longest * number for number in range(group.count)]
            start += group.count * group.longest
        position, request = self.position, self.request
        first = self.b.constant(np.array(starts), "int64")

        def body(s: Body, whose: Scalar, at: Scalar) -> Scalar:
            return s.clamp(s.extract(first, [s.cast(whose, "index")]) + at, 0, start - 1)

        reads = (request, "d0"), (position, "d0")
        with self._named("padded"):
            return self.b.tabulate([self.packing.rows.high], "int64", body, *reads)

    # -- movement -------------------------------------------------------------------------------
    def rows(self, value: Value, joined: bool) -> Rows:
        """The tensor whose rows these are. joined: whether it has one axis of both dimensions."""
        packing = self.packing
        at = [axis for axis, size in enumerate(value.sizes) if size == Extent.of(packing.rows)]
        if len(at) != 1:
            raise SizeAtRunTime(f"{value!r} has no rows")
        [axis] = at
        pair = [packing.both] if joined else [Extent.of(packing.batch), Extent.of(packing.seq)]
        return Rows((*value.sizes[:axis], *pair, *value.sizes[axis + 1 :]), value, axis)

    def row_sizes(self, sizes: Sequence[Size]) -> list[Size]:
        """The shape of the rows of a tensor."""
        found = place(sizes, self.packing)
        assert found is not None, sizes
        axis, width = found
        return [*sizes[:axis], Extent.of(self.packing.rows), *sizes[axis + width :]]

    def unpack(self, x: Rows, number: int) -> Value:
        """The part of a group, with zeros behind the requests."""
        if x.joined:
            raise SizeAtRunTime(f"{self.packing.both} elements are used as requests")
        self.begin()
        group, axis = self.groups[number], x.axis
        offsets, lengths = self.offsets, self.lengths
        whole = bare(x.value)
        shape = list(whole.shape)
        shape[axis : axis + 1] = group.count, group.longest
        most = self.packing.rows.high - 1

        def body(s: Body) -> Scalar:
            at = [s.index(d) for d in range(len(shape))]
            request, position = [at[axis] + group.first], at[axis + 1]
            inside = position < s.cast(s.extract(lengths, request), "index")
            first = s.cast(s.extract(offsets, request), "index")
            at[axis : axis + 2] = [s.clamp(first + position, 0, most)]
            return s.select(inside, s.extract(whole, at), s.const(0, whole.dtype))

        made = self.b.tabulate(shape, whole.dtype, body)
        found = self.b.sized(made, [extent_of(self.size_in(size, number)) for size in x.sizes])
        found.zeros = frozenset([axis + 1])
        found.known = bounds.union(x.value.bounds, (0, 0))
        return found

    def pack(self, x: Padded) -> Rows:
        """The rows of a tensor of groups, whose shape has rows."""
        found = place(x.sizes, self.packing)
        assert found is not None and found[1] == 2, x.sizes
        axis, b = found[0], self.b
        flat = []
        for part in x.parts:
            shape = list(part.shape)
            shape[axis : axis + 2] = [math.prod(shape[axis : axis + 2])]
            flat.append(b.reshape(bare(part), shape))

        def of(tier: Sequence[Group], parts: Sequence[Value]) -> Value:
            return self._at_rows(b.concat(parts, axis), [self._padded(tier)], axis)

        made = self._chosen(flat, of)
        made.known = bounds.union(*(part.bounds for part in x.parts))
        return Rows(x.sizes, made, axis)

    def of_positions(self, value: Value, axis: int) -> Value:
        """The rows of a tensor that has requests along an axis, positions along the next, or both;
        an axis of one element counts for all.
        """
        whole, shape = bare(value), list(value.shape)
        pairs = [
            (self.request if number == axis else self.position, number)
            for number in (axis, axis + 1)
            if value.sizes[number] != 1
        ]
        kept = [number for _, number in pairs]
        own = [d for n, d in enumerate(shape) if n not in (axis, axis + 1) or n in kept]
        made = self._at_rows(self.b.reshape(whole, own), [table for table, _ in pairs], axis)
        made.known = value.known
        return made

    def _at_rows(self, whole: Value, tables: Sequence[Value], axis: int) -> Value:
        """For each row what is where the tables say, one for each axis from this one on."""
        count, rows = len(tables), self.packing.rows
        shape = [*whole.shape[:axis], rows.high, *whole.shape[axis + count :]]

        def body(s: Body, *found: Scalar) -> Scalar:
            at = [s.index(d) for d in range(len(shape))]
            at[axis : axis + 1] = [
                s.clamp(s.cast(each, "index"), 0, whole.shape[axis + number] - 1)
                for number, each in enumerate(found)
            ]
            return s.extract(whole, at)

        reads = [(table, f"d{axis}") for table in tables]
        made = self.b.tabulate(shape, whole.dtype, body, *reads)
        return self._along(made, axis, rows)

    def _along(self, whole: Value, axis: int, symbol: Symbol) -> Value:
        """With so many elements along an axis."""
        own: list[Extent | None] = [None] * whole.rank
        own[axis] = Extent.of(symbol)
        return self.b.sized(whole, own)

    def first(self, x: Rows, index: int) -> Value:
        """Of each request one position, along one axis: from its start, or below 0 from its end."""
        if not -self.packing.seq.low <= index < self.packing.seq.low:
            raise SizeAtRunTime(f"position {index} of requests from {self.packing.seq.low} on")
        axis, whole, most = x.axis, bare(x.value), self.packing.rows.high - 1
        shape = list(whole.shape)
        shape[axis] = self.packing.batch.high

        def body(s: Body, offset: Scalar, *length: Scalar) -> Scalar:
            at = [s.index(d) for d in range(len(shape))]
            start = offset if index >= 0 else offset + length[0]
            at[axis] = s.clamp(s.cast(start, "index") + index, 0, most)
            return s.extract(whole, at)

        reads = [(self.offsets, f"d{axis}"), (self.lengths, f"d{axis}")][: 1 if index >= 0 else 2]
        made = self.b.tabulate(shape, whole.dtype, body, *reads)
        return self._along(made, axis, self.packing.batch)

    def of_requests(self, parts: Sequence[Value], sizes: Sequence[Size]) -> Value:
        """A tensor with an axis of requests, and none of lengths, from its parts."""
        batch = Extent.of(self.packing.batch)
        if list(sizes).count(batch) != 1:
            raise SizeAtRunTime(f"a tensor of {', '.join(map(str, sizes))} is made")
        axis = list(sizes).index(batch)
        extents, whole = [extent_of(size) for size in sizes], [bare(part) for part in parts]
        return self._chosen(whole, lambda _, each: self.b.sized(self.b.concat(each, axis), extents))

    def _chosen(
        self, parts: Sequence[Value], of: Callable[[Sequence[Group], Sequence[Value]], Value]
    ) -> Value:
        """What is made of the groups with the least room that all requests fit into; CPUs compute
        that alone (`rtask-guard`). of: of groups and their parts."""
        rest = iter(parts)
        each = [of(tier, [next(rest) for _ in tier]) for tier in self._tiers]
        found, *smaller = each  # with less and less room
        for fits, made in zip(self._fits[1:], smaller, strict=True):
            found = self.b.elementwise(_select, fits, made, found, dtype=made.dtype)
        return found

    def part(self, value: Value, number: int) -> Value:
        """Of a tensor that has positions, requests, both or sizes what a group sees of it."""
        group, (_, length) = self.groups[number], self._symbols[number]
        self.begin()
        if value.elements is not None:
            elements = value.elements.copy()
            for at, size in enumerate(elements.reshape(-1)):
                elements.reshape(-1)[at] = self.size_in(size, number)
            return self.b.numbers(elements, value.dtype)
        if value.whole is None:
            return value
        found, extents = bare(value), list(value.extents)
        for axis, extent in enumerate(value.extents):
            if extent == Extent.of(self.packing.seq):
                found = self.b.slice_along(found, axis, 0, min(length.high, found.shape[axis]))
                if found.shape[axis] != length.high:
                    raise SizeAtRunTime(f"{extent} elements along axis {axis}")
            elif extent == Extent.of(self.packing.batch):
                found = self.b.slice_along(found, axis, group.first, group.count)
            elif extent is not None:
                raise SizeAtRunTime(f"{extent} elements along axis {axis}")
            extents[axis] = extent_of(self.size_in(extent, number)) if extent else None
        made = self.b.sized(found, extents)
        made.known = value.known
        return made


def _select(s: Body, condition: Scalar, yes: Scalar, no: Scalar) -> Scalar:
    return s.select(condition, yes, no)
