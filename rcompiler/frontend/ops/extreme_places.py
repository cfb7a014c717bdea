"""ArgMax, ArgMin and TopK: the places of extremes along an axis."""

from __future__ import annotations

import math

from rcompiler.frontend import dtypes
from rcompiler.frontend.body import Body
from rcompiler.frontend.builder import Builder, Value, dims
from rcompiler.frontend.counted import counted, room_for
from rcompiler.frontend.ops.reduction import extreme_over, keeps_dims, kept_dims, kept_shape
from rcompiler.frontend.registry import Context, lowering
from rcompiler.frontend.scalar import Scalar
from rcompiler.frontend.sized import bare, extent_of
from rcompiler.frontend.sorting import first_in_order, keys_of
from rcompiler.support.extent import Extent, at_most, highest, lowest

# Of fewer elements the second reading takes less time than the two operators more that parts need;
# parts of a shorter axis are too short for vectors.
_LARGE = 1 << 17
_LONG = 512


@lowering("ArgMax", "ArgMin")
def _arg(ctx: Context) -> Value:
    """Equal zeros are one number, and a NaN is the extreme, as in numpy."""
    b, x = ctx.b, ctx.input(0)
    axis = ctx.axis(ctx.attr("axis", 0), x.rank)
    last, largest = bool(ctx.attr("select_last_index", 0)), ctx.op == "ArgMax"
    if x.rank == 0 or x.shape[axis] == 0:
        raise ctx.shape_error("the axis is empty")
    count = _parts(x.shape[axis]) if x.size >= _LARGE else 0
    if count:
        where = _place_in_parts(b, x, axis, count, largest, last)
    else:
        where = place_of(b, x, extreme_over(b, x, [axis], largest), axis, last)
    out = b.cast(where, "int64")
    if keeps_dims(ctx):
        return b.reshape(out, kept_shape(x, [axis]))
    return out


def place_of(b: Builder, x: Value, best: Value, axis: int, last: bool) -> Value:
    """The first (last) place along an axis that holds ``best``, the extreme there.

    With the extreme two plain reductions, which vectors run along and which can be split.
    """
    n = x.shape[axis]
    kind = dtypes.position_type(n)
    nowhere = -1 if last else n

    def body(s: Body, a: Scalar, top: Scalar, at: Scalar) -> Scalar:
        found = a.eq(top)
        if dtypes.is_float(a.dtype):
            found = found | s.is_nan(a)
        here = s.select(found, s.cast(s.index(axis), kind), nowhere)
        return s.maximum(at, here) if last else s.minimum(at, here)

    write = kept_dims([axis], x.rank)
    kinds = "".join("r" if i == axis else "p" for i in range(x.rank))
    reads = [(x, ", ".join(dims(x.rank))), (best, write)]
    return b.fold(reads, best.shape, kind, nowhere, kinds, body, write)


def _parts(n: int) -> int:
    """Into how many equal parts an axis of n is cut; 0: into none.

    The extremes of the parts and one part are gone through a second time, which is the least near
    the root of n; less than four parts save too little.
    """
    found = [count for count in range(4, math.isqrt(n) + 1) if n % count == 0]
    return found[-1] if found and n >= _LONG else 0


def _place_in_parts(
    b: Builder, x: Value, axis: int, count: int, largest: bool, last: bool
) -> Value:
    """The place of the extreme, for which most of x is read once, not twice: the extreme of each of
    ``count`` parts of the axis, the first (last) part that has the extreme of these, and the place
    inside of that part alone.
    """
    size = x.shape[axis] // count
    parts = b.reshape(x, [*x.shape[:axis], count, size, *x.shape[axis + 1 :]])
    extremes = extreme_over(b, parts, [axis + 1], largest)
    best = extreme_over(b, extremes, [axis], largest)
    part = place_of(b, extremes, best, axis, last)

    def read(s: Body, number: Scalar) -> Scalar:
        where = [s.index(i) for i in range(x.rank)]
        where.insert(axis, s.clamp(s.cast(number, "index"), 0, count - 1))
        return s.extract(parts, where)

    shape = [*x.shape[:axis], size, *x.shape[axis + 1 :]]
    inside = b.tabulate(shape, x.dtype, read, (part, kept_dims([axis], x.rank)))
    place = place_of(b, inside, best, axis, last)
    kind = dtypes.position_type(x.shape[axis])

    def counted(s: Body, number: Scalar, at: Scalar) -> Scalar:
        return s.cast(number, kind) * size + s.cast(at, kind)

    return b.elementwise(counted, part, place, dtype=kind)


@lowering("TopK")
def _top_k(ctx: Context) -> list[Value | None]:
    """The k largest (smallest) elements of an axis in order, and their positions.

    Equal elements keep their order; NaN counts as the largest number. Where k is known at run time
    only, all elements that it may ask for are ordered.
    """
    b, x = ctx.b, ctx.input(0)
    if not x.rank or not dtypes.is_number(x.dtype):
        raise ctx.refuse(f"{x.dtype} of rank {x.rank} is not translated", "Cast it to float32")
    axis = ctx.axis(ctx.attr("axis", -1), x.rank)
    k, extent = _count(ctx, x, axis)
    n, whole = x.shape[axis], bare(x)
    shape = [*x.shape[:axis], k, *x.shape[axis + 1 :]]
    extents = [*x.extents[:axis], extent, *x.extents[axis + 1 :]]
    if 0 in shape:
        return [b.sized(b.empty(shape, kind), extents) for kind in (x.dtype, "int64")]
    rows, columns = math.prod(x.shape[:axis]), math.prod(x.shape[axis + 1 :])
    flat = b.reshape(whole, [rows, n, columns])
    keys = keys_of(b, flat, bool(ctx.attr("largest", 1)))
    if x.extents[axis] is not None:
        # Equal keys keep their order, so that what is not there comes behind all.
        part = b.sized(keys, [None, x.extents[axis]])
        keys = b.masked(part, number=dtypes.limits(keys.dtype)[1])
    order = first_in_order(b, keys, k)
    at = b.cast(b.transpose(b.reshape(order, [rows, columns, k]), [0, 2, 1]), "int64")

    def element(s: Body, i: Scalar) -> Scalar:
        return s.extract(flat, [s.index(0), s.cast(i, "index"), s.index(2)])

    values = b.tabulate([rows, k, columns], x.dtype, element, (at, "d0, d1, d2"))
    return [b.sized(b.reshape(each, shape), extents) for each in (values, at)]


def _count(ctx: Context, x: Value, axis: int) -> tuple[int, Extent | None]:
    """How many elements of the axis are asked for at most, and the number of them where it is known
    at run time only.
    """
    b, n = ctx.b, x.shape[axis]
    given = ctx.optional(1)
    if given is None or given.const is not None:
        k = ctx.ints(1, "k")
        k = int(k[0] if isinstance(k, list) else k)
        if not 0 <= k <= n:
            raise ctx.shape_error(f"k is {k}, the axis has {n} elements")
        if x.extents[axis] is None or at_most(k, x.sizes[axis]):
            return k, None
        given = b.constant(k, "int64")
    if given.size != 1 or given.dtype != "int64":
        raise ctx.shape_error("k is one int64")
    if given.elements is not None:
        size = given.elements.reshape(-1)[0]
        if lowest(size) >= 0 and at_most(size, x.sizes[axis]):
            return highest(size), extent_of(size)
    k, reader = b.reshape(given, []), f"{ctx.op} '{ctx.name}'"
    if x.extents[axis] is None:
        b.expect(given, 0, n, reader)
    else:
        wrong = b.elementwise(
            lambda s, k, size: s.select((k < 0) | (k > size), k, 0), k, b.number(x.sizes[axis])
        )
        sentence = f"{reader} is asked for {{}} elements of an axis that has fewer"
        b.expect(wrong, 0, 0, reader, k, sentence)
    _, high = given.bounds or (0, n)
    most = max(min(n, high), 0)
    count = b.elementwise(
        lambda s, k, size: s.clamp(s.minimum(k, size), 0, most), k, b.number(x.sizes[axis])
    )
    room = room_for(ctx, most)
    return room, counted(ctx, count, room, most)
