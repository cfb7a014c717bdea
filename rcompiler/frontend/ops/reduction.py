"""Reductions over axes, the softmax family, prefix sums."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from rcompiler.frontend import dtypes
from rcompiler.frontend.body import Body
from rcompiler.frontend.builder import Builder, Value, dims
from rcompiler.frontend.core import accumulator
from rcompiler.frontend.ops.dequantised import sums_of
from rcompiler.frontend.ops.unary import Unary, of_floats
from rcompiler.frontend.prefix import prefix
from rcompiler.frontend.registry import Context, lowering
from rcompiler.frontend.scalar import Number, Scalar

Combine = Callable[[Body, Scalar, Scalar], Scalar]


def reduced_axes(ctx: Context, x: Value) -> list[int]:
    """The axes of a Reduce op; [] when it is to return its input."""
    axes = ctx.ints(1, "axes", None)
    if not axes:
        return [] if ctx.attr("noop_with_empty_axes", 0) else list(range(x.rank))
    return sorted(set(ctx.axes(axes, x.rank)))


def keeps_dims(ctx: Context) -> bool:
    """Whether reduced axes stay, of size 1: where `keepdims` is 1, its default, and no other number
    (ONNX's shape inference, and onnxruntime)."""
    return bool(ctx.attr("keepdims", 1) == 1)


def total(b: Builder, x: Value, axes: Sequence[int], keepdims: bool = False) -> Value:
    """Sum over axes in the type of ``x``."""
    return b.sum(x, axes, keepdims)


def extreme_start(dtype: str, largest: bool) -> Number:
    """The neutral element of max (or min)."""
    low, high = dtypes.limits(dtype)
    return low if largest else high


def extreme_over(
    b: Builder, x: Value, axes: Sequence[int], largest: bool, keepdims: bool = False
) -> Value:
    """The largest (smallest) element along axes; a NaN wins, as in numpy."""

    def combine(s: Body, a: Scalar, acc: Scalar) -> Scalar:
        return s.maximum(acc, a) if largest else s.minimum(acc, a)

    return b.reduce(x, axes, extreme_start(x.dtype, largest), combine, keepdims)


def maximum_over(b: Builder, x: Value, axes: Sequence[int], keepdims: bool = False) -> Value:
    """The largest element along axes; a NaN wins."""
    return extreme_over(b, x, axes, True, keepdims)


def kept_dims(axes: Sequence[int], rank: int) -> str:
    """Map that reads a reduced tensor (without its axes) over the full iteration space."""
    return ", ".join(f"d{i}" for i in range(rank) if i not in axes)


def joined(b: Builder, x: Value, axes: Sequence[int]) -> tuple[Value, list[int]]:
    """The same with neighbouring dims that are all reduced, or all kept, as one, and its axes.

    Vectors run along a row, and short rows are many: where several values go over each row, every
    one of them would be written for each row of a tile by itself.
    """
    shape: list[int] = []
    kinds: list[bool] = []
    for d, size in enumerate(x.shape):
        if size != 1 and kinds and kinds[-1] == (d in axes):
            shape[-1] *= size
        elif size != 1:
            shape.append(size)
            kinds.append(d in axes)
    if True not in kinds:  # rows of one element
        shape.append(1)
        kinds.append(True)
    return b.reshape(x, shape), [d for d, reduced in enumerate(kinds) if reduced]


def with_reduced(
    b: Builder, x: Value, others: Sequence[Value], axes: Sequence[int], fn: Callable[..., Scalar]
) -> Value:
    """``fn(s, x, *others)`` where the others lack ``axes``."""
    reads = [(other, kept_dims(axes, x.rank)) for other in others]
    return b.tabulate(x.shape, x.dtype, fn, (x, ", ".join(dims(x.rank))), *reads)


@lowering(
    "ReduceSum",
    "ReduceMean",
    "ReduceProd",
    "ReduceSumSquare",
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
)
def _reduce(ctx: Context) -> Value:
    b, x = ctx.b, ctx.input(0)
    axes, keep = reduced_axes(ctx, x), keeps_dims(ctx)
    terms: dict[str, Unary] = {
        "ReduceSumSquare": lambda s, a: a * a,
        "ReduceL2": lambda s, a: a * a,
        "ReduceL1": lambda s, a: s.abs(a),
    }
    term = terms.get(ctx.op)
    if not axes and x.rank and ctx.op in ("ReduceSum", "ReduceMean", "ReduceProd"):
        return x
    count = math.prod(x.shape[a] for a in axes)
    of_sums: dict[str, Unary] = {
        "ReduceMean": lambda s, a: a / (count if dtypes.is_float(x.dtype) else max(count, 1)),
        "ReduceLogSum": of_floats(lambda s, a: s.log(a)),
        "ReduceL2": of_floats(lambda s, a: s.sqrt(a)),
    }
    if ctx.op == "ReduceProd" and axes:
        return b.reduce(x, axes, 1, lambda s, a, acc: acc * a, keep)
    of_sum = of_sums.get(ctx.op)
    if axes and x.dtype == "float32" and ctx.op in ("ReduceMean", "ReduceSum"):
        sums = sums_of(ctx, x, lambda terms: b.sum(terms, axes, keep))
        return sums if of_sum is None else b.elementwise(of_sum, sums)
    if axes:
        return b.sum(x, axes, keep, term, of_sum)
    if term is None and of_sum is None:
        return x
    wide = accumulator(x.dtype)

    def applied(s: Body, a: Scalar) -> Scalar:  # nothing is summed, but the functions are applied
        a = s.cast(a, wide)
        a = a if term is None else term(s, a)
        return s.cast(a if of_sum is None else of_sum(s, a), x.dtype)

    return b.elementwise(applied, x)


@lowering("ReduceMax", "ReduceMin")
def _reduce_extreme(ctx: Context) -> Value:
    b, x = ctx.b, ctx.input(0)
    axes, largest = reduced_axes(ctx, x), ctx.op == "ReduceMax"
    if not axes:
        return x
    keep = keeps_dims(ctx)
    if x.dtype == "bool":
        fold: Combine = (lambda s, a, acc: acc | a) if largest else (lambda s, a, acc: acc & a)
        return b.reduce(x, axes, not largest, fold, keep)
    return extreme_over(b, x, axes, largest, keep)


@lowering("ReduceLogSumExp")
def _log_sum_exp(ctx: Context) -> Value:
    """``m + log(sum(exp(x - m)))`` with the maximum m; m is 0 where it is not finite."""
    b, x = ctx.b, ctx.input(0)
    ctx.need_float()
    axes, keep = reduced_axes(ctx, x), keeps_dims(ctx)
    if not axes:
        return x
    shape = kept_shape(x, axes) if keep else [d for i, d in enumerate(x.shape) if i not in axes]
    x, axes = joined(b, x, axes)
    top = b.elementwise(
        lambda s, m: s.select(s.abs(m).eq(float("inf")), 0.0, m), maximum_over(b, x, axes)
    )
    powers = with_reduced(b, x, [top], axes, lambda s, a, m: s.exp(a - m))
    out = b.elementwise(lambda s, t, m: s.log(t) + m, total(b, powers, axes), top)
    return b.reshape(out, shape)


def kept_shape(x: Value, axes: Sequence[int]) -> list[int]:
    return [1 if i in axes else d for i, d in enumerate(x.shape)]


def softmax(b: Builder, x: Value, axes: Sequence[int]) -> Value:
    """Max, exp of the difference, sum, quotient: the four ops the back end recognises.

    The quotient is a product with the inverse of the sum, which is the same for a whole row. A NaN
    is no maximum, but its power is one, and so are the sum and all quotients. In f32 the powers are
    those of two, which take a fifth fewer operations: d * log2(e) is rounded as the difference d
    is, by 2^-24 |d| of a power that is e^d of the largest one.
    """
    start = extreme_start(x.dtype, True)
    top = b.reduce(x, axes, start, lambda s, a, acc: s.maximum_number(acc, a))
    if x.dtype == "float32":
        powers = with_reduced(
            b, x, [top], axes, lambda s, a, m: s.exp2((a - m) * math.log2(math.e))
        )
    else:
        powers = with_reduced(b, x, [top], axes, lambda s, a, m: s.exp(a - m))
    return with_reduced(b, powers, [total(b, powers, axes)], axes, lambda s, a, t: a * (1.0 / t))


def log_softmax(b: Builder, x: Value, axes: Sequence[int]) -> Value:
    """``x - max - log(sum(exp(x - max)))``."""
    top = maximum_over(b, x, axes)
    shifted = with_reduced(b, x, [top], axes, lambda s, a, m: a - m)
    powers = b.elementwise(lambda s, a: s.exp(a), shifted)
    return with_reduced(b, shifted, [total(b, powers, axes)], axes, lambda s, a, t: a - s.log(t))


@lowering("Softmax", "LogSoftmax", "Hardmax")
def _softmax(ctx: Context) -> Value:
    """Along one axis; before opset 13 over everything from ``axis`` on."""
    b, x = ctx.b, ctx.input(0)
    ctx.need_float()
    axis = ctx.axis(ctx.attr("axis", -1 if ctx.opset >= 13 else 1), x.rank) if x.rank else 0
    axes = [axis] if ctx.opset >= 13 else list(range(axis, x.rank))
    if x.size == 0:
        return b.empty(x.shape, x.dtype)
    if ctx.op == "Hardmax":
        return _hardmax(b, x, axes)
    return softmax(b, x, axes) if ctx.op == "Softmax" else log_softmax(b, x, axes)


def _hardmax(b: Builder, x: Value, axes: Sequence[int]) -> Value:
    """1 at the first maximum along the axes, which a NaN is, as in numpy."""
    flat = b.reshape(
        x, [*x.shape[: axes[0]], math.prod(x.shape[a] for a in axes), *x.shape[axes[-1] + 1 :]]
    )
    axis = axes[0]
    top = maximum_over(b, flat, [axis])
    keep = [i for i in range(flat.rank) if i != axis]
    first = b.fill(top.shape, "int64", np.iinfo(np.int64).max)

    def body(s: Body, a: Scalar, m: Scalar, at: Scalar) -> Scalar:
        here = s.cast(s.index(axis), "int64")
        return s.select(a.eq(m) | s.is_nan(a), s.minimum(at, here), at)

    own, write = ", ".join(dims(flat.rank)), ", ".join(f"d{i}" for i in keep)
    kinds = "".join("r" if i == axis else "p" for i in range(flat.rank))
    first = b.generic([(flat, own), (top, write)], [(first, write)], kinds, body)[0]
    out = b.tabulate(
        flat.shape,
        x.dtype,
        lambda s, at: s.cast(at.eq(s.cast(s.index(axis), "int64")), x.dtype),
        (first, write),
    )
    return b.reshape(out, x.shape)


@lowering("CumSum", "CumProd")
def _cumulative(ctx: Context) -> Value:
    """Prefix sums or products along an axis; ``exclusive`` leaves the element itself out."""
    b, x = ctx.b, ctx.input(0)
    ctx.need_numbers(x)
    axis = ctx.axis(int(ctx.scalar(1)), x.rank)
    if not x.size or not x.rank:
        return x
    rows, columns = math.prod(x.shape[:axis]), math.prod(x.shape[axis + 1 :])
    fold: Callable[[Scalar, Scalar], Scalar]
    fold = (lambda a, c: a + c) if ctx.op == "CumSum" else (lambda a, c: a * c)
    neutral = 0 if ctx.op == "CumSum" else 1
    flat = b.reshape(x, [rows, x.shape[axis], columns])
    exclusive, reverse = bool(ctx.attr("exclusive", 0)), bool(ctx.attr("reverse", 0))
    return b.reshape(prefix(b, flat, fold, neutral, exclusive, reverse), x.shape)
