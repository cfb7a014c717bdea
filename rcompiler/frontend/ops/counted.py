"""Compress, NonZero and Unique: how many results there are depends on the elements.

Where these are constants, so is the number of results.
"""

from __future__ import annotations

import math

import numpy as np

from rcompiler.frontend import dtypes
from rcompiler.frontend.body import Body
from rcompiler.frontend.builder import Value
from rcompiler.frontend.compaction import kept_places
from rcompiler.frontend.counted import counted, room_for
from rcompiler.frontend.distinct import distinct, element_keys, slice_keys
from rcompiler.frontend.ops.gather import expect_inside, take
from rcompiler.frontend.registry import Context, lowering
from rcompiler.frontend.scalar import Scalar
from rcompiler.frontend.sized import bare
from rcompiler.support.extent import Extent, at_most


def _taken(ctx: Context, x: Value, places: Value, axis: int, extent: Extent) -> Value:
    """The slices of ``x`` at ``places``, of which ``extent`` are there."""
    whole = bare(x)
    shape = [*x.shape[:axis], places.size, *x.shape[axis + 1 :]]
    extents = [*x.extents[:axis], extent, *x.extents[axis + 1 :]]
    if 0 in shape:
        return ctx.b.sized(ctx.b.empty(shape, x.dtype), extents)

    def element(s: Body, place: Scalar) -> Scalar:
        where = [s.index(d) for d in range(x.rank)]
        where[axis] = s.clamp(s.cast(place, "index"), 0, x.shape[axis] - 1)
        return s.extract(whole, where)

    return ctx.b.sized(ctx.b.tabulate(shape, x.dtype, element, (places, f"d{axis}")), extents)


@lowering("Compress")
def _compress(ctx: Context) -> Value:
    """The slices for which a condition holds; what it does not tell of is not there."""
    b, x, condition = ctx.b, ctx.input(0), ctx.input(1)
    axis = ctx.attr("axis")
    if axis is None:
        x, axis = b.reshape(x, [x.size]), 0
    axis = ctx.axis(axis, x.rank)
    if condition.rank != 1:
        raise ctx.shape_error("the condition has one dimension")
    if condition.const is not None and x.extents[axis] is None:
        kept = np.flatnonzero(condition.const)
        if kept.size and kept[-1] >= x.shape[axis]:
            raise ctx.shape_error("the condition is longer than the axis")
        return take(ctx, x, b.constant(kept.astype(np.int64)), axis)
    if x.extents[axis] is not None and not at_most(condition.sizes[0], x.sizes[axis]):
        raise ctx.refuse(
            f"the condition has {condition.sizes[0]} elements, the axis {x.sizes[axis]}",
            "Make the condition of the tensor that is compressed",
        )
    if not condition.size:
        return b.slice_along(x, axis, 0, 0)
    places, count = kept_places(b, b.masked(condition))
    expect_inside(ctx, places, max(x.shape[axis] - 1, 0))
    room = room_for(ctx, min(condition.size, x.shape[axis]))
    extent = counted(ctx, count, room, condition.size)
    return _taken(ctx, x, b.slice(places, [0], [room]), axis, extent)


@lowering("NonZero")
def _non_zero(ctx: Context) -> Value:
    """Coordinates [rank, n] of the elements that are not zero, in row-major order; a NaN is
    one of them.
    """
    b, x = ctx.b, ctx.input(0)
    if x.const is not None:
        rows = np.nonzero(dtypes.to_storage(x.const, x.dtype).reshape(x.shape or (1,)))
        return b.constant(np.array(rows[: x.rank], np.int64).reshape(x.rank, rows[0].size))
    if not x.size:
        return b.constant(np.zeros((x.rank, 0), np.int64))

    def is_set(s: Body, a: Scalar) -> Scalar:
        return s.cast(a, "float32").ne(0.0) if a.dtype in dtypes.SMALL_FLOATS else s.cast(a, "bool")

    marks = x if x.dtype == "bool" else b.elementwise(is_set, x, dtype="bool")
    marks = b.masked(marks)
    places, count = kept_places(b, b.reshape(marks, [x.size]))
    room = room_for(ctx, x.size)
    extent = counted(ctx, count, room, x.size)
    strides = [math.prod(x.shape[axis + 1 :]) for axis in range(x.rank)]

    def coordinate(s: Body, place: Scalar) -> Scalar:
        axis, found = s.index(0), s.const(0, place.dtype)
        for number, (stride, size) in enumerate(zip(strides, x.shape, strict=True)):
            own = s.rem(s.div(place, stride), size)
            found = s.select(axis.eq(number), own, found)
        return s.cast(found, "int64")

    first = b.slice(places, [0], [room])
    return b.sized(b.tabulate([x.rank, room], "int64", coordinate, (first, "d1")), [None, extent])


@lowering("Unique")
def _unique(ctx: Context) -> list[Value | None]:
    """Distinct elements or slices, where each one is first, which one each is, and how often it is
    there. Zeros of either sign are equal; so are NaNs, but not slices that hold one, as in numpy.
    """
    x, axis, in_order = ctx.input(0), ctx.attr("axis"), bool(ctx.attr("sorted", 1))
    axis = None if axis is None else ctx.axis(axis, x.rank)
    if x.const is not None:
        return _unique_of_constant(ctx, x.const, axis, in_order)
    if x.dtype != "bool":
        ctx.need_numbers(x)
    return _unique_at_run_time(ctx, x, axis, in_order)


def _unique_of_constant(
    ctx: Context, array: np.ndarray, axis: int | None, in_order: bool
) -> list[Value | None]:
    values, first, inverse, counts = np.unique(array, True, True, True, axis=axis)
    inverse = inverse.reshape(-1)
    if not in_order:  # in the order of first occurrence
        order = np.argsort(first)
        place = np.empty_like(order)
        place[order] = np.arange(order.size)
        values = np.take(values, order, axis or 0)
        first, inverse, counts = first[order], place[inverse], counts[order]
    rest = [ctx.b.constant(a.astype(np.int64)) for a in (first, inverse, counts)]
    return [ctx.b.constant(values, ctx.input(0).dtype), *rest]


def _unique_at_run_time(
    ctx: Context, x: Value, axis: int | None, in_order: bool
) -> list[Value | None]:
    b = ctx.b
    if axis is None:
        x = b.reshape(x, [x.size])
    along = axis or 0
    n, extent = x.shape[along], x.extents[along]
    if not n:
        return [x, *[b.constant(np.zeros(0, np.int64))] * 3]
    whole = bare(b.masked(x, [d for d in range(x.rank) if d != along]))
    size = None if extent is None else b.number(extent)
    if axis is None:
        keys = element_keys(b, whole)
    else:
        front = b.transpose(whole, [along, *(d for d in range(x.rank) if d != along)])
        keys = slice_keys(b, b.reshape(front, [n, x.size // n]))
    found = distinct(b, keys, in_order, size)
    room = room_for(ctx, n)
    own = counted(ctx, found.number, room, n)
    first = b.slice(found.first, [0], [room])
    return [
        _taken(ctx, x, first, along, own),
        b.sized(first, [own]),
        b.sized(found.which, [extent]),
        b.sized(b.slice(found.counts, [0], [room]), [own]),
    ]
