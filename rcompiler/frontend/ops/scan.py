"""CumSum and CumProd."""

from __future__ import annotations

import math

from rcompiler.frontend import dtypes
from rcompiler.frontend.builder import Value
from rcompiler.frontend.prefix import Combine, prefix
from rcompiler.frontend.registry import Context, lowering


@lowering("CumSum", "CumProd")
def _cumulative(ctx: Context) -> Value:
    """Prefix sums or products along an axis; ``exclusive`` leaves the element itself out."""
    b, x = ctx.b, ctx.input(0)
    if dtypes.is_integer(x.dtype) == dtypes.is_float(x.dtype):
        raise ctx.refuse(f"element type {x.dtype} is not translated", "Cast it to float32")
    axis = ctx.axis(int(ctx.scalar(1)), x.rank)
    if not x.size or not x.rank:
        return x
    rows, columns = math.prod(x.shape[:axis]), math.prod(x.shape[axis + 1 :])
    combine: Combine = (lambda a, c: a + c) if ctx.op == "CumSum" else (lambda a, c: a * c)
    neutral = 0 if ctx.op == "CumSum" else 1
    out = prefix(
        b,
        b.reshape(x, [rows, x.shape[axis], columns]),
        combine,
        neutral,
        bool(ctx.attr("exclusive", 0)),
        bool(ctx.attr("reverse", 0)),
    )
    return b.reshape(out, x.shape)
