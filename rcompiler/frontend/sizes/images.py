"""Operators on batches of images, or of other things, which look at each by itself."""

from __future__ import annotations

from dataclasses import replace

from rcompiler.frontend.builder import Value
from rcompiler.frontend.ops.vision import blocks_of
from rcompiler.frontend.registry import Context, Lowering
from rcompiler.frontend.sized import bare
from rcompiler.frontend.value import SizeAtRunTime
from rcompiler.support.extent import lowest, product

from .agreement import fitted, multiple
from .rules import Results, need_along, need_whole, of_whole, rule, with_extents
from .windows import windows


@rule("Resize", "Upsample")
def _resize(ctx: Context, lower: Lowering) -> Results:
    """The translation knows of sizes, but only of the image's."""
    need_whole(ctx, *range(1, len(ctx.inputs)))
    return lower(ctx)


@rule("DepthToSpace", "SpaceToDepth")
def _blocks(ctx: Context, lower: Lowering) -> Results:
    """An image that is made of blocks has whole ones along each axis."""
    x = ctx.input(0)
    need_along(ctx, x, [1])
    if ctx.op == "SpaceToDepth" and x.rank == 4:
        for axis in (2, 3):
            x = multiple(ctx, x, axis, ctx.attr("blocksize", 1))
    return lower(replace(ctx, inputs=[x]))


@rule("GridSample")
def _grid_sample(ctx: Context, lower: Lowering) -> Results:
    """The translation knows of sizes, but not that both inputs have one batch."""
    x, grid = ctx.input(0), ctx.input(1)
    if x.rank < 3 or grid.rank != x.rank:
        return lower(ctx)
    need_along(ctx, grid, [grid.rank - 1])
    if any(lowest(size) < 1 for size in x.sizes[2:]):
        raise SizeAtRunTime("there may be no elements to read")
    made = lower(replace(ctx, inputs=[x, bare(fitted(ctx, grid, 0, x.sizes[0]))]))
    assert isinstance(made, Value)
    return ctx.b.sized(made, (*x.extents[:2], *grid.extents[1:-1]))


@rule("DeformConv")
def _deform_conv(ctx: Context, lower: Lowering) -> Results:
    """As many places as windows, and offsets for each of them."""
    x, w, offset = (ctx.input(i) for i in range(3))
    need_whole(ctx, 1, 3)
    need_along(ctx, x, [1])
    if any(lowest(size) < 1 for size in x.sizes[2:]):
        raise SizeAtRunTime("there may be no elements to read")
    extents = windows(ctx, x, w.shape[2:], (x.extents[0], None))
    inputs: list[Value | None] = [x, w, offset, *[ctx.optional(i) for i in (3, 4)]]
    for number, value in enumerate(inputs):
        if number in (2, 4) and value is not None and value.rank == x.rank:
            need_along(ctx, value, [1])
            for axis, extent in enumerate(extents):
                if axis != 1:
                    size = value.shape[axis] if extent is None else extent
                    value = fitted(ctx, value, axis, size)
            inputs[number] = bare(value)
    made = lower(replace(ctx, inputs=inputs))
    assert isinstance(made, Value)
    return ctx.b.sized(made, extents)


@rule("Col2Im")
def _col2im(ctx: Context, lower: Lowering) -> Results:
    """As many columns as the image has blocks."""
    need_whole(ctx, 1, 2)
    x = ctx.input(0)
    if x.rank != 3:
        return lower(ctx)
    need_along(ctx, x, [1])
    _, counts = blocks_of(ctx)
    x = fitted(ctx, x, 2, product(counts))
    return lower(replace(ctx, inputs=[x, *ctx.inputs[1:]]))


@rule("OneHot")
def _one_hot(ctx: Context, lower: Lowering) -> Results:
    """A new axis in the place that is told."""
    need_whole(ctx, 1, 2)
    x = ctx.input(0)
    axis = ctx.axis(ctx.attr("axis", -1), x.rank + 1)
    if x.whole is not None:
        extents = (*x.extents[:axis], None, *x.extents[axis:])
        return with_extents(ctx, of_whole(ctx, lower), extents)
    return lower(ctx)
