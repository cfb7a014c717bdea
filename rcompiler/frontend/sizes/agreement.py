"""Sizes that a model needs to be one, and that are written in two ways.

    a = MaxPool(x)  b = Resize(a)  y = Concat(x, b)     // 2*(h // 2) elements meet h

For some sizes they are one, and for others the model has no meaning: a program of such a size is
refused. One program for all of them looks at each call, which is an error where they differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

from rcompiler.frontend.body import Body
from rcompiler.frontend.builder import Value
from rcompiler.frontend.registry import Context
from rcompiler.frontend.scalar import Scalar
from rcompiler.frontend.sized import bare
from rcompiler.frontend.value import SizeAtRunTime, extent_of
from rcompiler.support.extent import SIZE_BESIDE, Extent, Size, highest, lowest

_LEAST_OF_MANY = 2  # elements, of which it is known that they are not repeated


def may_agree(a: Size, b: Size) -> bool:
    """Whether two sizes, not both of which are numbers, are one for some counts."""
    gap = a - b
    return isinstance(gap, Extent) and lowest(gap) <= 0 <= highest(gap)


def mismatch(ctx: Context, a: Size, b: Size, reason: str) -> Exception:
    """What to raise where two sizes have to be one and are not: where no call has them so, the
    model does not fit the sizes, as it does not fit numbers that differ.
    """
    return SizeAtRunTime(reason) if may_agree(a, b) else ctx.shape_error(reason)


def agreed(ctx: Context, value: Value, axis: int, size: Extent) -> Value:
    """The tensor, which has so many elements along an axis in each call that is no error."""
    b, own = ctx.b, value.sizes[axis]
    if own == size:
        return value
    extents = list(value.extents)
    extents[axis] = size
    behind = [0] * value.rank
    behind[axis] = max(highest(size) - value.shape[axis], 0)
    whole = b.pad(bare(value), [0] * value.rank, behind)
    whole = b.slice_along(whole, axis, 0, highest(size))
    made = b.sized(whole, extents)
    reader = f"{ctx.op} '{ctx.name}'"
    says = (
        f"{reader} meets {SIZE_BESIDE} elements along axis {axis} in one input, and {{}} more in "
        f"another ('{own}' and '{size}'); give the model sizes that fit it"
    )

    def apart(s: Body, a: Scalar, c: Scalar) -> Scalar:
        return s.maximum(a, c) - s.minimum(a, c)

    sizes = b.number(own), b.number(size)
    less = b.elementwise(lambda s, a, c: s.minimum(a, c), *sizes)
    b.expect(b.elementwise(apart, *sizes), 0, 0, reader, whole, says, less)
    return made


def fitted(ctx: Context, value: Value, axis: int, size: Size) -> Value:
    """The tensor with so many elements along an axis. Refuses one that has, or may have, others."""
    own = value.sizes[axis]
    if own == size:
        return value
    if not isinstance(size, Extent) or not isinstance(own, Extent) or not may_agree(own, size):
        reason = f"{own} elements along axis {axis} of an input meet {size}"
        raise mismatch(ctx, own, size, reason)
    return agreed(ctx, value, axis, size)


def in_common(ctx: Context, axis: int | None = None) -> Context:
    """The node with inputs that have one size along each axis that they share, as far as they may.

    axis: along which they are joined, and of any size; else they are broadcast.
    """
    values = [value for value in ctx.inputs if value is not None]
    rank = max((value.rank for value in values), default=0)
    inputs = list(ctx.inputs)
    for d in range(rank):
        if d == axis:
            continue
        sizes = [v.sizes[d - rank] for v in values if d - rank >= -v.rank]
        common = _common(sizes, least=0 if axis is not None else _LEAST_OF_MANY)
        if common is None:
            continue
        for number, value in enumerate(inputs):
            if value is not None and d - rank >= -value.rank:
                own = d - rank + value.rank
                if value.sizes[own] != 1:
                    inputs[number] = agreed(ctx, value, own, common)
    return replace(ctx, inputs=inputs)


def meets_in_some_calls(ctx: Context) -> bool:
    """Whether sizes of inputs along an axis, which are broadcast, are one for some counts only."""
    values = [value for value in ctx.inputs if value is not None]
    rank = max((value.rank for value in values), default=0)
    for d in range(-rank, 0):
        sizes = {v.sizes[d] for v in values if d >= -v.rank}
        if any(may_agree(a, b) for a, b in combinations(sizes, 2)):
            return True
    return False


def _common(sizes: Sequence[Size], least: int) -> Extent | None:
    """What several sizes have to be; None where nothing is to be done, or can be.

    least: each has so many elements for all counts, or is one.
    """
    several = [size for size in dict.fromkeys(sizes) if size != 1]
    open_ = [size for size in several if isinstance(size, Extent)]
    if len(several) < 2 or len(open_) < len(several):
        return None
    first = min(open_, key=_rank_of)
    fit = all(lowest(size) >= least and may_agree(size, first) for size in open_ if size != first)
    return first if fit and lowest(first) >= least else None


def _rank_of(size: Extent) -> tuple[int, int, int, str]:
    """Small bounds, and what is written in the shortest way, come first."""
    most = max(abs(number) for each, number in size.terms)
    return size.highest, len(size.terms), most, str(size)


def multiple(ctx: Context, value: Value, axis: int, divisor: int) -> Value:
    """The tensor, whose size along an axis is written as a product with a number."""
    size = value.sizes[axis]
    if not isinstance(size, Extent):
        return value
    whole = ctx.b.quotient(f"{ctx.outputs[0]}[{axis}]", size, divisor) * divisor
    extent = extent_of(whole)
    assert extent is not None
    return agreed(ctx, value, axis, extent)
