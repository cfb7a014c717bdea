"""Operators that move elements: views, joining, cutting, repeating, gathering."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from rcompiler.frontend import dtypes, load
from rcompiler.frontend.body import Body
from rcompiler.frontend.builder import Value, dims
from rcompiler.frontend.ops.gather import expect_position
from rcompiler.frontend.ops.run_time_slice import slice_at_run_time
from rcompiler.frontend.registry import Context, Lowering
from rcompiler.frontend.scalar import Scalar
from rcompiler.frontend.sized import bare
from rcompiler.frontend.value import Extents, SizeAtRunTime, extent_of
from rcompiler.support.extent import (
    Extent,
    InexactDivision,
    Size,
    at_most,
    highest,
    lowest,
    product,
)

from .agreement import in_common
from .numbers import are_sizes, expect_size, inferred, is_computed
from .placing import placed
from .rules import (
    Results,
    need_along,
    need_equal,
    need_whole,
    of_whole,
    rule,
    sizes_of,
)

_END = 1 << 31  # and above: to the end of an axis


def _extents(sizes: Sequence[Size]) -> Extents:
    return tuple(map(extent_of, sizes))


def _bounds(sizes: Sequence[Size]) -> list[int]:
    return [highest(size) for size in sizes]


def _quotient(a: Size, b: Size) -> Size:
    try:
        return a // b
    except InexactDivision:
        raise SizeAtRunTime(f"{a} elements do not divide by {b} for all sizes") from None


def _reshaped(ctx: Context, x: Value, sizes: Sequence[Size]) -> Value:
    count, told = product(x.sizes), ", ".join(map(str, sizes))
    need_equal(ctx, product(sizes), count, f"{count} elements do not fit the shape [{told}]")
    return ctx.b.reshape(x, _bounds(sizes), _extents(sizes))


@rule("Reshape")
def _reshape(ctx: Context, lower: Lowering) -> Results:
    x = ctx.input(0)
    told = None
    if is_computed(ctx.optional(1)):
        told = inferred(ctx, 1)
        if told is None and not are_sizes(ctx, 1):
            raise ctx.run_time(1)
    wanted, place = (sizes_of(ctx, 1, "shape", []), None) if told is None else told
    if not ctx.attr("allowzero", 0):
        wanted = [x.sizes[i] if d == 0 else d for i, d in enumerate(wanted)]
    if wanted.count(-1) == 1:
        rest = product(d for d in wanted if d != -1)
        wanted = [_quotient(product(x.sizes), rest) if d == -1 else d for d in wanted]
    made = _reshaped(ctx, x, wanted)
    if place is not None:
        expect_size(ctx, 1, place, wanted[place], made)
    return made


@rule("Flatten")
def _flatten(ctx: Context, lower: Lowering) -> Results:
    x, axis = ctx.input(0), ctx.attr("axis", 1)
    axis = axis + x.rank if axis < 0 else axis
    return _reshaped(ctx, x, [product(x.sizes[:axis]), product(x.sizes[axis:])])


@rule("Squeeze")
def _squeeze(ctx: Context, lower: Lowering) -> Results:
    x = ctx.input(0)
    axes = ctx.ints(1, "axes", None)
    if axes is None or not axes and not ctx.has(1):
        if any(extent is not None and extent.lowest <= 1 for extent in x.extents):
            raise SizeAtRunTime("which axes have one element depends on the sizes")
        axes = [i for i, d in enumerate(x.sizes) if d == 1]
    axes = ctx.axes(axes, x.rank)
    for axis in axes:
        need_equal(ctx, x.sizes[axis], 1, f"axes {axes} are not all of size one")
    return _reshaped(ctx, x, [d for i, d in enumerate(x.sizes) if i not in axes])


@rule("Unsqueeze")
def _unsqueeze(ctx: Context, lower: Lowering) -> Results:
    x, given = ctx.input(0), ctx.ints(1, "axes", [])
    axes = ctx.axes(given, x.rank + len(given))
    rest = iter(x.sizes)
    sizes = [1 if i in axes else next(rest) for i in range(x.rank + len(axes))]
    return _reshaped(ctx, x, sizes)


@rule("Concat")
def _concat(ctx: Context, lower: Lowering) -> Results:
    return lower(in_common(ctx, ctx.axis(ctx.attr("axis", 1), ctx.input(0).rank)))


@rule("Split")
def _split(ctx: Context, lower: Lowering) -> Results:
    x = ctx.input(0)
    axis = ctx.axis(ctx.attr("axis", 0), x.rank)
    given = ctx.has(1) or ctx.attr("split") is not None
    if x.extents[axis] is None and (not ctx.has(1) or ctx.input(1).const is not None):
        return lower(ctx)
    if not given:
        raise SizeAtRunTime(f"{x.sizes[axis]} elements are cut into {len(ctx.outputs)} parts")
    parts, start = [], 0
    first: Size = start
    for size in sizes_of(ctx, 1, "split"):
        parts.append(ctx.b.picked(x, axis, first, size))
        first = size + first
    whole = x.sizes[axis]
    need_equal(ctx, first, whole, f"the parts add up to {first}, not to {whole}")
    return parts


@rule("Slice")
def _slice(ctx: Context, lower: Lowering) -> Results:
    """By what is known of the sizes; else its own size is counted at run time."""
    given = [value for value in map(ctx.optional, (1, 2)) if value is not None]
    if any(value.const is None and value.elements is None for value in given):
        return slice_at_run_time(ctx)
    try:
        return _sliced(ctx)
    except SizeAtRunTime:
        return slice_at_run_time(ctx)


def _sliced(ctx: Context) -> Value:
    x = ctx.input(0)
    starts, ends = sizes_of(ctx, 1, "starts", []), sizes_of(ctx, 2, "ends", [])
    axes = ctx.axes(ctx.ints(3, "axes", None) or list(range(len(starts))), x.rank)
    steps = ctx.ints(4, "steps", None) or [1] * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        raise ctx.shape_error(f"starts {starts}, ends {ends}, axes {axes}, steps {steps}")
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        first, count = _picked(ctx, axis, x.sizes[axis], start, end, step)
        if isinstance(first, int) and isinstance(count, int) and x.extents[axis] is None:
            x = ctx.b.slice_along(x, axis, first, count, step)
        elif (first, count, step) != (0, x.sizes[axis], 1):
            x = ctx.b.picked(x, axis, first, count, step)
    return x


def _picked(
    ctx: Context, axis: int, size: Size, start: Size, end: Size, step: int
) -> tuple[Size, Size]:
    """The first element of a slice along an axis, and how many there are."""

    def steps(length: Size) -> Size:
        if lowest(length) < 0:
            return _quotient(length, abs(step))
        return ctx.b.quotient(f"{ctx.outputs[0]}[{axis}]", length, abs(step))

    if isinstance(size, int) and isinstance(start, int) and isinstance(end, int):
        taken = range(size)[start:end:step]
        return taken.start, len(taken)
    if step < 0:
        first = _within(start, size, size - 1, -1)
        last = _within(end, size, size - 1, -1)
        return first, steps(first - last - step - 1)
    first, last = _within(start, size, size, 0), _within(end, size, size, 0)
    if not at_most(first, last):
        if at_most(last, first):
            return 0, 0
        raise SizeAtRunTime(f"elements {first} to {last} may be none")
    return first, steps(last - first + step - 1)


def _within(position: Size, size: Size, most: Size, least: int) -> Size:
    """A position of a slice as one from the start, cut off as Python does."""
    if isinstance(position, int) and abs(position) >= _END - 1:
        return most if position > 0 else least
    if lowest(position) < 0:
        if highest(position) >= 0:
            raise SizeAtRunTime(f"position {position} may count from both ends")
        position = position + size
    if at_most(most, position):
        return most
    if at_most(position, most) and lowest(position) >= least:
        return position
    if isinstance(position, int) and position <= least:
        return least
    raise SizeAtRunTime(f"position {position} may be outside of {size} elements")


@rule("Gather")
def _gather(ctx: Context, lower: Lowering) -> Results:
    b, x, at = ctx.b, ctx.input(0), ctx.input(1)
    axis = ctx.axis(ctx.attr("axis", 0), x.rank)
    if at.whole is None and at.elements is None and x.whole is None:
        return lower(ctx)
    size = x.sizes[axis]
    extents = (*x.extents[:axis], *at.extents, *x.extents[axis + 1 :])
    if not isinstance(size, Extent):
        if at.whole is None:
            (made,) = of_whole(ctx, lower)
            assert made is not None
            return b.sized(made, extents)
        return _gathered(ctx, x, at, axis, extents)
    if at.const is not None and at.const.size:
        least, most = int(at.const.min()), int(at.const.max())
        if most >= lowest(size) or -least > lowest(size):
            raise SizeAtRunTime(f"elements {least} to {most} may be outside of {size}")
        if at.size == 1:
            index = int(at.const.reshape(-1)[0])
            one = b.picked(x, axis, index if index >= 0 else size + index, 1)
            sizes = [*x.sizes[:axis], *at.shape, *x.sizes[axis + 1 :]]
            return _reshaped(ctx, one, sizes)
    return _gathered(ctx, x, _checked(ctx, at, size, x.shape[axis]), axis, extents, size)


def _checked(ctx: Context, at: Value, size: Size, bound: int) -> Value:
    """Indices as positions from the start; one that leads out of what is there leads out of the
    whole, too, which is an error after the call."""

    def body(s: Body, a: Scalar, count: Scalar) -> Scalar:
        a = s.cast(a, "int64")
        resolved = s.select(a < 0, a + count, a)
        inside = (resolved >= 0) & (resolved < count)
        return s.select(inside, resolved, s.select(a < 0, a - bound, a + bound))

    return ctx.b.elementwise(body, at, ctx.b.number(size), dtype="int64")


def _gathered(
    ctx: Context, x: Value, at: Value, axis: int, extents: Extents, size: Extent | None = None
) -> Value:
    """Elements at positions that are clamped; the runtime looks at those that are there."""
    b, bound, whole = ctx.b, x.shape[axis], bare(x)
    if at.const is None:
        expect_position(ctx, at, axis, bound, size)
    shape = [*x.shape[:axis], *at.shape, *x.shape[axis + 1 :]]
    if not bound or 0 in shape:
        raise SizeAtRunTime("an axis without elements is gathered from")

    def body(s: Body, position: Scalar) -> Scalar:
        where = [s.index(i) for i in range(axis)]
        place = s.cast(position, "index")
        where.append(s.clamp(s.select(place < 0, place + bound, place), 0, bound - 1))
        where += [s.index(i) for i in range(axis + at.rank, len(shape))]
        return s.extract(whole, where)

    made = b.tabulate(shape, x.dtype, body, (bare(at), ", ".join(dims(at.rank, axis))))
    return b.sized(made, extents)


@rule("Expand")
def _expand(ctx: Context, lower: Lowering) -> Results:
    x, wanted = ctx.input(0), sizes_of(ctx, 1)
    rank = max(x.rank, len(wanted))
    own = [1] * (rank - x.rank) + list(x.sizes)
    sizes: list[Size] = []
    for d, to in zip(own, [1] * (rank - len(wanted)) + wanted, strict=True):
        if d != to and 1 not in (d, to):
            raise SizeAtRunTime(f"{d} elements are not repeated to {to}")
        sizes.append(d if to == 1 else to)
    return ctx.b.broadcast_to(x, _bounds(sizes), _extents(sizes))


@rule("Tile")
def _tile(ctx: Context, lower: Lowering) -> Results:
    b, x, times = ctx.b, ctx.input(0), sizes_of(ctx, 1)
    if ctx.opset < 6 or len(times) != x.rank:
        raise ctx.shape_error(f"repeats {times} do not fit rank {x.rank}")
    apart: list[Size] = []
    spread: list[Size] = []
    for size, repeats in zip(x.sizes, times, strict=True):
        apart += [1, size]
        spread += [repeats, size]
    wide = b.broadcast_to(_reshaped(ctx, x, apart), _bounds(spread), _extents(spread))
    return _reshaped(ctx, wide, [n * r for n, r in zip(x.sizes, times, strict=True)])


@rule("ConstantOfShape")
def _constant_of_shape(ctx: Context, lower: Lowering) -> Results:
    sizes, tensor = sizes_of(ctx, 0), ctx.attr("value")
    one = np.zeros(1, np.float32) if tensor is None else load.array_of(tensor)
    if any(lowest(size) < 0 for size in sizes) or one.size != 1:
        raise ctx.shape_error(f"shape {sizes}, {one.size} values")
    shape, kind = _bounds(sizes), dtypes.name_of(one)
    ctx.check_size(shape, kind)
    whole = ctx.b.constant_view(np.broadcast_to(one.reshape(()), shape), kind)
    return ctx.b.sized(whole, _extents(sizes))


@rule("Range")
def _range(ctx: Context, lower: Lowering) -> Results:
    b, dtype = ctx.b, ctx.input(0).dtype
    if any(ctx.input(i).const is None and ctx.input(i).elements is None for i in range(3)):
        return lower(ctx)
    (start, fraction), (limit, beyond), (step, part) = (_scalar(ctx, i) for i in range(3))
    known = isinstance(step, int) and step and not part and not beyond
    if not known or fraction and step != 1:
        if dtypes.is_float(dtype):  # they are counted
            return lower(ctx)
        raise SizeAtRunTime(f"the step is {step}")
    sign = 1 if step > 0 else -1
    # behind a fraction there are as many as behind 0: up to 3 these are 0.5, 1.5 and 2.5
    length = (limit - start) * sign + abs(step) - 1
    if lowest(length) < 0:
        raise SizeAtRunTime(f"{limit - start} numbers, in steps of {step}, may be none")
    count = b.quotient(ctx.outputs[0], length, abs(step))
    most = highest(count)
    offsets = b.constant(np.arange(most, dtype=np.int64) * step, "int64")
    first = b.number(start)

    def number(s: Body, offset: Scalar, first: Scalar) -> Scalar:
        whole = s.cast(offset + first, dtype)
        return whole + s.const(fraction, dtype) if fraction else whole

    values = b.elementwise(number, offsets, first, dtype=dtype)
    if most and not dtypes.is_float(dtype):
        last = (most - 1) * step
        values.known = lowest(start) + min(last, 0), highest(start) + max(last, 0)
    return b.sized(values, [extent_of(count)])


def _scalar(ctx: Context, index: int) -> tuple[Any, float]:
    """A size, and the fraction that a float is above it."""
    value = ctx.input(index)
    if value.elements is not None:
        return value.elements.reshape(-1)[0], 0.0
    number = ctx.const(index, "it decides the result's shape").reshape(-1)[0].item()
    if isinstance(number, int):
        return number, 0.0
    if not math.isfinite(number):
        raise SizeAtRunTime(f"input {index} is {number}")
    return math.floor(number), number - math.floor(number)


@rule("Pad")
def _pad(ctx: Context, lower: Lowering) -> Results:
    x, mode = ctx.input(0), ctx.attr("mode", "constant")
    need_whole(ctx, 2)
    low, high = _pads(ctx, x)
    sizes: list[Size] = [n + a + c for n, a, c in zip(x.sizes, low, high, strict=True)]
    padded = [d for d in range(x.rank) if low[d] != 0 or high[d] != 0]
    moved = [d for d in padded if any(isinstance(e, Extent) for e in (x.sizes[d], low[d], high[d]))]
    if any(lowest(sizes[d]) < 0 for d in moved):
        raise SizeAtRunTime(f"of {x.sizes} elements {low} and {high} more may be none")
    if ctx.opset < 11:
        need_along(ctx, x, moved)
    if moved and mode in ("reflect", "edge", "wrap"):
        return _padded_by_itself(ctx, x, low, high, mode)
    number = ctx.optional(2)
    known = [*low, *high]
    if moved and any(isinstance(pad, Extent) or pad < 0 for pad in known):
        starts = {d: ctx.b.number(low[d]) for d in padded if low[d] != 0}
        fill = 0 if number is None else ctx.b.reshape(number, [])
        made = placed(ctx.b, x, _bounds(sizes), padded, starts, fill)
        return ctx.b.sized(made, _extents(sizes))
    if moved and number is not None and number.const is None:
        raise SizeAtRunTime("it is padded with a number that is known at run time")
    fill = 0 if number is None else number.array.reshape(-1)[0]
    (whole,) = of_whole(ctx, lower, {0: ctx.b.masked(x, moved, fill)})
    assert whole is not None
    return ctx.b.sized(whole, _extents(sizes))


def _pads(ctx: Context, x: Value) -> tuple[list[Size], list[Size]]:
    """How much is put before and behind the elements of each axis."""
    given = ctx.optional(1)
    if given is None or given.elements is None:
        pads: list[Size] = list(ctx.ints(1, "pads", []))
    else:
        pads = sizes_of(ctx, 1)
    axes = ctx.axes(ctx.ints(3, "axes", None) or list(range(x.rank)), x.rank)
    if len(pads) != 2 * len(axes):
        raise ctx.shape_error(f"pads {pads} do not fit {len(axes)} axes")
    low: list[Size] = [0] * x.rank
    high: list[Size] = [0] * x.rank
    for i, axis in enumerate(axes):
        low[axis], high[axis] = pads[i], pads[len(axes) + i]
    return low, high


def _padded_by_itself(
    ctx: Context, x: Value, low: Sequence[Size], high: Sequence[Size], mode: str
) -> Value:
    """A tensor with its own elements around it, at places that depend on how many there are. What
    is cut off is not there to repeat.
    """
    b, sizes = ctx.b, [n + a + c for n, a, c in zip(x.sizes, low, high, strict=True)]
    for axis, pads in enumerate(zip(low, high, strict=True)):
        first, rest = map(_cut, pads)
        if first != 0 or rest != 0:
            x = b.picked(x, axis, first, x.sizes[axis] - first - rest)
    before = [a if lowest(a) >= 0 else 0 for a in low]
    if any(lowest(size) < 1 for size in x.sizes):
        raise SizeAtRunTime(f"mode {mode} may have nothing to repeat")
    whole, (reads, told) = bare(x), b.told_sizes([*x.sizes, *before])

    def body(s: Body, *args: Scalar) -> Scalar:
        at: list[Scalar] = []
        known = told(args)
        for axis, (own, start) in enumerate(zip(known[: x.rank], known[x.rank :], strict=True)):
            size = s.cast(own, "index") if isinstance(own, Scalar) else s.const(own, "index")
            place = s.index(axis)
            if sizes[axis] != x.sizes[axis]:
                first = s.cast(start, "index") if isinstance(start, Scalar) else start
                place = _source(s, place - first, size, mode)
            at.append(s.maximum(s.minimum(place, size - 1), 0))
        return s.extract(whole, at)

    made = b.tabulate(_bounds(sizes), x.dtype, body, *reads)
    return b.sized(made, _extents(sizes))


def _cut(pad: Size) -> Size:
    """How many elements a pad below 0 removes."""
    if lowest(pad) >= 0:
        return 0
    if highest(pad) > 0:
        raise SizeAtRunTime(f"{pad} elements may be put there or removed")
    return -pad


def _source(s: Body, place: Scalar, size: Scalar, mode: str) -> Scalar:
    """The element that stands at a place, which may be outside; see `ops.shape._sources`."""
    if mode == "edge":
        return place
    period = size if mode == "wrap" else s.maximum((size - 1) * 2, 1)
    place = s.rem(place, period)
    place = s.select(place < 0, place + period, place)
    return place if mode == "wrap" else s.minimum(place, period - place)
