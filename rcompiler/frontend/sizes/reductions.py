"""What goes along an axis: reductions, softmax, normalisation, prefix sums, places of extremes."""

from __future__ import annotations

from collections.abc import Sequence

from rcompiler.frontend import dtypes
from rcompiler.frontend.body import Body
from rcompiler.frontend.builder import Builder, Value
from rcompiler.frontend.core import accumulator
from rcompiler.frontend.ops.normalization import scaled_and_shifted
from rcompiler.frontend.ops.pooling import averages
from rcompiler.frontend.ops.reduction import extreme_start, keeps_dims, reduced_axes
from rcompiler.frontend.registry import Context, Lowering
from rcompiler.frontend.scalar import Scalar
from rcompiler.frontend.value import Extents, SizeAtRunTime

from .rules import Results, as_usual, need_along, need_whole, of_whole, rule, with_extents
from .windows import seen, windows


def _reduced(x: Value, axes: Sequence[int], keep: bool) -> Extents:
    """What is left of the extents."""
    if keep:
        return tuple(None if i in axes else e for i, e in enumerate(x.extents))
    return tuple(e for i, e in enumerate(x.extents) if i not in axes)


# Folded from their neutral elements, which stand in the place of what is not there.
rule("ReduceSum", "ReduceProd", "ReduceSumSquare", "ReduceL1", "ReduceL2", "ReduceLogSum")(as_usual)
rule("ReduceMax", "ReduceMin")(as_usual)


@rule("ReduceMean")
def _mean(ctx: Context, lower: Lowering) -> Results:
    axes = reduced_axes(ctx, ctx.input(0))
    return _mean_over(ctx, lower, axes, keeps_dims(ctx))


@rule("GlobalAveragePool")
def _global_mean(ctx: Context, lower: Lowering) -> Results:
    return _mean_over(ctx, lower, range(2, ctx.input(0).rank), True)


def _mean_over(ctx: Context, lower: Lowering, axes: Sequence[int], keep: bool) -> Results:
    """Divided by how many there are."""
    x = ctx.input(0)
    if not any(x.extents[axis] for axis in axes):
        return with_extents(ctx, of_whole(ctx, lower), _reduced(x, axes, keep))
    return _means(ctx.b, ctx.b.cast(x, accumulator(x.dtype)), axes, keep, x.dtype)


def _means(b: Builder, wide: Value, axes: Sequence[int], keep: bool, dtype: str) -> Value:
    count = b.counted(wide, axes, keep)

    def mean(s: Body, a: Scalar, n: Scalar) -> Scalar:
        n = n if dtypes.is_float(wide.dtype) else s.maximum(n, 1)
        return s.cast(a / s.cast(n, wide.dtype), dtype)

    return b.elementwise(mean, b.sum(wide, axes, keep), count, dtype=dtype)


@rule("GlobalLpPool")
def _global_norm(ctx: Context, lower: Lowering) -> Results:
    x = ctx.input(0)
    made = of_whole(ctx, lower, {0: ctx.b.masked(x, range(2, x.rank))})
    return with_extents(ctx, made, _reduced(x, range(2, x.rank), True))


@rule("GlobalMaxPool")
def _global_max(ctx: Context, lower: Lowering) -> Results:
    return lower(ctx)


@rule("ReduceLogSumExp")
def _log_sum_exp(ctx: Context, lower: Lowering) -> Results:
    x = ctx.input(0)
    axes = reduced_axes(ctx, x)
    made = of_whole(ctx, lower, {0: ctx.b.masked(x, axes, float("-inf"))})
    return with_extents(ctx, made, _reduced(x, axes, keeps_dims(ctx)))


@rule("Softmax", "LogSoftmax", "Hardmax")
def _softmax(ctx: Context, lower: Lowering) -> Results:
    """The power of -infinity is 0."""
    x = ctx.input(0)
    axis = ctx.axis(ctx.attr("axis", -1 if ctx.opset >= 13 else 1), x.rank) if x.rank else 0
    axes = [axis] if ctx.opset >= 13 else list(range(axis, x.rank))
    made = of_whole(ctx, lower, {0: ctx.b.masked(x, axes, float("-inf"))})
    (result,) = with_extents(ctx, made, x.extents)
    if ctx.op == "Softmax":
        result.zeros = frozenset(axes)
    return [result]


@rule("LayerNormalization", "RMSNormalization")
def _layer_norm(ctx: Context, lower: Lowering) -> Results:
    x = ctx.input(0)
    need_whole(ctx, *range(1, len(ctx.inputs)))
    first = ctx.axis(ctx.attr("axis", -1), x.rank)
    scales = [value.rank for value in ctx.inputs[1:] if value is not None]
    need_along(ctx, x, range(min([first, *(x.rank - rank for rank in scales)]), x.rank))
    return with_extents(ctx, of_whole(ctx, lower), *[x.extents] * 3)


@rule("InstanceNormalization")
def _instance_norm(ctx: Context, lower: Lowering) -> Results:
    """By the means over what there is."""
    b, x = ctx.b, ctx.input(0)
    axes, epsilon = range(2, x.rank), ctx.attr("epsilon", 1e-5)
    if not any(x.extents[axis] for axis in axes):
        return _per_image(ctx, lower)
    need_whole(ctx, 1, 2)
    need_along(ctx, x, [1])
    wide = b.cast(x, accumulator(x.dtype))
    apart = b.elementwise(lambda s, a, m: a - m, wide, _means(b, wide, axes, True, wide.dtype))
    squares = b.elementwise(lambda s, a: a * a, apart)
    variance = _means(b, squares, axes, True, wide.dtype)
    normal = b.elementwise(lambda s, a, v: a / s.sqrt(v + epsilon), apart, variance)
    return scaled_and_shifted(ctx, b.cast(normal, x.dtype))


@rule("GroupNormalization", "LRN")
def _per_image(ctx: Context, lower: Lowering) -> Results:
    """Of each image of a batch by itself."""
    x = ctx.input(0)
    need_whole(ctx, *range(1, len(ctx.inputs)))
    need_along(ctx, x, range(1, x.rank))
    return with_extents(ctx, of_whole(ctx, lower), x.extents)


@rule("MeanVarianceNormalization")
def _mean_variance(ctx: Context, lower: Lowering) -> Results:
    x = ctx.input(0)
    need_along(ctx, x, ctx.axes(ctx.attr("axes", [0, 2, 3]), x.rank))
    return with_extents(ctx, of_whole(ctx, lower), x.extents)


@rule("LpNormalization")
def _lp_norm(ctx: Context, lower: Lowering) -> Results:
    x = ctx.input(0)
    axis = ctx.axis(ctx.attr("axis", -1), x.rank)
    return with_extents(ctx, of_whole(ctx, lower, {0: ctx.b.masked(x, [axis])}), x.extents)


@rule("CumSum", "CumProd")
def _cumulative(ctx: Context, lower: Lowering) -> Results:
    """What is not there lies behind all that is, in the other direction before it."""
    x, neutral = ctx.input(0), 0 if ctx.op == "CumSum" else 1
    axis = ctx.axis(int(ctx.scalar(1)), x.rank)
    given = ctx.b.masked(x, [axis], neutral) if ctx.attr("reverse", 0) else x
    return with_extents(ctx, of_whole(ctx, lower, {0: given}), x.extents)


@rule("ArgMax", "ArgMin")
def _places(ctx: Context, lower: Lowering) -> Results:
    """The place of the first extreme element: what is not there is no more extreme than any."""
    x = ctx.input(0)
    axis = ctx.axis(ctx.attr("axis", 0), x.rank)
    if x.extents[axis] is not None and ctx.attr("select_last_index", 0):
        raise SizeAtRunTime("the last of equal elements is looked for")
    number = extreme_start(x.dtype, ctx.op == "ArgMax")
    made = of_whole(ctx, lower, {0: ctx.b.masked(x, [axis], number)})
    return with_extents(ctx, made, _reduced(x, [axis], bool(ctx.attr("keepdims", 1))))


@rule("MaxPool", "AveragePool", "LpPool")
def _pool(ctx: Context, lower: Lowering) -> Results:
    x = ctx.input(0)
    kernel = ctx.attr("kernel_shape")
    if kernel is None or x.rank < 3:
        return lower(ctx)
    need_along(ctx, x, [1])
    cut = [axis for axis in range(2, x.rank) if x.extents[axis] is not None]
    extents = windows(ctx, x, kernel, x.extents[:2])
    if ctx.wants(1) and (cut or x.extents[0] is not None):
        raise SizeAtRunTime("places of maxima depend on the sizes")
    number = dtypes.limits(x.dtype)[0] if ctx.op == "MaxPool" else 0
    image = seen(ctx, x, kernel, number)
    if ctx.op == "AveragePool" and cut:
        means = averages(image.ctx, image.image, x.sizes[2:], image.before)
        return with_extents(ctx, [means], extents)
    made = of_whole(image.ctx, lower, {0: image.image})
    return with_extents(ctx, made, extents)
