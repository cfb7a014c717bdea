"""Operators that read and write at computed positions, of which not all are there."""

from __future__ import annotations

from rcompiler.frontend.registry import Context, Lowering

from .rules import Results, as_usual, need_whole, of_whole, rule, with_extents

# Their translations look at what is there alone; an update that is not there writes nothing.
rule("GatherElements", "GatherND", "Scatter", "ScatterElements", "ScatterND")(as_usual)


@rule("RoiAlign", "MaxRoiPool")
def _regions(ctx: Context, lower: Lowering) -> Results:
    """What is no region is one of the first image, of zeros."""
    need_whole(ctx, 0)
    rois, masked = ctx.input(1), {1: ctx.b.masked(ctx.input(1), [0])}
    if ctx.op == "RoiAlign":
        batch = ctx.input(2)
        if batch.sizes != rois.sizes[:1]:
            raise ctx.shape_error("there is one batch index per region")
        masked[2] = ctx.b.masked(batch)
    made = of_whole(ctx, lower, masked)
    return with_extents(ctx, made, (rois.extents[0], None, None, None))
