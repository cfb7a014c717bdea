"""TopK."""

from __future__ import annotations

import math

from rcompiler.frontend import dtypes
from rcompiler.frontend.body import Body
from rcompiler.frontend.builder import Value
from rcompiler.frontend.registry import Context, lowering
from rcompiler.frontend.scalar import Scalar
from rcompiler.frontend.sorting import first_in_order, keys_of


@lowering("TopK")
def _top_k(ctx: Context) -> list[Value | None]:
    """The k largest (smallest) elements of an axis in order, and their positions.

    Equal elements keep their order; NaN counts as the largest number.
    """
    b, x = ctx.b, ctx.input(0)
    if not x.rank or not (dtypes.is_float(x.dtype) or dtypes.is_integer(x.dtype)):
        raise ctx.refuse(f"{x.dtype} of rank {x.rank} is not translated", "Cast it to float32")
    k = ctx.ints(1, "k")
    k = int(k[0] if isinstance(k, list) else k)
    axis = ctx.axis(ctx.attr("axis", -1), x.rank)
    n = x.shape[axis]
    if not 0 <= k <= n:
        raise ctx.shape_error(f"k is {k}, the axis has {n} elements")
    shape = [*x.shape[:axis], k, *x.shape[axis + 1 :]]
    if 0 in shape:
        return [b.empty(shape, x.dtype), b.empty(shape, "int64")]
    rows, columns = math.prod(x.shape[:axis]), math.prod(x.shape[axis + 1 :])
    flat = b.reshape(x, [rows, n, columns])
    order = first_in_order(b, keys_of(b, flat, bool(ctx.attr("largest", 1))), k)
    at = b.cast(b.transpose(b.reshape(order, [rows, columns, k]), [0, 2, 1]), "int64")

    def element(s: Body, i: Scalar) -> Scalar:
        return s.extract(flat, [s.index(0), s.cast(i, "index"), s.index(2)])

    values = b.tabulate([rows, k, columns], x.dtype, element, (at, "d0, d1, d2"))
    return [b.reshape(values, shape), b.reshape(at, shape)]
