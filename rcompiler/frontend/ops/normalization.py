"""Normalizations: batch, layer, instance, group, RMS, Lp, LRN, mean-variance."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from rcompiler.frontend import dtypes
from rcompiler.frontend.body import Body
from rcompiler.frontend.builder import Builder, Value, broadcast_shapes
from rcompiler.frontend.core import accumulator
from rcompiler.frontend.registry import Context, lowering
from rcompiler.frontend.scalar import Scalar

from .reduction import total, with_reduced


def column(b: Builder, vector: Value, rank: int, axis: int = 1) -> Value:
    """A vector shaped so that it broadcasts along ``axis`` of a tensor of ``rank``."""
    return b.reshape(vector, [vector.size, *[1] * (rank - 1 - axis)])


@lowering("BatchNormalization")
def _batch_norm(ctx: Context) -> list[Value | None]:
    """Inference: one multiply-add per element; folded into a preceding Conv or Gemm."""
    x = ctx.input(0)
    ctx.need_float()
    if ctx.attr("training_mode", 0):
        return _batch_norm_training(ctx)
    scale, shift, mean, variance = (ctx.input(i) for i in range(1, 5))
    if ctx.opset < 9 and not ctx.attr("spatial", 1):
        return _batch_norm_by_place(ctx)
    if x.rank < 2 or any(v.size != x.shape[1] for v in (scale, shift, mean, variance)):
        raise ctx.shape_error("scale, bias, mean and variance hold one number per channel")
    epsilon, b = ctx.attr("epsilon", 1e-5), ctx.b
    if all(v.const is not None for v in (scale, shift, mean, variance)):
        gamma, beta, mu, sigma = (
            v.array.astype(np.float64).reshape(-1) for v in (scale, shift, mean, variance)
        )
        factor = gamma / np.sqrt(sigma + epsilon)
        offset = beta - mu * factor
        if x.refold is not None and ctx.uses[0] == 1:
            return [x.refold(factor, offset)]
        vectors = [column(b, b.constant(v, x.dtype), x.rank) for v in (factor, offset)]
        return [b.elementwise(lambda s, a, f, o: a * f + o, x, *vectors)]
    return _normalised(ctx, [column(b, v, x.rank) for v in (scale, shift, mean, variance)])


def _batch_norm_by_place(ctx: Context) -> list[Value | None]:
    """With numbers for each element of a sample, as ``spatial=0`` says before opset 9."""
    x, statistics = ctx.input(0), [ctx.input(i) for i in range(1, 5)]
    if x.rank < 2 or any(v.shape != x.shape[1:] for v in statistics):
        raise ctx.shape_error("scale, bias, mean and variance hold one number per element")
    return _normalised(ctx, statistics)


def _normalised(ctx: Context, statistics: list[Value]) -> list[Value | None]:
    """Input 0 by scale, shift, mean and variance, which broadcast to it."""
    epsilon = ctx.attr("epsilon", 1e-5)

    def body(s: Body, a: Scalar, g: Scalar, o: Scalar, m: Scalar, v: Scalar) -> Scalar:
        g, o, m, v = (s.cast(t, a.dtype) for t in (g, o, m, v))
        return (a - m) / s.sqrt(v + epsilon) * g + o

    return [ctx.b.elementwise(body, ctx.input(0), *statistics)]


def _batch_norm_training(ctx: Context) -> list[Value | None]:
    """Statistics of this batch, and the running statistics updated with ``momentum``."""
    b, x, epsilon = ctx.b, ctx.input(0), ctx.attr("epsilon", 1e-5)
    momentum = ctx.attr("momentum", 0.9)
    axes = [i for i in range(x.rank) if i != 1]
    wide = widened(b, x)
    mean, variance = moments(b, wide, axes)
    scale, shift = (column(b, ctx.input(i), x.rank) for i in (1, 2))
    columns = [column(b, v, x.rank) for v in (mean, variance)]

    def body(s: Body, a: Scalar, g: Scalar, o: Scalar, m: Scalar, v: Scalar) -> Scalar:
        return s.cast((a - m) / s.sqrt(v + epsilon), x.dtype) * g + o

    y = b.elementwise(body, wide, scale, shift, *columns, dtype=x.dtype)

    def update(s: Body, old: Scalar, new: Scalar) -> Scalar:
        return old * momentum + s.cast(new, old.dtype) * (1 - momentum)

    return [
        y,
        b.elementwise(update, ctx.input(3), mean),
        b.elementwise(update, ctx.input(4), variance),
    ]


def widened(b: Builder, x: Value) -> Value:
    """In a type that holds the squares of its elements and their sum: of f16 in f32."""
    return b.cast(x, accumulator(x.dtype))


def moments(b: Builder, x: Value, axes: Sequence[int]) -> tuple[Value, Value]:
    """Mean and variance over axes (which are dropped): two passes, as numpy computes them."""
    count = max(math.prod(x.shape[a] for a in axes), 1)
    mean = b.elementwise(lambda s, a: a / count, total(b, x, axes))
    squares = with_reduced(b, x, [mean], axes, lambda s, a, m: (a - m) * (a - m))
    return mean, b.elementwise(lambda s, a: a / count, total(b, squares, axes))


def standardize(b: Builder, x: Value, axes: Sequence[int], epsilon: float) -> Value:
    """``(x - mean) / sqrt(variance + epsilon)`` over axes."""
    mean, variance = moments(b, x, axes)
    return with_reduced(
        b, x, [mean, variance], axes, lambda s, a, m, v: (a - m) / s.sqrt(v + epsilon)
    )


@lowering("LayerNormalization")
def _layer_norm(ctx: Context) -> list[Value | None]:
    """Statistics in ``stash_type``; results mean and 1/deviation keep their axes."""
    b, x, scale, shift = ctx.b, ctx.input(0), ctx.input(1), ctx.optional(2)
    ctx.need_float()
    wide, axes, epsilon = _stashed(ctx, x, [scale, shift])
    mean, variance = moments(b, wide, axes)
    inverse = b.elementwise(lambda s, v: 1.0 / s.sqrt(v + epsilon), variance)
    normal = b.cast(
        with_reduced(b, wide, [mean, inverse], axes, lambda s, a, m, i: (a - m) * i), x.dtype
    )
    y = b.elementwise(lambda s, a, g: a * g, normal, scale)
    if shift is not None:
        y = b.elementwise(lambda s, a, o: a + o, y, shift)
    kept = [1 if i in axes else d for i, d in enumerate(x.shape)]
    results: list[Value | None] = [y, b.reshape(mean, kept), b.reshape(inverse, kept)]
    return results[: max(len(ctx.outputs), 1)]


def _stashed(
    ctx: Context, x: Value, scales: Sequence[Value | None]
) -> tuple[Value, list[int], float]:
    """``x`` in stash_type, the axes that it is normalised over, and epsilon."""
    axes = list(range(ctx.axis(ctx.attr("axis", -1), x.rank), x.rank))
    stash = dtypes.from_onnx(ctx.attr("stash_type", 1))
    if not dtypes.is_float(stash):
        raise ctx.refuse(f"stash_type {stash} is not translated", "Use float32")
    for value in scales:
        if value is not None and broadcast_shapes(value.shape, x.shape) != x.shape:
            raise ctx.shape_error("scale or bias do not broadcast to the input")
    return ctx.b.cast(x, stash), axes, ctx.attr("epsilon", 1e-5)


@lowering("RMSNormalization")
def _rms_norm(ctx: Context) -> Value:
    b, x, scale = ctx.b, ctx.input(0), ctx.input(1)
    ctx.need_float()
    ctx.need_float(1)
    wide, axes, epsilon = _stashed(ctx, x, [scale])
    squares = b.sum(wide, axes, term=lambda s, a: a * a)
    count = max(math.prod(x.shape[a] for a in axes), 1)
    inverse = b.elementwise(lambda s, q: 1.0 / s.sqrt(q / count + epsilon), squares)
    normal = with_reduced(b, wide, [inverse], axes, lambda s, a, i: a * i)
    # rounded to the type of x, as ONNX's definition says; the result has that of the scale
    normal = b.cast(b.cast(normal, x.dtype), scale.dtype)
    return b.elementwise(lambda s, a, g: a * g, normal, scale)


@lowering("InstanceNormalization")
def _instance_norm(ctx: Context) -> Value:
    b, x = ctx.b, ctx.input(0)
    ctx.need_float()
    if x.rank < 3 or any(ctx.input(i).size != x.shape[1] for i in (1, 2)):
        raise ctx.shape_error("scale and bias hold one number per channel")
    axes = list(range(2, x.rank))
    normal = b.cast(standardize(b, widened(b, x), axes, ctx.attr("epsilon", 1e-5)), x.dtype)
    return scaled_and_shifted(ctx, normal)


def scaled_and_shifted(ctx: Context, normal: Value) -> Value:
    """Times input 1, plus input 2, of which there is one per channel."""
    vectors = [column(ctx.b, ctx.input(i), normal.rank) for i in (1, 2)]
    return ctx.b.elementwise(lambda s, a, g, o: a * g + o, normal, *vectors)


@lowering("GroupNormalization")
def _group_norm(ctx: Context) -> Value:
    """Scale and bias per channel (opset 21) or per group (opset 18)."""
    b, x, groups = ctx.b, ctx.input(0), ctx.attr("num_groups", 1)
    ctx.need_float()
    if x.rank < 2 or groups < 1 or x.shape[1] % groups:
        raise ctx.shape_error(f"the channels do not divide into {groups} groups")
    kind = ctx.attr("stash_type", 1) if ctx.opset >= 21 else None
    stash = accumulator(x.dtype) if kind is None else dtypes.from_onnx(kind)
    apart = b.reshape(x, [x.shape[0], groups, x.shape[1] // groups, *x.shape[2:]])
    wide = b.cast(apart, stash)
    axes = list(range(2, wide.rank))
    normal = b.cast(standardize(b, wide, axes, ctx.attr("epsilon", 1e-5)), x.dtype)
    if ctx.input(1).size == x.shape[1]:
        normal = b.reshape(normal, x.shape)
    return b.reshape(scaled_and_shifted(ctx, normal), x.shape)


@lowering("MeanVarianceNormalization")
def _mean_variance(ctx: Context) -> Value:
    """``(x - mean) / (sqrt(E[x^2] - mean^2) + 1e-9)``, the standard's formula."""
    b, x = ctx.b, ctx.input(0)
    ctx.need_float()
    axes = ctx.axes(ctx.attr("axes", [0, 2, 3]), x.rank)
    wide = widened(b, x)
    mean, variance = moments(b, wide, axes)
    normal = with_reduced(
        b, wide, [mean, variance], axes, lambda s, a, m, v: (a - m) / (s.sqrt(v) + 1e-9)
    )
    return b.cast(normal, x.dtype)


@lowering("LpNormalization")
def _lp_norm(ctx: Context) -> Value:
    """Zero vectors stay zero."""
    b, x, p = ctx.b, ctx.input(0), ctx.attr("p", 2)
    ctx.need_float()
    axis = ctx.axis(ctx.attr("axis", -1), x.rank)
    if p not in (1, 2):
        raise ctx.shape_error(f"p is {p}; 1 or 2 is expected")
    wide = widened(b, x)
    norm = b.sum(wide, [axis], term=lambda s, a: s.abs(a) if p == 1 else a * a)
    if p == 2:
        norm = b.elementwise(lambda s, a: s.sqrt(a), norm)
    normal = with_reduced(b, wide, [norm], [axis], lambda s, a, n: s.select(n.eq(0), 0.0, a / n))
    return b.cast(normal, x.dtype)


@lowering("LRN")
def _lrn(ctx: Context) -> Value:
    """``x / (bias + alpha / size * sum of squares over nearby channels) ** beta``."""
    b, x, size = ctx.b, ctx.input(0), ctx.attr("size")
    ctx.need_float()
    if x.rank < 3 or size < 1:
        raise ctx.shape_error("LRN needs channels and a positive size")
    alpha, beta, bias = ctx.attr("alpha", 1e-4), ctx.attr("beta", 0.75), ctx.attr("bias", 1.0)
    squares = b.elementwise(lambda s, a: a * a, x)
    flat = b.reshape(squares, [x.shape[0], x.shape[1], math.prod(x.shape[2:])])
    low = (size - 1) // 2
    sums = b.window_reduce(
        flat, [size, 1], [1, 1], [1, 1], [low, 0], [size - 1 - low, 0], 0, lambda s, a, acc: acc + a
    )
    return b.elementwise(
        lambda s, a, q: a / s.pow(q * (alpha / size) + bias, beta), x, b.reshape(sums, x.shape)
    )
