"""Operators on batches of images, or of other things, which look at each by itself."""

from __future__ import annotations

from dataclasses import replace

from rcompiler.frontend.registry import Context, Lowering

from .agreement import multiple
from .rules import Results, need_along, need_whole, of_whole, rule, with_extents


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
