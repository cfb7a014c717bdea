"""Operators that read and write at computed positions, of which not all are there."""

from __future__ import annotations

from dataclasses import replace

from rcompiler.frontend.builder import Value
from rcompiler.frontend.registry import Context, Lowering
from rcompiler.frontend.sized import bare
from rcompiler.frontend.value import SizeAtRunTime
from rcompiler.support.extent import lowest

from .rules import Results, as_usual, need_along, need_whole, rule, with_extents

# Their translations look at what is there alone; an update that is not there writes nothing.
rule("GatherElements", "GatherND", "Scatter", "ScatterElements", "ScatterND")(as_usual)


@rule("RoiAlign", "MaxRoiPool")
def _regions(ctx: Context, lower: Lowering) -> Results:
    """What is no region is one of the first image, of zeros."""
    x = ctx.input(0)
    if ctx.op == "RoiAlign" and x.rank == 4:  # its translation knows of the sizes of an image
        need_along(ctx, x, [0, 1])
        if any(lowest(size) < 1 for size in x.sizes):
            raise SizeAtRunTime("there may be no elements to read")
    else:
        need_whole(ctx, 0)
    rois, masked = ctx.input(1), {1: ctx.b.masked(ctx.input(1), [0])}
    if ctx.op == "RoiAlign":
        batch = ctx.input(2)
        if batch.sizes != rois.sizes[:1]:
            raise ctx.shape_error("there is one batch index per region")
        masked[2] = ctx.b.masked(batch)
    regions = [
        None if value is None else bare(masked.get(number, value))
        for number, value in enumerate(ctx.inputs[1:], 1)
    ]
    made = lower(replace(ctx, inputs=[x, *regions]))
    assert isinstance(made, Value)
    return with_extents(ctx, [made], (rois.extents[0], None, None, None))
