"""Range with operands that are known at run time only."""

from __future__ import annotations

import math

from rcompiler.errors import UnsupportedOp
from rcompiler.frontend import bounds, dtypes
from rcompiler.frontend.body import Body
from rcompiler.frontend.builder import Value
from rcompiler.frontend.counted import counted, given_room, room_for
from rcompiler.frontend.likely import interval_of
from rcompiler.frontend.registry import Context
from rcompiler.frontend.scalar import Scalar
from rcompiler.frontend.sizes.numbers import MOST_ROOM, computed_size, without_bound
from rcompiler.frontend.value import extent_of
from rcompiler.support.extent import Size, highest


def range_at_run_time(ctx: Context) -> Value:
    """``start + i * delta`` below ``limit``, as many as the bounds of the operands allow, or as a
    caller says.
    """
    b, operands = ctx.b, [ctx.input(i) for i in range(3)]
    if any(value.size != 1 for value in operands):
        raise ctx.shape_error("start, limit and delta are one number each")
    if (size := _counted_from_zero(ctx)) is not None:
        return _places(ctx, size)
    start, limit, delta = (b.reshape(value, []) for value in operands)
    dtype, whole = start.dtype, dtypes.limits("int64")[1]
    most, likely = _most(start, limit, delta), None
    if most is None:
        likely = _likely(start, limit, delta)
        if given_room(ctx) is None and likely is None:
            raise _without_bound(ctx)
        most = int(whole)
    room = room_for(ctx, most if likely is None else likely)
    ctx.check_size([room], dtype)
    count = _count_of_floats if dtypes.is_float(dtype) else _count_of_integers
    reader = f"{ctx.op} '{ctx.name}'"
    zero = b.elementwise(lambda s, step: s.cast(step.eq(0), "int64"), delta, dtype="int64")
    b.expect(zero, 0, 0, reader, delta, f"{reader} has a delta of zero")

    def number(s: Body, start: Scalar, limit: Scalar, delta: Scalar) -> Scalar:
        return count(s, start, limit, delta, most)

    found = b.elementwise(number, start, limit, delta, dtype="int64")
    extent = counted(ctx, found, room, most)
    wide = "float64" if dtypes.is_float(dtype) else "int64"

    def element(s: Body, first: Scalar, step: Scalar) -> Scalar:
        place = s.cast(s.cast(s.index(0), "int64"), wide)
        return s.cast(s.cast(first, wide) + place * s.cast(step, wide), dtype)

    return b.sized(b.tabulate([room], dtype, element, (start, ""), (delta, "")), [extent])


def _without_bound(ctx: Context) -> UnsupportedOp:
    """The first operand that is no constant is asked for, or a bound."""
    return without_bound(ctx, next(i for i in range(3) if ctx.input(i).const is None))


def _counted_from_zero(ctx: Context) -> Size | None:
    """How many numbers 0, 1, 2, ... there are, below one that may be the size of other tensors,
    too; None of other ranges.
    """
    start, delta = ctx.input(0).const, ctx.input(2).const
    if start is None or delta is None or start.reshape(-1)[0] != 0 or delta.reshape(-1)[0] != 1:
        return None
    return computed_size(ctx, 1)


def _places(ctx: Context, size: Size) -> Value:
    """0, 1, 2, ... up to a size."""
    dtype, most = ctx.input(0).dtype, highest(size)
    ctx.check_size([most], dtype)
    places = ctx.b.tabulate([most], dtype, lambda s: s.cast(s.cast(s.index(0), "int64"), dtype))
    places.known = 0, max(most - 1, 0)
    return ctx.b.sized(places, [extent_of(size)])


def _likely(start: Value, limit: Value, delta: Value) -> int | None:
    """As many numbers as there are at most, if no operand is NaN."""
    first, last, step = (interval_of(value) for value in (start, limit, delta))
    if first is None or last is None or step is None or step[0] <= 0:
        return None
    steps = (last[1] - first[0]) / step[0]
    return max(math.ceil(steps), 0) if steps <= MOST_ROOM else None


def _most(start: Value, limit: Value, delta: Value) -> int | None:
    """How many numbers there are at most; None where nothing is known of one of the operands."""
    told = [value.bounds for value in (start, limit, delta)]
    if any(own is None or own == bounds.of_type(start.dtype) for own in told):
        return None
    (low, high), (first, last), steps = (own or (0, 0) for own in told)
    found = 0
    if steps[1] > 0:
        found = max(found, -((low - last) // max(steps[0], 1)))
    if steps[0] < 0:
        found = max(found, -((first - high) // max(-steps[1], 1)))
    return found


def _count_of_integers(s: Body, start: Scalar, limit: Scalar, delta: Scalar, most: int) -> Scalar:
    start, limit, delta = (s.cast(each, "int64") for each in (start, limit, delta))
    up = delta > 0
    distance = s.select(up, limit - start, start - limit)
    step = s.maximum(s.select(up, delta, 0 - delta), 1)
    return s.clamp(s.select(distance > 0, (distance - 1) / step + 1, 0), 0, most)


def _count_of_floats(s: Body, start: Scalar, limit: Scalar, delta: Scalar, most: int) -> Scalar:
    """In f64, as of constants; of a quotient that is no number none."""
    start, limit, delta = (s.cast(each, "float64") for each in (start, limit, delta))
    found = s.ceil((limit - start) / delta)
    return s.cast(s.bounded(found, 0.0, float(min(most, 1 << 53))), "int64")
