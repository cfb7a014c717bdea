"""Pooling: MaxPool, AveragePool, LpPool, the global ones, MaxUnpool.

Tensors are [n, c, spatial...]. Padding is explicit, ``tensor.pad`` with the neutral element of the
reduction, so that every window is full.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import mul

import numpy as np

from rcompiler.frontend import dtypes
from rcompiler.frontend.body import Body
from rcompiler.frontend.builder import Builder, Value, dims
from rcompiler.frontend.core import accumulator
from rcompiler.frontend.ops.dequantised import sums_of
from rcompiler.frontend.ops.operand_shapes import window
from rcompiler.frontend.registry import Context, lowering
from rcompiler.frontend.scalar import Operand, Scalar
from rcompiler.support.extent import Extent, Size

_AT_THE_START: Mapping[int, Value] = {}


@dataclass(frozen=True)
class Windows:
    """Sliding windows over the spatial dimensions.

    low, high: the node's padding. sizes: windows per dimension. need: padding at the end which
    the last window reaches (more than ``high`` with ceil_mode; negative: elements to crop).
    """

    extent: list[int]
    kernel: list[int]
    strides: list[int]
    dilations: list[int]
    low: list[int]
    high: list[int]
    sizes: list[int]

    @property
    def need(self) -> list[int]:
        reach = [
            (n - 1) * s + (k - 1) * d + 1
            for n, s, k, d in zip(
                self.sizes, self.strides, self.kernel, self.dilations, strict=True
            )
        ]
        need = [r - x - p for r, x, p in zip(reach, self.extent, self.low, strict=True)]
        # Fewer left-over elements than a stride make no further window: nothing to crop.
        return [0 if -s < n < 0 else n for n, s in zip(need, self.strides, strict=True)]


def windows_of(ctx: Context, x: Value) -> Windows:
    """The node's windows: kernel_shape, strides, dilations, pads or auto_pad, ceil_mode."""
    if x.rank < 3:
        raise ctx.shape_error("pooling needs a batch, a channel and a spatial dimension")
    rank, extent, kernel = x.rank - 2, list(x.shape[2:]), ctx.attr("kernel_shape")
    if kernel is None:
        raise ctx.shape_error("the attribute kernel_shape is missing")
    if min(ctx.attr("pads") or [0]) < 0:
        raise ctx.shape_error("pads are not negative")
    strides, dilations, pads = window(ctx, extent, kernel)
    low, high = pads[:rank], pads[rank:]
    up, sizes = ctx.attr("ceil_mode", 0), []
    for i, size in enumerate(extent):
        room = size + low[i] + high[i] - (kernel[i] - 1) * dilations[i] - 1
        count = (-(-room // strides[i]) if up else room // strides[i]) + 1
        # A window that starts in the padding at the end is no window.
        if up and (count - 1) * strides[i] >= size + low[i]:
            count -= 1
        sizes.append(count)
    return Windows(extent, kernel, strides, dilations, low, high, sizes)


def _pooled(ctx: Context, x: Value, w: Windows, init: float, combine: str) -> Value:
    """Fold every window from ``init`` with ``combine`` ("max" or "sum")."""

    def body(s: Body, a: Scalar, acc: Scalar) -> Scalar:
        return s.maximum(acc, a) if combine == "max" else acc + a

    return ctx.b.window_reduce(x, w.kernel, w.strides, w.dilations, w.low, w.need, init, body)


@lowering("MaxPool")
def _max_pool(ctx: Context) -> list[Value | None]:
    x = ctx.input(0)
    ctx.need_numbers(x)
    w = windows_of(ctx, x)
    y = _pooled(ctx, x, w, dtypes.limits(x.dtype)[0], "max")
    return [y, _indices(ctx, x, y, w) if ctx.wants(1) else None]


def _indices(ctx: Context, x: Value, y: Value, w: Windows) -> Value:
    """Flat position in ``x`` of each window's first element that equals its maximum.

    A second reduction: the minimum over the window of (element is the maximum ? position : big).
    """
    b, rank = ctx.b, len(w.kernel)
    none = x.size  # larger than every position
    kind = "int64"
    padded = b.pad(x, [0, 0, *w.low], [0, 0, *w.need], dtypes.limits(x.dtype)[0])
    window = [
        f"d{2 + i} * {w.strides[i]} + d{2 + rank + i} * {w.dilations[i]}" for i in range(rank)
    ]
    taps = ", ".join(dims(rank, 2 + rank))

    def body(s: Body, a: Scalar, best: Scalar, _: Scalar, acc: Scalar) -> Scalar:
        inside, flat = s.const(True, "bool"), s.const(0, "index")
        positions = [s.index(0), s.index(1)] + [
            s.index(2 + i) * w.strides[i] + s.index(2 + rank + i) * w.dilations[i] - w.low[i]
            for i in range(rank)
        ]
        for i, (position, size) in enumerate(zip(positions, x.shape, strict=True)):
            flat = flat * size + position
            if i >= 2 and (w.low[i - 2] or w.need[i - 2] > 0):
                inside = inside & (position >= 0) & (position < size)
        same = a.eq(best)
        if dtypes.is_float(x.dtype):
            same = same | (s.is_nan(a) & s.is_nan(best))
        return s.minimum(acc, s.select(inside & same, s.cast(flat, kind), none))

    own = ", ".join(dims(x.rank))
    reads = [(padded, ", ".join(["d0", "d1", *window])), (y, own)]
    reads.append((b.empty(w.kernel, x.dtype), taps))
    found = b.fold(reads, y.shape, kind, none, "p" * x.rank + "r" * rank, body)
    return _column_major(ctx, found, x) if ctx.attr("storage_order", 0) and rank > 1 else found


def _column_major(ctx: Context, flat: Value, x: Value) -> Value:
    """Row-major positions in ``x`` as positions with the spatial dimensions reversed."""

    def body(s: Body, position: Scalar) -> Scalar:
        coordinates = []
        for size in reversed(x.shape[2:]):
            coordinates.append(s.rem(position, size))
            position = position / size
        for size, coordinate in zip(reversed(x.shape[2:]), coordinates, strict=True):
            position = position * size + coordinate
        return position

    return ctx.b.elementwise(body, flat)


@lowering("AveragePool")
def _average_pool(ctx: Context) -> Value:
    return averages(ctx, ctx.input(0), ctx.input(0).shape[2:])


def averages(
    ctx: Context, x: Value, sizes: Sequence[Size], before: Mapping[int, Value] = _AT_THE_START
) -> Value:
    """The means of the windows of an AveragePool.

    sizes: of the image in ``x``, which holds zeros around it. before: by axis where it begins,
    which is padding SAME of the node; 0 of other axes.
    """
    ctx.need_float()
    b, with_padding = ctx.b, bool(ctx.attr("count_include_pad", 0))
    w, kind = windows_of(ctx, x), accumulator(x.dtype)
    total = sums_of(ctx, x, lambda terms: _pooled(ctx, terms, w, 0, "sum"))
    count, told = np.ones((), np.int64), []
    for i, size in enumerate(sizes):
        here = np.ones(w.sizes[i], np.int64)
        if isinstance(size, Extent):
            if not with_padding or i not in before:
                told.append((_taps_there(b, w, i, size, with_padding, before.get(i)), f"d{i}"))
            else:
                here = here * w.kernel[i]
        else:
            here = _taps_inside(w, i, with_padding)
        count = np.multiply.outer(count, here)
    divisor = b.constant(np.maximum(count, 1), kind)
    if told:
        read = (b.constant(np.maximum(count, 1)), ", ".join(dims(len(sizes))))

        def body(s: Body, *counts: Scalar) -> Scalar:
            return s.cast(reduce(mul, counts), kind)

        divisor = b.tabulate(w.sizes, kind, body, read, *told)
    return b.elementwise(lambda s, a, n: s.cast(a / n, x.dtype), total, divisor, dtype=x.dtype)


def _taps_there(
    b: Builder, w: Windows, i: int, size: Extent, with_padding: bool, before: Value | None
) -> Value:
    """As `_taps_inside`, of a size that a run tells: [windows], int64, at least 1. before: where
    the image begins.
    """
    kernel, dilation = w.kernel[i], w.dilations[i]
    low, high = _counted(w, i, with_padding)

    def body(s: Body, size: Scalar, *moved: Scalar) -> Scalar:
        start = s.index(0) * w.strides[i] - w.low[i]
        if moved:
            start = start - s.cast(moved[0], "index")

        def taps_before(end: Operand) -> Scalar:
            """How many taps lie before a position."""
            room = s.maximum(end - start, 0)
            return s.minimum((room + (dilation - 1)) / dilation, kernel)

        there = taps_before(s.cast(size, "index") + high) - taps_before(low)
        return s.cast(s.maximum(there, 1), "int64")

    reads = [(b.number(size), ""), *([] if before is None else [(before, "")])]
    return b.tabulate([w.sizes[i]], "int64", body, *reads)


def _counted(w: Windows, i: int, with_padding: bool) -> tuple[int, int]:
    """Where what counts for the average begins, and how far behind the image it ends."""
    return (-w.low[i], w.high[i]) if with_padding else (0, 0)


def _taps_inside(w: Windows, i: int, with_padding: bool) -> np.ndarray:
    """How many taps of each window along dimension ``i`` count for the average."""
    taps = np.arange(w.kernel[i]) * w.dilations[i]
    at = np.arange(w.sizes[i])[:, None] * w.strides[i] + taps - w.low[i]
    low, high = _counted(w, i, with_padding)
    return ((at >= low) & (at < w.extent[i] + high)).sum(1)


@lowering("LpPool")
def _lp_pool(ctx: Context) -> Value:
    """``(sum |x| ** p) ** (1 / p)`` over every window."""
    ctx.need_float()
    x = ctx.input(0)
    w, kind = windows_of(ctx, x), accumulator(x.dtype)
    powers = _power(ctx, x, kind)
    return _root(ctx, _pooled(ctx, powers, w, 0, "sum"), x.dtype)


def _power(ctx: Context, x: Value, kind: str) -> Value:
    p = ctx.attr("p", 2)

    def body(s: Body, a: Scalar) -> Scalar:
        a = s.cast(a, kind)
        if p == 2:
            return a * a
        return s.abs(a) if p == 1 else s.pow(s.abs(a), p)

    return ctx.b.elementwise(body, x, dtype=kind)


def _root(ctx: Context, total: Value, dtype: str) -> Value:
    p = ctx.attr("p", 2)

    def body(s: Body, a: Scalar) -> Scalar:
        if p != 1:
            a = s.sqrt(a) if p == 2 else s.pow(a, 1.0 / p)
        return s.cast(a, dtype)

    return ctx.b.elementwise(body, total, dtype=dtype)


@lowering("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def _global(ctx: Context) -> Value:
    """One window per channel; the spatial dimensions stay with size 1."""
    ctx.need_float()
    b, x = ctx.b, ctx.input(0)
    if x.rank < 2:
        raise ctx.shape_error("pooling needs a batch and a channel dimension")
    axes = range(2, x.rank)
    if ctx.op == "GlobalMaxPool":
        return b.reduce(x, axes, float("-inf"), lambda s, a, acc: s.maximum(acc, a), keepdims=True)

    def add_up(terms: Value) -> Value:
        return b.reduce(terms, axes, 0, lambda s, a, acc: acc + a, keepdims=True)

    if ctx.op == "GlobalLpPool":
        return _root(ctx, add_up(_power(ctx, x, accumulator(x.dtype))), x.dtype)
    total = sums_of(ctx, x, add_up)
    count = max(math.prod(x.shape[2:]), 1)
    return b.elementwise(lambda s, a: s.cast(a / count, x.dtype), total, dtype=x.dtype)


@lowering("MaxUnpool")
def _max_unpool(ctx: Context) -> Value:
    """Each element of the first input goes to its flat position; everything else is zero.

    Where the given output shape is larger than the one that kernel, strides and pads imply, the
    positions are those of the output, as a MaxPool of that size has counted them, and as PyTorch
    and onnxruntime read them. ONNX's reference and its backend test read them in the implied
    shape, and add zeros at the end of the dimensions. That is followed for positions that a call
    brings, of which the model does not say where they were counted.
    """
    b, x, at = ctx.b, ctx.input(0), ctx.input(1)
    rank = x.rank - 2
    kernel = ctx.attr("kernel_shape")
    strides, pads = ctx.attr("strides") or [1] * rank, ctx.attr("pads") or [0] * (2 * rank)
    if kernel is None or not rank == len(kernel) == len(strides) == len(pads) // 2 >= 1:
        raise ctx.shape_error("kernel_shape, strides or pads do not fit the input")
    if at.shape != x.shape or at.dtype != "int64":
        raise ctx.shape_error("the indices are int64 in the shape of the first input")
    implied = [*x.shape[:2]] + [
        (x.shape[2 + i] - 1) * strides[i] - pads[i] - pads[rank + i] + kernel[i]
        for i in range(rank)
    ]
    wanted = [int(d) for d in ctx.const(2)] if ctx.has(2) else implied
    if len(wanted) != x.rank or any(a < d for a, d in zip(wanted, implied, strict=True)):
        raise ctx.shape_error(f"the output shape {wanted} is smaller than {implied}")
    counted = wanted if b.argument_of(at) is None else implied
    out = scatter_flat(ctx, b.splat([math.prod(counted)], x.dtype, 0), at, x)
    extra = [a - d for a, d in zip(wanted, counted, strict=True)]
    return b.pad(b.reshape(out, counted), [0] * x.rank, extra)


def scatter_flat(ctx: Context, into: Value, at: Value, updates: Value) -> Value:
    """``into`` [m] with ``into[at[i]] = updates[i]`` in order; positions outside are dropped."""
    b, size = ctx.b, into.size
    if not size or not updates.size:
        return into
    flat_at, flat = b.reshape(at, [at.size]), b.reshape(updates, [updates.size])

    def body(s: Body, i: Scalar, out: Value) -> Sequence[Value]:
        position = s.cast(s.extract(flat_at, [i]), "index")
        inside = (position >= 0) & (position < size)
        safe = s.select(inside, position, 0)
        return [
            s.insert(s.select(inside, s.extract(flat, [i]), s.extract(out, [safe])), out, [safe])
        ]

    return b.loop(updates.size, [into], body)[0]
