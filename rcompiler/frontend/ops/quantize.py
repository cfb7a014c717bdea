"""Quantised tensors: QuantizeLinear, DequantizeLinear, QLinearMatMul, QLinearConv."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rcompiler.frontend import dtypes
from rcompiler.frontend.body import Body
from rcompiler.frontend.builder import Quantised, Value, broadcast_shapes, dims
from rcompiler.frontend.ops.integer_products import (
    axis_vector,
    integer_conv,
    integer_matmul,
    is_zero,
    need_bytes,
)
from rcompiler.frontend.registry import Context, lowering
from rcompiler.frontend.scalar import Scalar

FLOAT8 = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float4_e2m1fn")


def _fit(zero: Value, scale: Value) -> bool:
    """True when a zero point has its scale's shape; single numbers also as [1]."""
    single = zero.size == scale.size == 1 and max(zero.rank, scale.rank) <= 1
    return single or zero.shape == scale.shape


def need_scales(ctx: Context, *scales: Value) -> None:
    """InvalidModel for constant scales that are 0, negative, infinite or no numbers."""
    for scale in scales:
        if scale.const is None or not scale.size:
            continue
        numbers = np.asarray(scale.array, np.float64).reshape(-1)
        wrong = numbers[~((numbers > 0) & np.isfinite(numbers))]
        if wrong.size:
            raise ctx.invalid(
                f"a scale is {wrong[0]:g}; scales are positive and finite",
                "Quantise the model again; a tensor of zeros has any positive scale, such as 1",
            )


def _parameter(ctx: Context, value: Value, x: Value) -> tuple[Value, str]:
    """Operand that reads a scale or zero point per tensor, per axis, or per block of ``x``."""
    own = dims(x.rank)
    if value.size == 1 and value.rank <= 1:
        return ctx.b.reshape(value, []), ""
    axis, block = ctx.axis(ctx.attr("axis", 1), x.rank), ctx.attr("block_size", 0)
    if not block:
        if value.shape != (x.shape[axis],):
            raise ctx.shape_error(f"one scale per element of axis {axis} is expected")
        return value, own[axis]
    wanted = list(x.shape)
    wanted[axis] = -(-wanted[axis] // block)
    if block < 1 or list(value.shape) != wanted:
        raise ctx.shape_error(f"blocks of {block} need scales and zero points of shape {wanted}")
    own[axis] += f" floordiv {block}"
    return value, ", ".join(own)


def round_to(s: Body, x: Scalar, zero: Scalar | None, dtype: str) -> Scalar:
    """f32 or f64 rounded to nearest even, plus an int32 zero point, saturated to an integer type.

    NaN becomes the smallest value.
    """
    x = s.roundeven(x)
    if zero is not None:
        x = x + s.cast(zero, x.dtype)
    x = s.bounded(x, *dtypes.limits(dtype))
    return s.cast(s.convert("arith.fptosi", x, "int32"), dtype)


@dataclass(frozen=True)
class _Known:
    """How to quantise by known numbers. `low`, `high`: the f32 that become the smallest and the
    largest integer; what lies beyond becomes the same.
    """

    scale: float
    zero: int
    low: float
    high: float

    @staticmethod
    def of(scale: Value, zero: Value | None, dtype: str) -> _Known | None:
        """None where one is not known, or the scale is not one number of usual size."""
        known = scale.const is not None and (zero is None or zero.const is not None)
        if not known or scale.size != 1 or zero is not None and zero.size != 1:
            return None
        step = np.float32(scale.array.reshape(-1)[0])
        if not 2.0**-60 <= step <= 2.0**40:
            return None
        shift = 0 if zero is None else int(zero.array.reshape(-1)[0])
        targets = [limit - shift for limit in dtypes.limits(dtype)]
        low, high = (np.float32(target * float(step)) for target in targets)
        if [int(np.rint(x / step)) for x in (low, high)] != targets:
            return None
        return _Known(float(step), shift, float(low), float(high))

    def quantised(self, s: Body, x: Scalar, dtype: str) -> Scalar:
        """As `round_to` the quotient, of which there is an end to what is divided."""
        x = s.roundeven(s.bounded(s.cast(x, "float32"), self.low, self.high) / self.scale)
        number = s.convert("arith.fptosi", x, "int32")
        return s.cast(number + self.zero if self.zero else number, dtype)


def _before(x: Value, scale: Value, zero: Value | None, dtype: str) -> Value | None:
    """The integers that a tensor was dequantised from, where quantising it gives them again: by the
    same numbers, of which the product and the quotient are rounded by far less than a half.
    """
    made = x.quantised
    if made is None or made.axis is not None or made.value.dtype != dtype or x.dtype != "float32":
        return None
    if made.value.dtype not in ("int8", "uint8") or made.value.shape != x.shape:
        return None
    if _Known.of(scale, zero, dtype) is None:
        return None
    same = _Known.of(made.scale, made.zero, dtype) == _Known.of(scale, zero, dtype)
    return made.value if same else None


@lowering("QuantizeLinear")
def _quantize(ctx: Context) -> Value:
    """``saturate(round(x / scale) + zero)``; float8 targets are cast without rounding first."""
    b, x, scale, zero = ctx.b, ctx.input(0), ctx.input(1), ctx.optional(2)
    need_scales(ctx, scale)
    given = dtypes.from_onnx(ctx.attr("output_dtype", 0) or 2)
    dtype = given if zero is None else zero.dtype
    if zero is not None and not _fit(zero, scale) or ctx.attr("output_dtype", 0) and given != dtype:
        raise ctx.shape_error("the zero point has the scale's shape and the result's type")
    precision = scale.dtype
    if ctx.attr("precision", 0):
        precision = dtypes.from_onnx(ctx.attr("precision"))
    if not dtypes.is_float(precision) or dtype not in FLOAT8 and not dtypes.is_integer(dtype):
        raise ctx.refuse(
            f"quantising to {dtype} with precision {precision} is not translated",
            "Use float32 scales and 8-bit integers",
        )
    reads = [(x, ", ".join(dims(x.rank))), _parameter(ctx, scale, x)]
    if zero is not None and not is_zero(zero):
        reads.append(_parameter(ctx, zero, x))
    saturate = bool(ctx.attr("saturate", 1))
    if (same := _before(x, scale, zero, dtype)) is not None:
        return same
    small = dtype in ("int8", "uint8", "int16", "uint16") and precision == "float32"
    known = _Known.of(scale, zero, dtype) if small else None
    if known is not None:
        return b.tabulate(x.shape, dtype, lambda s, a: known.quantised(s, a, dtype), reads[0])

    def body(s: Body, a: Scalar, k: Scalar, *rest: Scalar) -> Scalar:
        ratio = s.cast(a, precision) / s.cast(k, precision)
        if precision in ("float16", "bfloat16"):
            ratio = s.cast(ratio, "float32")
        if dtype in FLOAT8:
            if rest:
                ratio = ratio + s.cast(rest[0], ratio.dtype)
            return s.cast(ratio, dtype, saturate)
        return round_to(s, ratio, s.cast(rest[0], "int32") if rest else None, dtype)

    return b.tabulate(x.shape, dtype, body, *reads)


@lowering("DequantizeLinear")
def _dequantize(ctx: Context) -> Value:
    """``(x - zero) * scale``, computed in f32 (f64 for f64 results)."""
    b, x, scale, zero = ctx.b, ctx.input(0), ctx.input(1), ctx.optional(2)
    need_scales(ctx, scale)
    number = ctx.attr("output_dtype", 0)
    dtype = dtypes.from_onnx(number) if number else scale.dtype
    if not dtypes.is_float(dtype):
        raise ctx.refuse(f"a result of {dtype} is not translated", "Use float32 scales")
    if zero is not None and (not _fit(zero, scale) or zero.dtype != x.dtype):
        raise ctx.shape_error("the zero point has the scale's shape and the input's type")
    if not (dtypes.is_integer(x.dtype) or x.dtype in FLOAT8):
        raise ctx.refuse(f"element type {x.dtype} is not translated", "Use int8 or uint8")
    wide = dtypes.wide(dtype)
    reads = [(x, ", ".join(dims(x.rank))), _parameter(ctx, scale, x)]
    if zero is not None and not is_zero(zero):
        reads.append(_parameter(ctx, zero, x))
    inner = wide if x.dtype in FLOAT8 else "int32"

    def body(s: Body, a: Scalar, k: Scalar, *rest: Scalar) -> Scalar:
        a = s.cast(a, inner)
        if rest:
            a = a - s.cast(rest[0], inner)
        return s.cast(s.cast(a, wide) * s.cast(k, wide), dtype)

    made = b.tabulate(x.shape, dtype, body, *reads)
    single = scale.size == 1 and scale.rank <= 1
    axis = None if single else ctx.axis(ctx.attr("axis", 1), x.rank)
    made.quantised = Quantised(x, scale, zero, axis, 0 if single else ctx.attr("block_size", 0))
    return made


# -- integer products ---------------------------------------------------------------------------
def _requantised(ctx: Context, total: Value, scales: Sequence[Value], zero: Value) -> Value:
    """``saturate(round(total * (a * w / y)) + zero)`` for scales (a, w, y), in f32."""
    b = ctx.b
    if all(v.const is not None for v in scales):
        one, two, three = (v.const.astype(np.float32) for v in scales if v.const is not None)
        factor = b.constant(np.asarray(one * two / three, np.float32))
    else:
        factor = b.elementwise(
            lambda s, a, w, y: s.cast(a, "float32") * s.cast(w, "float32") / s.cast(y, "float32"),
            *scales,
            dtype="float32",
        )
    if broadcast_shapes(total.shape, factor.shape, zero.shape) != total.shape:
        raise ctx.shape_error("a scale or zero point does not fit the result")
    return b.elementwise(
        lambda s, t, f, z: round_to(s, s.cast(t, "float32") * f, s.cast(z, "int32"), zero.dtype),
        total,
        factor,
        zero,
        dtype=zero.dtype,
    )


@lowering("QLinearMatMul")
def _qlinear_matmul(ctx: Context) -> Value:
    """Scales and zero points are per tensor, per row of the first, per column of the second."""
    a, scale_a, zero_a, w, scale_w, zero_w, scale_y, zero_y = (ctx.input(i) for i in range(8))
    need_bytes(ctx, zero_y)
    need_scales(ctx, scale_a, scale_w, scale_y)
    total = integer_matmul(ctx, a, w, zero_a, zero_w)
    rows = [axis_vector(ctx, v, a.rank, 2) for v in (scale_a, scale_y, zero_y)]
    columns = axis_vector(ctx, scale_w, w.rank, 1)
    assert columns is not None and all(r is not None for r in rows)
    first, last, zero = (r for r in rows if r is not None)
    return _requantised(ctx, total, [first, columns, last], zero)


@lowering("QLinearConv")
def _qlinear_conv(ctx: Context) -> Value:
    b, x, w, bias = ctx.b, ctx.input(0), ctx.input(3), ctx.optional(8)
    scale_x, scale_w, scale_y, zero_y = (ctx.input(i) for i in (1, 4, 6, 7))
    need_bytes(ctx, zero_y)
    need_scales(ctx, scale_x, scale_w, scale_y)
    if any(v.size != 1 for v in (scale_x, scale_y, zero_y)) or scale_w.size not in (1, w.shape[0]):
        raise ctx.shape_error("only the weight's scale may be per output channel")
    total = integer_conv(ctx, x, w, ctx.input(2), ctx.input(5))
    column = [-1, *[1] * (x.rank - 2)]
    if bias is not None:
        if bias.size != w.shape[0] or bias.dtype != "int32":
            raise ctx.shape_error("the bias is one int32 per output channel")
        total = b.elementwise(
            lambda s, a, c: a + c, total, b.reshape(bias, [bias.size, *column[1:]])
        )
    scales = [
        b.reshape(scale_x, []),
        b.reshape(scale_w, [scale_w.size, *column[1:]]),
        b.reshape(scale_y, []),
    ]
    return _requantised(ctx, total, scales, b.reshape(zero_y, []))
