"""Products of 8-bit integers, summed in int32: MatMulInteger, ConvInteger, and the QLinear forms.

With constant weights, a product reads uint8 with int8, which is what processors multiply:

    sum((a - z) (w - y)) = sum(u v) + c sum(u) - (z + o) sum(w - y)

u = a + o is uint8 (o = 128 for int8), v = w - y - c is int8. c is 0 for every column of weights
whose w - y fits int8. The sums of the weights are constants; those of u are one more reduction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rcompiler.frontend import dtypes
from rcompiler.frontend.body import Body
from rcompiler.frontend.builder import Value, broadcast_shapes
from rcompiler.frontend.ops.operand_shapes import check_matmul, window
from rcompiler.frontend.registry import Context, lowering
from rcompiler.frontend.scalar import Scalar


def need_bytes(ctx: Context, *values: Value | None) -> None:
    """UnsupportedOp unless all are int8 or uint8."""
    for value in values:
        if value is not None and value.dtype not in ("int8", "uint8"):
            raise ctx.refuse(f"element type {value.dtype} is not translated", "Use int8 or uint8")


def is_zero(value: Value | None) -> bool:
    """True for an absent tensor, and for a constant of zeros."""
    if value is None:
        return True
    if value.const is None:
        return False
    return not dtypes.to_storage(value.const, value.dtype).any()


def axis_vector(ctx: Context, value: Value | None, rank: int, from_end: int) -> Value | None:
    """A scalar, or a vector laid along a dimension so that it broadcasts; others as they are."""
    if value is None or value.rank > 1:
        return value
    if value.size == 1:
        return ctx.b.reshape(value, [])
    return ctx.b.reshape(value, [value.size] + [1] * (from_end - 1)) if rank >= from_end else value


# -- operands -----------------------------------------------------------------------------------
def _without_zero(w: Value, zero: Value | None) -> np.ndarray | None:
    """Constant weights minus their zero points, int32; None if they are not constant."""
    if w.const is None or not w.size or zero is not None and zero.const is None:
        return None
    full = w.const.astype(np.int32)
    return full if zero is None or zero.const is None else full - zero.const.astype(np.int32)


def _split(full: np.ndarray, depth: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray] | None:
    """(int8, int32 that is 0 where possible), the second one equal along the axes ``depth``, with
    the sum ``full``; None if there are no such."""
    low, high = full.min(depth, keepdims=True), full.max(depth, keepdims=True)
    if (high - low).max() > 255:
        return None
    shift = np.where((low < -128) | (high > 127), low + 128, 0).astype(np.int32)
    return (full - shift).astype(np.int8), shift


def _unsigned(ctx: Context, value: Value) -> tuple[Value, int]:
    """(uint8, offset): the value plus the offset."""
    if value.dtype == "uint8":
        return value, 0
    flipped = ctx.b.elementwise(lambda s, a: s.cast(a ^ -128, "uint8"), value, dtype="uint8")
    return flipped, 128


def _shifted(ctx: Context, value: Value, zero: Value | None) -> Value:
    """``value - zero`` as int16, or the value itself when the zero point is zero."""
    if zero is None or is_zero(zero):
        return value
    if value.const is not None and zero.const is not None:
        return ctx.b.constant(value.const.astype(np.int16) - zero.const.astype(np.int16))
    return ctx.b.elementwise(
        lambda s, a, z: s.cast(a, "int16") - s.cast(z, "int16"), value, zero, dtype="int16"
    )


# -- corrections --------------------------------------------------------------------------------
def _without_offset(
    ctx: Context, out: Value, zero: Value | None, offset: int, sums: np.ndarray
) -> Value:
    """``out - (zero + offset) * sums`` for constant sums of the weights."""
    b, sums = ctx.b, sums.astype(np.int32)
    if zero is None or zero.const is not None:
        number = offset if zero is None else zero.array.astype(np.int32) + offset
        total = number * sums
        if not total.any():
            return out
        return b.elementwise(lambda s, a, t: a - t, out, b.constant(total.astype(np.int32)))
    return b.elementwise(
        lambda s, a, w, z: a - w * (s.cast(z, "int32") + offset), out, b.constant(sums), zero
    )


def _with_shift(ctx: Context, out: Value, sums: Value, shift: np.ndarray) -> Value:
    """``out + shift * sums`` for sums of the activations."""
    return ctx.b.elementwise(lambda s, a, t, c: a + c * t, out, sums, ctx.b.constant(shift))


def _add(s: Body, element: Scalar, total: Scalar) -> Scalar:
    return total + s.cast(element, "int32")


# -- matrices -----------------------------------------------------------------------------------
def integer_matmul(
    ctx: Context, a: Value, w: Value, zero_a: Value | None, zero_w: Value | None
) -> Value:
    """``(a - zero_a) @ (w - zero_w)`` in int32."""
    need_bytes(ctx, a, w, zero_a, zero_w)
    check_matmul(ctx, a, w)
    zero_a, zero_w = axis_vector(ctx, zero_a, a.rank, 2), axis_vector(ctx, zero_w, w.rank, 1)
    for value, zero in ((a, zero_a), (w, zero_w)):
        if zero is not None and broadcast_shapes(value.shape, zero.shape) != value.shape:
            raise ctx.shape_error("a zero point does not fit its tensor")
    full = _without_zero(w, zero_w)
    by_rows = zero_a is None or zero_a.size == 1 or zero_a.shape[-1] == 1 and w.rank > 1
    if full is not None and by_rows and a.size:
        out = _times_constant(ctx, a, full, zero_a)
        if out is not None:
            return out
    return ctx.b.matmul(_shifted(ctx, a, zero_a), _shifted(ctx, w, zero_w), "int32")


def _times_constant(ctx: Context, a: Value, full: np.ndarray, zero: Value | None) -> Value | None:
    """``(a - zero) @ full`` for constant ``full`` [.., k, n] or [k]; None if it is too wide."""
    b, depth = ctx.b, max(full.ndim - 2, 0)
    split = _split(full, (depth,))
    if split is None:
        return None
    narrow, shift = split
    sums = full.astype(np.int64).sum(depth, keepdims=True)
    if a.rank == 1 or full.ndim == 1:  # the result has no dim in the place of the depth
        sums, shift = sums.squeeze(depth), shift.squeeze(depth)
    a, offset = _unsigned(ctx, a)
    out = b.matmul(a, b.constant(narrow), "int32")
    if shift.any():
        rows = b.reduce(a, [a.rank - 1], 0, _add, full.ndim > 1, "int32")
        out = _with_shift(ctx, out, rows, shift)
    return _without_offset(ctx, out, zero, offset, sums)


@lowering("MatMulInteger")
def _matmul_integer(ctx: Context) -> Value:
    return integer_matmul(ctx, ctx.input(0), ctx.input(1), ctx.optional(2), ctx.optional(3))


# -- convolutions -------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Windows:
    """The windows of a convolution node."""

    strides: list[int]
    dilations: list[int]
    pads: list[int]
    groups: int


def integer_conv(
    ctx: Context, x: Value, w: Value, zero_x: Value | None, zero_w: Value | None
) -> Value:
    """Convolution of ``x - zero_x`` with ``w - zero_w`` in int32; padding counts as zero."""
    b, groups = ctx.b, ctx.attr("group", 1)
    need_bytes(ctx, x, w, zero_x, zero_w)
    if (
        x.rank < 3
        or w.rank != x.rank
        or groups < 1
        or x.shape[1] != w.shape[1] * groups
        or w.shape[0] % groups
    ):
        raise ctx.shape_error(f"input and weight do not fit {groups} groups")
    windows = _Windows(*window(ctx, x.shape[2:], w.shape[2:]), groups)
    if zero_x is not None and zero_x.size != 1:
        raise ctx.shape_error("the input has one zero point")
    if zero_w is not None and zero_w.size not in (1, w.shape[0]):
        raise ctx.shape_error("the weight has one zero point, or one per output channel")
    if zero_w is not None:
        zero_w = b.reshape(zero_w, [zero_w.size, *[1] * (w.rank - 1)])
    if zero_x is not None:
        zero_x = b.reshape(zero_x, [])
    full = _without_zero(w, zero_w)
    if full is not None and x.size:
        return _convolved_with_constant(ctx, x, full, zero_x, windows)
    x, w = _shifted(ctx, x, zero_x), _shifted(ctx, w, zero_w)
    return b.conv(x, w, windows.strides, windows.dilations, windows.pads, groups, "int32")


def _convolved_with_constant(
    ctx: Context, x: Value, full: np.ndarray, zero: Value | None, windows: _Windows
) -> Value:
    """``integer_conv`` with constant weights [co, c / groups, kernel..] without zero point.

    The padding holds the zero point where that is known, and else 0, and then the weights are
    summed at every position without those that meet padding.
    """
    b, co = ctx.b, full.shape[0]
    split = _split(full, tuple(range(1, full.ndim)))
    assert split is not None  # there is one zero point for all weights of a channel
    narrow, shift = split
    offset = 0
    if full.shape[1] > 1:  # a sum over channels
        x, offset = _unsigned(ctx, x)
    if shift.any() and windows.groups > 1:
        narrow, shift = full.astype(np.int16), np.zeros_like(shift)
    known = zero is None or zero.const is not None
    number = offset
    if zero is not None and zero.const is not None:
        number += int(zero.const.reshape(-1)[0])
    strides, dilations, pads = windows.strides, windows.dilations, windows.pads
    half = len(pads) // 2
    if known:
        x = b.pad(x, [0, 0, *pads[:half]], [0, 0, *pads[half:]], number)
        sums = full.astype(np.int64).sum(tuple(range(1, full.ndim)), keepdims=True)[:, 0]
    else:
        sums = _sums_inside(full, x.shape[2:], windows)
        x = b.pad(x, [0, 0, *pads[:half]], [0, 0, *pads[half:]], 0)
    none = [0] * len(pads)
    out = b.conv(x, b.constant(narrow), strides, dilations, none, windows.groups, "int32")
    if shift.any():
        channels = b.reduce(x, [1], 0, _add, True, "int32")
        inside = b.window_reduce(
            channels, full.shape[2:], strides, dilations, none[:half], none[:half], 0, _add
        )
        out = _with_shift(ctx, out, inside, shift.reshape(co, *[1] * half))
    return _without_offset(ctx, out, zero, offset, sums)


def _sums_inside(full: np.ndarray, spatial: Sequence[int], windows: _Windows) -> np.ndarray:
    """Sums of the weights that meet the image, [co, positions..]."""
    pads, kernel = windows.pads, full.shape[2:]
    hits = []  # per spatial axis: whether a tap of a position is inside, [positions, taps]
    for i, size in enumerate(spatial):
        reach = (kernel[i] - 1) * windows.dilations[i] + 1
        count = (size + pads[i] + pads[len(spatial) + i] - reach) // windows.strides[i] + 1
        taps = np.arange(kernel[i]) * windows.dilations[i] - pads[i]
        at = np.arange(count)[:, None] * windows.strides[i] + taps
        hits.append((at >= 0) & (at < size))
    total = full.astype(np.int64).sum(1)
    for inside in hits:  # contracts the first tap axis, appends the positions
        total = np.tensordot(total, inside.astype(np.int64), ([1], [1]))
    return total


@lowering("ConvInteger")
def _conv_integer(ctx: Context) -> Value:
    return integer_conv(ctx, ctx.input(0), ctx.input(1), ctx.optional(2), ctx.optional(3))
