"""Reading at computed positions: the gathers, OneHot, Trilu and others.

A position known while compiling is checked there; of all others the runtime is told what they must
be (`Builder.expect`), and a call with one that leads out of the tensor is an error. A negative one
counts from the end. Kernels read at clamped positions, so that a wrong one touches no memory that
it must not.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rcompiler.frontend import dtypes
from rcompiler.frontend.body import Body
from rcompiler.frontend.builder import Builder, Value, dims
from rcompiler.frontend.ops.run_time_range import range_at_run_time
from rcompiler.frontend.registry import Context, lowering
from rcompiler.frontend.scalar import Scalar
from rcompiler.frontend.sized import bare
from rcompiler.support.extent import SIZE_BESIDE, Extent, Size, at_most, highest


def positions(ctx: Context, index: int, sizes: Sequence[Size], first: int) -> Value:
    """Input ``index`` as positions; constants are checked and made non-negative.

    ``sizes``: of the indexed dimension, one per element of the last axis of the input, or a single
    one for every element. ``first``: the axis of the tensor that the first of them is of.
    """
    value, extents = ctx.input(index), [highest(size) for size in sizes]
    told = [size if isinstance(size, Extent) else None for size in sizes]
    if value.dtype not in ("int32", "int64"):
        raise ctx.shape_error(f"indices are int32 or int64, not {value.dtype}")
    if not value.size:
        return value
    if any(isinstance(size, Extent) for size in sizes):
        value = _from_the_start(ctx.b, value, sizes, extents)
    if value.const is None:
        if len(set(sizes)) == 1:
            _expect(ctx, value, value, first, extents[0], told[0])
        else:
            for number, extent in enumerate(extents):
                starts = [0] * (value.rank - 1) + [number]
                part = ctx.b.slice(value, starts, [*value.shape[:-1], 1])
                part.known = value.known
                _expect(ctx, value, part, first + number, extent, told[number])
        return value
    size = np.asarray(extents, np.int64) if len(extents) > 1 else np.int64(extents[0])
    array = value.const.astype(np.int64)
    if ((array < -size) | (array >= size)).any():
        raise ctx.shape_error(f"an index is outside the dimension of {list(extents)} elements")
    return ctx.b.constant(np.where(array < 0, array + size, array))


def _from_the_start(
    b: Builder, value: Value, sizes: Sequence[Size], bounds: Sequence[int]
) -> Value:
    """Positions in dimensions that are not all there, counted from the start; one that leads out of
    what is there is moved out of the whole, too (`{index}` of `IndexCheck`).
    """

    def body(s: Body, a: Scalar, size: Scalar, bound: Scalar) -> Scalar:
        a = s.cast(a, "int64")
        found = s.select(a < 0, a + size, a)
        inside = (found >= 0) & (found < size)
        return s.select(inside, found, s.select(a < 0, a - bound, a + bound))

    ends = b.numbers(np.array(list(sizes), object), "int64")
    return b.elementwise(body, value, ends, b.constant(np.array(bounds)), dtype="int64")


def _expect(
    ctx: Context, value: Value, part: Value, axis: int, extent: int, size: Extent | None
) -> None:
    if extent:  # an empty dimension is refused, unless nothing is read of it
        expect_position(ctx, part, axis, extent, size, value)


def expect_position(
    ctx: Context, at: Value, axis: int, bound: int, size: Extent | None, read: Value | None = None
) -> None:
    """Of positions along an axis of the tensor that is read, which may count from the end. size:
    how many are there, if a run tells; what is outside of these is outside of the bound, too.

    read: see `Builder.expect`.
    """
    reader = f"{ctx.op} '{ctx.name}'"
    if size is None:
        ctx.b.expect(at, -bound, bound - 1, reader, read)
        return
    says = (
        f"{reader} was given the index {{index}}; axis {axis} of what it reads has {SIZE_BESIDE} "
        f"elements in this call ('{size}'), from {{first}} to {{last}}"
    )
    ctx.b.expect(at, -bound, bound - 1, reader, read, says, ctx.b.number(size))


def expect_inside(ctx: Context, value: Value, last: int, read: Value | None = None) -> None:
    """Of positions from 0 to ``last``, which do not count from the end; constants are checked.

    read: see `Builder.expect`.
    """
    if value.const is None:
        ctx.b.expect(value, 0, last, f"{ctx.op} '{ctx.name}'", read)
    elif value.bounds is not None and value.size:
        low, high = value.bounds
        if low < 0 or high > last:
            wrong = low if low < 0 else high
            raise ctx.shape_error(f"the index {wrong} is outside of 0 to {last}")


def resolved(s: Body, position: Scalar, extent: int, known: bool) -> Scalar:
    """A position as an ``index`` inside ``[0, extent)``."""
    at = s.cast(position, "index")
    if known:
        return at
    return s.clamp(s.select(at < 0, at + extent, at), 0, extent - 1)


@lowering("Gather")
def _gather(ctx: Context) -> Value:
    x = ctx.input(0)
    axis = ctx.axis(ctx.attr("axis", 0), x.rank)
    if not x.rank:
        raise ctx.shape_error("the data has no dimensions")
    return take(ctx, x, positions(ctx, 1, [x.shape[axis]], axis), axis)


def take(ctx: Context, x: Value, at: Value, axis: int) -> Value:
    """numpy's ``take``; ``at`` comes from ``positions``. Equally spaced constants are a slice."""
    b, extent = ctx.b, x.shape[axis]
    shape = [*x.shape[:axis], *at.shape, *x.shape[axis + 1 :]]
    if not extent and at.size:
        raise ctx.shape_error("an empty dimension has no elements to gather")
    if 0 in shape:
        return b.empty(shape, x.dtype)
    if at.const is not None:
        flat = at.const.reshape(-1)
        step = int(flat[1] - flat[0]) if flat.size > 1 else 1
        if step and (np.diff(flat) == step).all():
            return b.reshape(b.slice_along(x, axis, int(flat[0]), flat.size, step), shape)

    def body(s: Body, position: Scalar) -> Scalar:
        where = [s.index(i) for i in range(axis)]
        where.append(resolved(s, position, extent, at.const is not None))
        where += [s.index(i) for i in range(axis + at.rank, len(shape))]
        return s.extract(x, where)

    return b.tabulate(shape, x.dtype, body, (at, ", ".join(dims(at.rank, axis))))


@lowering("GatherElements")
def _gather_elements(ctx: Context) -> Value:
    """``out[i, j] = x[at[i, j], j]`` for axis 0, and so on."""
    b, x = ctx.b, ctx.input(0)
    axis = ctx.axis(ctx.attr("axis", 0), x.rank)
    at, data = positions(ctx, 1, [x.sizes[axis]], axis), bare(x)
    if at.rank != x.rank or any(
        i != axis and not at_most(n, d)
        for i, (n, d) in enumerate(zip(at.sizes, x.sizes, strict=True))
    ):
        raise ctx.shape_error("the indices do not fit the data")
    if not at.size:
        return b.empty(at.shape, x.dtype)
    if not x.size:
        raise ctx.shape_error("the data has no elements to gather")

    def body(s: Body, position: Scalar) -> Scalar:
        where = [s.index(i) for i in range(x.rank)]
        where[axis] = resolved(s, position, x.shape[axis], at.const is not None)
        return s.extract(data, where)

    return b.tabulate(at.shape, x.dtype, body, (at, ", ".join(dims(x.rank))))


@lowering("GatherND")
def _gather_nd(ctx: Context) -> Value:
    """The last axis of the indices holds coordinates, after ``batch_dims`` common dimensions."""
    b, x, rank = ctx.b, ctx.input(0), ctx.input(1).rank
    batch = ctx.attr("batch_dims", 0)
    if not rank or not 0 <= batch < min(rank, x.rank):
        raise ctx.shape_error("batch_dims does not fit the inputs")
    count = ctx.input(1).shape[-1]
    if not 1 <= count <= x.rank - batch or ctx.input(1).sizes[:batch] != x.sizes[:batch]:
        raise ctx.shape_error("the indices do not fit the data")
    extents, data = x.shape[batch : batch + count], bare(x)
    at = positions(ctx, 1, x.sizes[batch : batch + count], batch)
    shape = [*at.shape[:-1], *x.shape[batch + count :]]
    if 0 in shape:
        return b.empty(shape, x.dtype)
    if not x.size:
        raise ctx.shape_error("the data has no elements to gather")

    def body(s: Body, *args: Scalar) -> Scalar:
        where = [s.index(i) for i in range(batch)]
        where += [
            resolved(s, p, e, at.const is not None) for p, e in zip(args, extents, strict=True)
        ]
        where += [s.index(i) for i in range(rank - 1, len(shape))]
        return s.extract(data, where)

    reads = [", ".join([*dims(rank - 1), str(i)]) for i in range(count)]
    made = b.tabulate(shape, x.dtype, body, *((at, read) for read in reads))
    return b.sized(bare(made), [*at.extents[:-1], *x.extents[batch + count :]])


@lowering("OneHot")
def _one_hot(ctx: Context) -> Value:
    b, at, values = ctx.b, ctx.input(0), ctx.input(2)
    depth = int(ctx.scalar(1))
    if values.shape != (2,) or depth < 1:
        raise ctx.shape_error("the values are [off, on], and the depth is positive")
    axis = ctx.axis(ctx.attr("axis", -1), at.rank + 1)
    kind = at.dtype if dtypes.is_float(at.dtype) else "int64"
    shape = [*at.shape[:axis], depth, *at.shape[axis:]]

    def body(s: Body, position: Scalar, off: Scalar, on: Scalar) -> Scalar:
        position = s.cast(position, kind)
        position = s.select(position < 0, position + depth, position)
        return s.select(position.eq(s.cast(s.cast(s.index(axis), "int64"), kind)), on, off)

    read = ", ".join(d for i, d in enumerate(dims(len(shape))) if i != axis)
    return b.tabulate(shape, values.dtype, body, (at, read), (values, "0"), (values, "1"))


@lowering("Trilu")
def _trilu(ctx: Context) -> Value:
    """The upper (or lower) triangle of the last two dimensions, zeros elsewhere."""
    b, x = ctx.b, ctx.input(0)
    if x.rank < 2:
        raise ctx.shape_error("the input is a matrix or a batch of them")
    k = ctx.optional(1)
    if k is not None and (k.size != 1 or k.dtype != "int64"):
        raise ctx.shape_error("k is one int64")
    offset = b.constant(0, "int64") if k is None else b.reshape(k, [])

    def body(s: Body, a: Scalar, k: Scalar) -> Scalar:
        distance = s.cast(s.index(x.rank - 1) - s.index(x.rank - 2), "int64")
        keep = distance >= k if ctx.attr("upper", 1) else distance <= k
        return s.select(keep, a, s.const(0, a.dtype))

    return b.elementwise(body, x, offset)


@lowering("EyeLike")
def _eye_like(ctx: Context) -> Value:
    x, number = ctx.input(0), ctx.attr("dtype")
    dtype = x.dtype if number is None else dtypes.from_onnx(number)
    if x.rank != 2 or not dtypes.is_supported(dtype):
        raise ctx.shape_error(f"the input is a matrix, and {dtype} a type of numbers")
    eye = np.eye(x.shape[0], x.shape[1], k=ctx.attr("k", 0))
    return ctx.b.constant(eye.astype(dtypes.numpy_dtype(dtype)), dtype)


@lowering("Range")
def _range(ctx: Context) -> Value:
    """``start + i * delta`` below ``limit``."""
    if any(ctx.input(i).const is None for i in range(3)):
        return range_at_run_time(ctx)
    start, limit, delta = (ctx.input(i).array.reshape(()) for i in range(3))
    if delta == 0:
        raise ctx.shape_error("delta is zero")
    dtype = ctx.input(0).dtype
    wide = np.float64 if dtypes.is_float(dtype) else np.int64
    first, last, step = (v.astype(wide) for v in (start, limit, delta))
    if wide is np.int64:
        count = max(0, -(int(first - last) // int(step)))
    else:
        count = max(0, int(np.ceil((last - first) / step)))
    ctx.check_size([count], dtype)
    values = first + np.arange(count).astype(wide) * step
    return ctx.b.constant(values.astype(dtypes.numpy_dtype(dtype)), dtype)


@lowering("ReverseSequence")
def _reverse_sequence(ctx: Context) -> Value:
    """The first ``sequence_lens[n]`` steps of batch entry ``n`` in reverse."""
    b, x, lens = ctx.b, ctx.input(0), ctx.input(1)
    time, batch = ctx.attr("time_axis", 0), ctx.attr("batch_axis", 1)
    if x.rank < 2 or {time, batch} != {0, 1} or lens.shape != (x.shape[batch],):
        raise ctx.shape_error("axes are 0 and 1, and there is one length per batch entry")
    expect_inside(ctx, lens, x.shape[time])
    if not x.size:
        return x

    def body(s: Body, length: Scalar) -> Scalar:
        where = [s.index(i) for i in range(x.rank)]
        end = s.minimum(s.cast(length, "index"), x.shape[time])
        where[time] = s.select(where[time] < end, end - 1 - where[time], where[time])
        return s.extract(x, where)

    return b.tabulate(x.shape, x.dtype, body, (lens, f"d{batch}"))


@lowering("TensorScatter")
def _tensor_scatter(ctx: Context) -> Value:
    """Write ``update`` into a cache at ``write_indices[n]`` along ``axis``, linear or circular."""
    b, past, update = ctx.b, ctx.input(0), ctx.input(1)
    axis, mode = ctx.axis(ctx.attr("axis", -2), past.rank), ctx.attr("mode", "linear")
    room, steps = past.shape[axis], update.shape[axis]
    fits = [
        n == d or (i == axis and n <= d)
        for i, (n, d) in enumerate(zip(update.shape, past.shape, strict=True))
    ]
    if not axis or not all(fits) or mode not in ("linear", "circular"):
        raise ctx.shape_error("the update does not fit the cache")
    if not update.size:
        return past
    at = ctx.optional(2) or b.splat([past.shape[0]], "int64", 0)
    if at.shape != past.shape[:1]:
        raise ctx.shape_error("there is one write index per batch entry")
    if mode == "linear":
        expect_inside(ctx, at, room - steps)

    if ctx.updates_state():
        return _written_to(ctx, at, axis, circular=mode == "circular")

    def body(s: Body, old: Scalar, first: Scalar) -> Scalar:
        where = [s.index(i) for i in range(past.rank)]
        step = where[axis] - s.cast(first, "index")
        if mode == "circular":
            step = s.rem(step, room)
            step = s.select(step < 0, step + room, step)
        where[axis] = s.clamp(step, 0, steps - 1)
        return s.select((step >= 0) & (step < steps), s.extract(update, where), old)

    return b.tabulate(past.shape, past.dtype, body, (past, ", ".join(dims(past.rank))), (at, "d0"))


def _written_to(ctx: Context, at: Value, axis: int, *, circular: bool) -> Value:
    """A cache that is state, with an update written to it, of which the rest stays as it is."""
    past, update = ctx.input(0), ctx.input(1)
    room = past.shape[axis]

    def body(s: Body, where: list[Scalar], cache: Value) -> Value:
        place = s.cast(s.extract(at, where[:1]), "index") + where[axis]
        if circular:
            place = s.rem(place, room)
            place = s.select(place < 0, place + room, place)
        inside = (place >= 0) & (place < room)
        there = [s.clamp(place, 0, room - 1) if d == axis else w for d, w in enumerate(where)]
        new = s.select(inside, s.extract(update, where), s.extract(cache, there))
        return s.insert(new, cache, there)

    slabs = [d for d, n in enumerate(update.shape[:-1]) if d != axis and n > 1]
    first = max(slabs, key=update.shape.__getitem__, default=0)
    return ctx.b.nest(update.shape, past, body, first)
