"""Floating-point arithmetic. Arrays are f2, f4 or f8; bf16 is kept as u2 and computed in f4."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = Any


def flush(a: Array) -> Array:
    """Subnormal f32 numbers become zeros of their sign."""
    a = np.asarray(a)
    tiny = np.abs(a) < np.float32(2.0**-126)
    return np.where(tiny, np.copysign(np.float32(0), a), a)


def saturate(a: Array) -> Array:
    """Into [0, 1]; NaN becomes 0."""
    return np.where(np.isnan(a), a.dtype.type(0), np.clip(a, a.dtype.type(0), a.dtype.type(1)))


def relu(a: Array) -> Array:
    """Negative numbers become 0; NaN stays."""
    return np.where(a < 0, a.dtype.type(0), a)


def bf16(a: Array) -> Array:
    """f4 to bf16, to nearest even."""
    bits = np.ascontiguousarray(a, np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return np.where(np.isnan(a), np.uint32(0x7FFF), rounded).astype(np.uint16)


def bf16_down(a: Array) -> Array:
    """f4 to bf16, towards zero."""
    bits = np.ascontiguousarray(a, np.float32).view(np.uint32)
    return np.where(np.isnan(a), np.uint32(0x7FFF), bits >> np.uint32(16)).astype(np.uint16)


def widen(a: Array) -> Array:
    """bf16 to f4."""
    return (np.asarray(a).astype(np.uint32) << np.uint32(16)).view(np.float32)


def halves(a: Array, type_: str) -> Array:
    """u4 pairs as twice as many numbers of 2 bytes."""
    return np.ascontiguousarray(a).view(type_)


def tf32(a: Array) -> Array:
    """f4 to tf32, to nearest, ties away: bits of an f4 with a mantissa of 10 bits."""
    bits = np.ascontiguousarray(a, np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)
    return np.where(np.isfinite(a), rounded, bits)


def _round_to_odd(total: Array, error: Array) -> Array:
    """An f8 sum whose last bit tells that something was lost: rounding it again is exact."""
    bits = np.ascontiguousarray(total).view(np.int64)
    even = (bits & 1) == 0
    inexact = (error != 0) & even & np.isfinite(total)
    up = (error > 0) == (total > 0)
    moved = bits + np.where(up, np.int64(1), np.int64(-1))
    return np.where(inexact, moved, bits).view(np.float64)


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def fma32(a: Array, b: Array, c: Array) -> Array:
    """a * b + c of f4, rounded once: the f8 product is exact, and sums near a tie are redone."""
    product, addend = np.multiply(a, b, dtype=np.float64), np.asarray(c).astype(np.float64)
    total = np.asarray(product + addend)
    result = total.astype(np.float32)
    tie = (total.view(np.uint64) & np.uint64(0x1FFFFFFF)) == np.uint64(0x10000000)
    tie |= np.abs(total) < 2.0**-126  # ties of subnormal numbers lie elsewhere
    if tie.any():
        exact, error = _two_sum(*np.broadcast_arrays(product, addend))
        result = np.where(tie, _round_to_odd(exact, error).astype(np.float32), result)
    return result


def fma16(a: Array, b: Array, c: Array) -> Array:
    """a * b + c of f2: exact in f8 wherever it is near a tie."""
    product = np.multiply(a, b, dtype=np.float64)
    return (product + np.asarray(c).astype(np.float64)).astype(np.float16)


def fma_bf16(a: Array, b: Array, c: Array) -> Array:
    """a * b + c of bf16 numbers given as f4; bf16."""
    product, addend = np.multiply(a, b, dtype=np.float64), np.asarray(c).astype(np.float64)
    odd = _round_to_odd(*_two_sum(*np.broadcast_arrays(product, addend)))
    narrow = odd.astype(np.float32)  # 24 bits: make this step odd, too
    bits = np.ascontiguousarray(narrow).view(np.int32)
    lost, even = odd - narrow, (bits & 1) == 0
    up = (lost > 0) == (narrow > 0)
    moved = np.where((lost != 0) & even & np.isfinite(narrow), bits + np.where(up, 1, -1), bits)
    return bf16(moved.astype(np.int32).view(np.float32))


def _split(a: Array) -> tuple[Array, Array]:
    big = a * 134217729.0
    high = big - (big - a)
    return high, a - high


def fma64(a: Array, b: Array, c: Array) -> Array:
    """a * b + c of f8, rounded once (Boldo and Melquiond) unless it overflows or underflows."""
    a, b, c = np.broadcast_arrays(*(np.asarray(x, np.float64) for x in (a, b, c)))
    product = a * b
    (ah, al), (bh, bl) = _split(a), _split(b)
    error = al * bl - (((product - ah * bh) - al * bh) - ah * bl)
    low, low_error = _two_sum(c, error)
    high, high_error = _two_sum(product, low)
    result = high + _round_to_odd(*_two_sum(low_error, high_error))
    return np.where(np.isfinite(result), result, product + c)


def minimum(a: Array, b: Array, nan: bool) -> Array:
    """nan: NaN if one is; else the number. -0 is less than +0."""
    least = np.minimum(a, b) if nan else np.fmin(a, b)
    return np.where(a == b, np.where(np.signbit(a), a, b), least)


def maximum(a: Array, b: Array, nan: bool) -> Array:
    most = np.maximum(a, b) if nan else np.fmax(a, b)
    return np.where(a == b, np.where(np.signbit(a), b, a), most)


def integral(a: Array, mode: str) -> Array:
    """To a whole number: rni, rzi, rmi (down) or rpi (up)."""
    rounding = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
    return rounding[mode](a)


def to_integer(a: Array, mode: str, type_: str) -> Array:
    """Of any float type; clamped into the integer type, NaN becomes 0."""
    whole = integral(np.asarray(a), mode).astype(np.float64)
    limits = np.iinfo(type_)
    low, high = float(limits.min), float(limits.max)  # the upper one is rounded up of 64 bits
    inside = (whole >= low) & ((whole < high) if limits.bits == 64 else (whole <= high))
    value = np.where(inside, whole, 0.0).astype(type_)
    outside = np.where(whole > 0, limits.max, limits.min).astype(type_)
    return np.where(inside | np.isnan(whole), value, outside)


def narrow(a: Array, type_: str, mode: str) -> Array:
    """To another float type: rn to nearest even, rz towards zero, rm down, rp up."""
    near = np.asarray(a).astype(type_)
    if mode == "rn":
        return near
    back = near.astype(a.dtype)
    infinity = near.dtype.type(np.inf)
    if mode == "rz":
        return np.where(np.abs(back) > np.abs(a), np.nextafter(near, near.dtype.type(0)), near)
    if mode == "rm":
        return np.where(back > a, np.nextafter(near, -infinity), near)
    return np.where(back < a, np.nextafter(near, infinity), near)


_FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "ex2": np.exp2, "lg2": np.log2, "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "sqrt": np.sqrt,
    "rsqrt": lambda x: np.where(np.isinf(x) & (x > 0), 0.0, 1.0 / np.sqrt(x)),
    "rcp": lambda x: 1.0 / x,
}  # fmt: skip


def approximate(name: str, a: Array) -> Array:
    """The elementary functions, computed in f8; hardware's last bits differ."""
    value = _FUNCTIONS[name](np.asarray(a).astype(np.float64))
    return value.astype(np.asarray(a).dtype)
