"""8-bit and 4-bit floats: decoding to f32 and encoding with round to nearest even.

The formats are those of the OCP 8-bit floating point specification, the fnuz variants of
Graphcore/AMD, and the OCP microscaling formats (e8m0, e2m1).
"""

from __future__ import annotations

from dataclasses import dataclass

from . import casts, dtypes
from .scalar import Arithmetic, Scalar


@dataclass(frozen=True)
class Format:
    """sign bit, then exponent, then mantissa; ``largest`` is the code of the largest number."""

    mantissa: int
    bias: int
    largest: int
    nan: int | None
    infinity: int | None
    sign: int  # position of the sign bit
    negative_zero: bool = True


FORMATS = {
    "float8_e4m3fn": Format(3, 7, 0x7E, 0x7F, None, 7),
    "float8_e4m3fnuz": Format(3, 8, 0x7F, 0x80, None, 7, False),
    "float8_e5m2": Format(2, 15, 0x7B, 0x7E, 0x7C, 7),
    "float8_e5m2fnuz": Format(2, 16, 0x7F, 0x80, None, 7, False),
    "float4_e2m1fn": Format(1, 1, 0x7, None, None, 3),  # no NaN: it becomes -0
}
POWER = "float8_e8m0fnu"


def cast(s: Arithmetic, a: Scalar, dtype: str, saturate: bool) -> Scalar:
    """Convert when one side is a small float; everything goes through f32."""
    if a.dtype == POWER:
        wide = from_power_of_two(s, a)
    elif a.dtype in FORMATS:
        wide = decode(s, a, FORMATS[a.dtype])
    else:
        wide = casts.cast(s, a, "float32")
    if dtype not in dtypes.SMALL_FLOATS:
        return casts.cast(s, wide, dtype)
    if dtype == POWER:
        return to_power_of_two(s, wide, saturate, "up")
    return s.as_type(casts.cast(s, encode(s, wide, FORMATS[dtype], saturate), "int8"), dtype)


def decode(s: Arithmetic, a: Scalar, form: Format) -> Scalar:
    """The f32 value of a code."""
    code = casts.cast(s, s.as_type(a, "uint8"), "int32")
    magnitude = code & ((1 << form.sign) - 1)
    shift = 23 - form.mantissa
    normal = s.bitcast(s.shift_left(magnitude, shift) + ((127 - form.bias) << 23), "float32")
    tiny = casts.cast(s, magnitude, "float32") * 2.0 ** (1 - form.bias - form.mantissa)
    value = s.select(magnitude < (1 << form.mantissa), tiny, normal)
    if form.infinity is not None:
        value = s.select(magnitude.eq(form.infinity), float("inf"), value)
        value = s.select(magnitude > form.infinity, float("nan"), value)
    elif form.nan is not None and form.negative_zero:
        value = s.select(magnitude.eq(form.nan), float("nan"), value)
    sign = s.shift_left(code & (1 << form.sign), 31 - form.sign)
    value = s.bitcast(s.bitcast(value, "int32") | sign, "float32")
    if not form.negative_zero:
        value = s.select(code.eq(0x80), float("nan"), value)
    return value


def encode(s: Arithmetic, x: Scalar, form: Format, saturate: bool) -> Scalar:
    """The code (int32) of an f32, rounded to nearest even."""
    bits = s.bitcast(x, "int32")
    magnitude = bits & 0x7FFFFFFF
    shift = 23 - form.mantissa
    even = s.shift_right(magnitude, shift) & 1
    rounded = magnitude + ((1 << (shift - 1)) - 1) + even
    normal = s.shift_right(rounded, shift) - ((127 - form.bias) << form.mantissa)
    # Below the smallest normal number: adding this power of two lets the FPU round to the step
    # of the denormals, and leaves the code in the low bits.
    magic = 2.0 ** (1 - form.bias - form.mantissa + 23)
    base = s.bitcast(s.const(magic, "float32"), "int32")
    tiny = s.bitcast(s.bitcast(magnitude, "float32") + magic, "int32") - base
    small = s.bitcast(magnitude, "float32") < 2.0 ** (1 - form.bias)
    code = s.select(small, tiny, normal)
    over = form.largest
    if not saturate and form.nan is not None:
        over = form.nan if form.infinity is None else form.infinity
    # The largest f32 magnitudes overflow in `rounded`; comparing the input covers them.
    code = s.select((code > form.largest) | (magnitude >= 0x7F000000), over, code)
    sign = s.shift_left(s.shift_right(s.as_type(bits, "uint32"), 31), form.sign)
    signed = code | s.as_type(sign, "int32")
    if not form.negative_zero:
        signed = s.select(code.eq(0) | code.eq(0x80), code, signed)
    nan = 1 << form.sign if form.nan is None else form.nan
    return s.select(magnitude > 0x7F800000, nan, signed)


def from_power_of_two(s: Arithmetic, a: Scalar) -> Scalar:
    """e8m0: ``2 ** (code - 127)``; 255 is NaN."""
    code = casts.cast(s, s.as_type(a, "uint8"), "int32")
    bits = s.select(code.eq(0), 0x00400000, s.shift_left(code, 23))
    return s.select(code.eq(255), float("nan"), s.bitcast(bits, "float32"))


def to_power_of_two(s: Arithmetic, x: Scalar, saturate: bool, mode: str) -> Scalar:
    """e8m0 code of an f32; ``mode`` is up, down or nearest. The sign is dropped, and
    infinity becomes NaN, as in onnx.numpy_helper.to_float8e8m0."""
    magnitude = s.bitcast(x, "int32") & 0x7FFFFFFF
    exponent, mantissa = s.shift_right(magnitude, 23), magnitude & 0x7FFFFF
    if mode == "up":
        step = mantissa > 0
    elif mode == "nearest":  # ties go up, except among the denormals
        step = (mantissa > 0x400000) | (mantissa.eq(0x400000) & (exponent > 0))
    else:
        step = s.const(False, "bool")
    code = exponent + casts.cast(s, step, "int32")
    if saturate:
        code = s.minimum(code, 254)
    code = s.select(exponent.eq(255), 255, code)
    return s.as_type(casts.cast(s, code, "int8"), POWER)
