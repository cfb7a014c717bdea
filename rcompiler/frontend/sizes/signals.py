"""Transforms of signals, of any number and, in frames, of any length."""

from __future__ import annotations

from rcompiler.frontend.registry import Context, Lowering
from rcompiler.frontend.value import SizeAtRunTime, extent_of
from rcompiler.support.extent import Extent, lowest

from .rules import Results, need_along, need_whole, of_whole, rule, with_extents


@rule("DFT")
def _dft(ctx: Context, lower: Lowering) -> Results:
    """Each line by itself; of a transform of fixed length, zeros stand in for what is missing."""
    x = ctx.input(0)
    need_whole(ctx, 1, 2)
    axis = ctx.attr("axis", 1) if ctx.opset < 20 else int(ctx.scalar(2, -2))
    axis = ctx.axis(axis, x.rank)
    need_along(ctx, x, [x.rank - 1])
    if x.extents[axis] is None:
        return with_extents(ctx, of_whole(ctx, lower), x.extents)
    if not ctx.has(1):
        raise SizeAtRunTime("the length of the transform; give one as dft_length")
    if lowest(x.sizes[axis]) < 1:
        raise SizeAtRunTime("there may be no points")
    made = of_whole(ctx, lower, {0: ctx.b.masked(x, [axis])})
    return with_extents(ctx, made, (*x.extents[:axis], None, *x.extents[axis + 1 :]))


@rule("STFT")
def _stft(ctx: Context, lower: Lowering) -> Results:
    """As many frames as there are whole ones in the signal."""
    x, window = ctx.input(0), ctx.optional(2)
    need_whole(ctx, 1, 2, 3)
    need_along(ctx, x, range(2, x.rank))
    size = x.sizes[1]
    frames = None
    if isinstance(size, Extent):
        if window is None and not ctx.has(3):
            raise SizeAtRunTime("the length of a frame; give one as frame_length")
        length = int(ctx.scalar(3, 0 if window is None else window.size))
        if lowest(size) < length:
            raise SizeAtRunTime(f"there may be no frame of {length} in {size} elements")
        room = ctx.b.quotient(f"{ctx.outputs[0]}[1]", size - length, int(ctx.scalar(1)))
        frames = extent_of(room + 1)
    return with_extents(ctx, of_whole(ctx, lower), (x.extents[0], frames, None, None))
