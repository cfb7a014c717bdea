"""Operators on batches of images, or of other things, which look at each by itself."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rcompiler.frontend.builder import Value
from rcompiler.frontend.registry import Context, Lowering
from rcompiler.support.extent import highest

from .rules import Results, need_along, need_whole, of_whole, refusal, rule, with_extents


def bounds_for_sizes(ctx: Context) -> Mapping[int, Value]:
    """In the place of inputs that are made of sizes their bounds, which are the shapes at these."""
    found = {}
    for index, value in enumerate(ctx.inputs):
        if value is not None and value.elements is not None:
            numbers = np.vectorize(highest, otypes=[np.int64])(value.elements)
            found[index] = ctx.b.constant(numbers, value.dtype)
    return found


@rule("DepthToSpace", "SpaceToDepth", "Resize", "Upsample")
def _of_batch(ctx: Context, lower: Lowering) -> Results:
    """Only the batch may be of any size, and stays as it is."""
    x = ctx.input(0)
    need_whole(ctx, *range(1, len(ctx.inputs)))
    need_along(ctx, x, range(1, x.rank))
    for value in ctx.inputs[1:]:
        if value is not None and value.elements is not None:
            first, *rest = value.elements.reshape(-1)
            if first != x.sizes[0] or not all(isinstance(each, int) for each in rest):
                raise refusal(ctx, f"to {first} images")
    made = of_whole(ctx, lower, bounds_for_sizes(ctx))
    if any(v is not None and v.shape[0] != x.shape[0] for v in made) and x.extents[0]:
        raise refusal(ctx, "the batch changes")
    return with_extents(ctx, made, (x.extents[0], *[None] * (x.rank - 1)))


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
