"""Slices of which the ends are known at run time only."""

from __future__ import annotations

import numpy as np

from rcompiler.frontend.body import Body
from rcompiler.frontend.builder import Value
from rcompiler.frontend.counted import counted, room_for
from rcompiler.frontend.registry import Context
from rcompiler.frontend.scalar import Operand, Scalar
from rcompiler.frontend.sized import bare


def slice_at_run_time(ctx: Context) -> Value:
    """``x[start:end:step]`` along each of the axes, as in Python, for a node Slice."""
    x, starts, ends = ctx.input(0), _given(ctx, 1, "starts"), _given(ctx, 2, "ends")
    axes = ctx.axes(ctx.ints(3, "axes", None) or list(range(starts.size)), x.rank)
    steps = ctx.ints(4, "steps", None) or [1] * starts.size
    if not starts.shape == ends.shape == (len(axes),) == (len(steps),) or 0 in steps:
        raise ctx.shape_error(f"starts {starts}, ends {ends}, axes {axes}, steps {steps}")
    for number, (axis, step) in enumerate(zip(axes, steps, strict=True)):
        x = _along(ctx, x, starts, ends, number, axis, step)
    return x


def _given(ctx: Context, index: int, attribute: str) -> Value:
    return ctx.optional(index) or ctx.b.constant(np.array(ctx.attr(attribute, []), np.int64))


def _along(
    ctx: Context, x: Value, starts: Value, ends: Value, number: int, axis: int, step: int
) -> Value:
    b, n, whole = ctx.b, x.shape[axis], bare(x)
    read = f"{number}"

    def begin(s: Body, start: Scalar, size: Scalar) -> Scalar:
        return _within(s, start, size, step)

    def count(s: Body, start: Scalar, end: Scalar, size: Scalar) -> Scalar:
        first, last = _within(s, start, size, step), _within(s, end, size, step, end=True)
        distance = last - first if step > 0 else first - last
        return s.clamp((distance + (abs(step) - 1)) / abs(step), 0, n)

    size = b.number(x.sizes[axis])
    reads = [(starts, read), (ends, read), (size, "")]
    first = b.tabulate([], "int64", begin, reads[0], reads[2])
    most = _most(starts, ends, n, step)
    room = room_for(ctx, most)
    found = b.tabulate([], "int64", count, *reads)
    extent = counted(ctx, found, room, most)
    shape = [*x.shape[:axis], room, *x.shape[axis + 1 :]]
    extents = [*x.extents[:axis], extent, *x.extents[axis + 1 :]]
    if 0 in shape:
        return b.sized(b.empty(shape, x.dtype), extents)

    def element(s: Body, first: Scalar) -> Scalar:
        at = [s.index(d) for d in range(x.rank)]
        at[axis] = s.clamp(s.cast(first, "index") + at[axis] * step, 0, n - 1)
        return s.extract(whole, at)

    return b.sized(b.tabulate(shape, x.dtype, element, (first, "")), extents)


def _within(s: Body, at: Scalar, size: Scalar, step: int, end: bool = False) -> Scalar:
    """A position of a slice as one from the start, cut off as Python does."""
    at = s.cast(at, "int64")
    at = s.select(at < 0, at + size, at)
    least: Operand = 0
    most: Operand = size
    if step < 0:
        least, most = -1 if end else 0, size - 1
    return s.clamp(at, least, most)


def _most(starts: Value, ends: Value, n: int, step: int) -> int:
    """How many elements there are at most."""
    most = n
    if step > 0 and starts.bounds and ends.bounds and min(starts.bounds[0], ends.bounds[0]) >= 0:
        most = max(min(ends.bounds[1], n) - starts.bounds[0], 0)
    return -(-most // abs(step))
