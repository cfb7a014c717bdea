"""The distinct elements, or slices, of a tensor: places, counts, and which one each element is.

All comes from one sort of integer keys: equal keys are neighbours then, in their order, and the
first of each group is a distinct element. How many there are is known at run time only.

Slices get keys by ranks: those of every column at first, then those of pairs of ranks, until one
rank is left, so that all sorts run over rows at once.
"""

from __future__ import annotations

from dataclasses import dataclass

from rcompiler.frontend import dtypes
from rcompiler.frontend.body import Body
from rcompiler.frontend.builder import Builder, Value
from rcompiler.frontend.compaction import behind, kept_places
from rcompiler.frontend.prefix import prefix
from rcompiler.frontend.scalar import Scalar
from rcompiler.frontend.sorting import first_in_order, keys_of

_HALF = 32  # bits of a pair's key that its second rank takes


@dataclass(frozen=True)
class Distinct:
    """The distinct ones of n elements.

    first: [n], where each one is first. counts: [n], how often it is there. which: [n], of each
    element its number among the distinct ones. number: how many there are; what is behind them in
    `first` and `counts` is 0. All int64.
    """

    first: Value
    counts: Value
    which: Value
    number: Value


def distinct(b: Builder, keys: Value, in_order: bool, size: Value | None = None) -> Distinct:
    """Of integers ``keys`` [n], n > 0, ascending where ``in_order``, else as they come.

    size: int64 [], how many of them there are; of those behind `which` means nothing. None: all.
    """
    (n,) = keys.shape
    kind = dtypes.position_type(n)
    size = b.constant(n, "int64") if size is None else size
    _, highest = dtypes.limits(keys.dtype)

    def real(s: Body, key: Scalar, size: Scalar) -> Scalar:
        # Equal keys keep their order, so that what is no element comes behind all.
        return s.select(_here(s) < size, key, highest)

    if size.const is None:
        keys = b.tabulate([n], keys.dtype, real, (keys, "d0"), (size, ""))
    order = b.reshape(first_in_order(b, b.reshape(keys, [1, n]), n), [n])
    sorted_keys = _taken(b, keys, order)

    def head(s: Body, key: Scalar, size: Scalar) -> Scalar:
        i = s.index(0)
        other = s.extract(sorted_keys, [s.maximum(i - 1, 0)])
        return (i.eq(0) | key.ne(other)) & (_here(s) < size)

    heads = b.tabulate([n], "bool", head, (sorted_keys, "d0"), (size, ""))
    starts, number = kept_places(b, heads)
    groups = _number_up_to(b, heads, kind)

    def which(s: Body, key: Scalar) -> Scalar:
        place = behind(s, n, lambda at: s.extract(sorted_keys, [at]) < key)
        return s.cast(s.extract(groups, [s.minimum(place, n - 1)]), "int64")

    def count(s: Body, start: Scalar, number: Scalar, size: Scalar) -> Scalar:
        here = _here(s)
        following = s.extract(starts, [s.minimum(s.index(0) + 1, n - 1)])
        end = s.select(here + 1 < number, s.cast(following, "int64"), size)
        return s.select(here < number, end - s.cast(start, "int64"), 0)

    def first(s: Body, start: Scalar, number: Scalar) -> Scalar:
        place = s.cast(s.extract(order, [s.cast(start, "index")]), "int64")
        return s.select(_here(s) < number, place, 0)

    reads = [(starts, "d0"), (number, "")]
    found = Distinct(
        b.tabulate([n], "int64", first, *reads),
        b.tabulate([n], "int64", count, *reads, (size, "")),
        b.tabulate([n], "int64", which, (keys, "d0")),
        number,
    )
    return found if in_order else _as_they_come(b, found, size)


def _as_they_come(b: Builder, found: Distinct, size: Value) -> Distinct:
    """The same, numbered by where they are first."""
    (n,) = found.first.shape

    def is_first(s: Body, which: Scalar, size: Scalar) -> Scalar:
        own = s.extract(found.first, [s.cast(which, "index")])
        return own.eq(_here(s)) & (_here(s) < size)

    firsts = b.tabulate([n], "bool", is_first, (found.which, "d0"), (size, ""))
    places, number = kept_places(b, firsts)
    numbers = _number_up_to(b, firsts, places.dtype)

    def count(s: Body, place: Scalar, number: Scalar) -> Scalar:
        which = s.extract(found.which, [s.cast(place, "index")])
        counted = s.extract(found.counts, [s.cast(which, "index")])
        return s.select(_here(s) < number, counted, 0)

    def which(s: Body, old: Scalar) -> Scalar:
        first = s.extract(found.first, [s.cast(old, "index")])
        return s.cast(s.extract(numbers, [s.cast(first, "index")]), "int64")

    return Distinct(
        b.cast(places, "int64"),
        b.tabulate([n], "int64", count, (places, "d0"), (number, "")),
        b.tabulate([n], "int64", which, (found.which, "d0")),
        number,
    )


def element_keys(b: Builder, x: Value) -> Value:
    """Keys [n] of elements ``x`` [n]: equal for zeros of either sign, and for NaNs, which are the
    largest.
    """
    return b.reshape(keys_of(b, b.reshape(x, [1, x.size, 1]), largest=False), [x.size])


def slice_keys(b: Builder, x: Value) -> Value:
    """Keys [n] of the slices of ``x`` [n, m], n > 0, which order as their first elements that
    differ; a slice with a NaN is equal to none.
    """
    n, m = x.shape
    if not m:
        return b.splat([n], "int32", 0)
    ranks = _ranks(b, keys_of(b, b.reshape(x, [1, n, m]), largest=False))
    while ranks.shape[0] > 1:
        ranks = _ranks(b, _paired(b, ranks))
    ranks = b.reshape(ranks, [n])
    if not dtypes.is_float(x.dtype):
        return ranks
    nans = b.reduce(x, [1], False, lambda s, a, acc: acc | s.is_nan(a), dtype="bool")

    def key(s: Body, rank: Scalar, alone: Scalar) -> Scalar:
        own = s.select(alone, s.cast(s.index(0), "int64"), 0)
        return s.shift_left(s.cast(rank, "int64"), _HALF) + own

    return b.tabulate([n], "int64", key, (ranks, "d0"), (nans, "d0"))


def _ranks(b: Builder, keys: Value) -> Value:
    """How many keys of its row are below each of ``keys`` [rows, n]; int32 or int64."""
    rows, n = keys.shape
    order = first_in_order(b, keys, n)

    def key(s: Body, place: Scalar) -> Scalar:
        return s.extract(keys, [s.index(0), s.cast(place, "index")])

    ordered = b.tabulate([rows, n], keys.dtype, key, (order, "d0, d1"))

    def rank(s: Body, key: Scalar) -> Scalar:
        row = s.index(0)
        below = behind(s, n, lambda at: s.extract(ordered, [row, at]) < key)
        return s.cast(below, order.dtype)

    return b.tabulate([rows, n], order.dtype, rank, (keys, "d0, d1"))


def _paired(b: Builder, ranks: Value) -> Value:
    """Keys [rows / 2, n] of pairs of rows, of which the first decides."""
    rows, n = ranks.shape
    even = b.pad(ranks, [0, 0], [rows % 2, 0])
    pairs = b.reshape(even, [-(-rows // 2), 2, n])

    def key(s: Body, first: Scalar, second: Scalar) -> Scalar:
        return s.shift_left(s.cast(first, "int64"), _HALF) + s.cast(second, "int64")

    reads = [(pairs, f"d0, {which}, d1") for which in (0, 1)]
    return b.tabulate([pairs.shape[0], n], "int64", key, *reads)


def _taken(b: Builder, x: Value, at: Value) -> Value:
    """``x[at]`` of positions that are known to be inside."""
    return b.tabulate(
        at.shape, x.dtype, lambda s, place: s.extract(x, [s.cast(place, "index")]), (at, "d0")
    )


def _here(s: Body) -> Scalar:
    """The first coordinate of an element, as int64."""
    return s.cast(s.index(0), "int64")


def _number_up_to(b: Builder, marks: Value, kind: str) -> Value:
    """The number of the last true one of ``marks`` [n] up to each place; 0 where there is none."""
    (n,) = marks.shape
    column = b.reshape(b.cast(marks, kind), [1, n, 1])
    counts = b.reshape(prefix(b, column, lambda x, y: x + y, 0, exclusive=False), [n])
    return b.elementwise(lambda s, count: s.maximum(count - 1, 0), counts)
