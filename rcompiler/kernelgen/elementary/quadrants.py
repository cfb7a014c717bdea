"""Angles by quarter turns: x = quadrant pi/2 + r, |r| <= pi/4, the quadrant modulo 4.

Small angles are reduced by multiples of pi/2 in several parts, large ones after Payne and Hanek: an
integer times those bits of 2/pi that matter, modulo 4. Infinity has no meaning there; its sine is
made NaN by r. For results that are rounded to f32 both need fewer bits than for those of f64.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from rcompiler.kernelgen.elementary.f64 import F64
from rcompiler.kernelgen.value import Val

HALF_PI_LOW = 6.123233995736766e-17  # pi/2 - its f64
_HALF_PI_LOWEST = -1.4973849048591833e-33  # pi/2 - its f64 - HALF_PI_LOW
# 2/pi after the point, 32 bits a word: 192 bits for the largest f32 and 32 to spare.
_TWO_OVER_PI = (
    *(0xA2F9836E, 0x4E441529, 0xFC2757D1, 0xF534DDC0, 0xDB629599, 0x3C439041, 0xFE5163AB),
)
# Below this the quotient by pi/2 is exact in f64, and so is what two steps leave of it.
_EXACT_QUOTIENT = 2.0**28
_WORD = (1 << 64) - 1

# Quadrant and r of an angle.
_Reduction = Callable[[F64, Val], tuple[Val, Val]]


def quadrant_for_f32(d: F64, x: Val) -> tuple[Val, Val]:
    """Quadrant and r of an f32, for sines that are rounded to f32."""
    return _by_size(d, x, _small_for_f32, _large_for_f32)


def quadrant_for_f64(d: F64, x: Val) -> tuple[Val, Val]:
    """Quadrant and r of any f64, to the last place of an f64."""
    return _by_size(d, x, _small_for_f64, _large_for_f64)


def turned(d: F64, quadrant: Val, sine: Val, cosine: Val) -> tuple[Val, Val]:
    """Sine and cosine of an angle by so many quarter turns larger."""
    odd = d.bit(quadrant, 1)
    s, c = d.select(odd, cosine, sine), d.select(odd, sine, cosine)
    s = d.select(d.bit(quadrant, 2), d.neg(s), s)
    ahead = d.add(quadrant, 1)
    return s, d.select(d.bit(ahead, 2), d.neg(c), c)


def _by_size(d: F64, x: Val, small: _Reduction, large: _Reduction) -> tuple[Val, Val]:
    """By one of two reductions, the second of which takes far more operations."""
    is_large = d.compare("oge", d.abs(x), _EXACT_QUOTIENT)
    quadrant, r = d.e.branch(is_large.name, lambda: large(d, x), lambda: small(d, x))
    return quadrant, r


def _small_for_f32(d: F64, x: Val) -> tuple[Val, Val]:
    k = d.math("roundeven", d.mul(x, 2 / math.pi))
    r = d.fma(k, -math.pi / 2, x)
    return d.convert("fptosi", k, "i64"), d.fma(k, -HALF_PI_LOW, r)


def _small_for_f64(d: F64, x: Val) -> tuple[Val, Val]:
    """The first difference is exact."""
    k = d.math("roundeven", d.mul(x, 2 / math.pi))
    r = d.fma(k, -math.pi / 2, x)
    r = d.fma(k, d.c(-_HALF_PI_LOWEST), d.fma(k, -HALF_PI_LOW, r))
    return d.convert("fptosi", k, "i64"), r


def _large_for_f32(d: F64, x: Val) -> tuple[Val, Val]:
    """An integer of 24 bits times 96 bits of 2/pi."""
    bits = d.bitcast(x, "i64")
    integer = d.bit_and(d.shift_right_unsigned(bits, 29), 0x7FFFFF)
    integer = d.bit_or(integer, 0x800000)
    exponent = d.bit_and(d.shift_right_unsigned(bits, 52), 0x7FF)
    # x = integer * 2^e; the first bit of 2/pi that counts, from 0: of weight 2 beside 2^e
    first = d.sub(exponent, 1023 + 23 + 2)
    high, middle, low = _window_for_f32(d, first)
    product = d.mul(integer, low)
    product = d.shift_right_unsigned(product, 32)
    product = d.add(product, d.mul(integer, middle))
    top = d.shift_left(d.mul(integer, high), 32)
    product = d.add(product, top)  # in units of 2^-62 quarter turns
    nearest = d.add(product, 1 << 61)
    quadrant = d.shift_right_unsigned(nearest, 62)
    rest = d.sub(product, d.shift_left(quadrant, 62))
    r = d.mul(d.convert("sitofp", rest, "f64"), math.pi / 2 * 2.0**-62)
    return _signed(d, x, quadrant, r)


def _window_for_f32(d: F64, first: Val) -> list[Val]:
    """Three words of 2/pi from bit `first` in [0, 128) on."""
    pairs = [
        d.i(high << 32 | low) for high, low in zip(_TWO_OVER_PI, _TWO_OVER_PI[1:], strict=False)
    ]
    word = d.shift_right_unsigned(first, 5)
    shift = d.bit_and(first, 31)
    found = []
    for k in range(3):
        pair = pairs[k]
        for j in range(1, 4):
            pair = d.select(d.compare("uge", word, j), pairs[k + j], pair)
        shifted = d.shift_left(pair, shift)
        found.append(d.shift_right_unsigned(shifted, 32))
    return found


def _large_for_f64(d: F64, x: Val) -> tuple[Val, Val]:
    """An integer of 53 bits times 192 bits of 2/pi."""
    bits = d.bitcast(x, "i64")
    integer = d.bit_and(bits, (1 << 52) - 1)
    integer = d.bit_or(integer, 1 << 52)
    exponent = d.bit_and(d.shift_right_unsigned(bits, 52), 0x7FF)
    # x = integer * 2^e; the first bit of 2/pi that counts, from 0: of weight 2 beside 2^e
    first = d.sub(exponent, 1023 + 52 + 2 - 32)
    high, middle, low = _window_for_f64(d, first)
    below = _high_product(d, integer, low)
    middle_low = d.mul(integer, middle)
    fraction = d.add(middle_low, below)
    carry = d.compare("ult", fraction, below)
    top = d.add(d.mul(integer, high), _high_product(d, integer, middle))
    top = d.select(carry, d.add(top, 1), top)  # in units of 2^-62 quarter turns
    quadrant = d.shift_right_unsigned(d.add(top, 1 << 61), 62)
    rest = d.sub(top, d.shift_left(quadrant, 62))
    fine = d.convert("uitofp", d.shift_right_unsigned(fraction, 1), "f64")
    r = d.fma(fine, d.c(2.0**-63), d.convert("sitofp", rest, "f64"))
    r = d.mul(r, math.pi / 2 * 2.0**-62)
    return _signed(d, x, quadrant, r)


def _signed(d: F64, x: Val, quadrant: Val, r: Val) -> tuple[Val, Val]:
    """Those of x, of which the absolute value has these; r is NaN where that is infinite."""
    r = d.select(d.compare("olt", d.abs(x), math.inf), r, math.nan)
    negative = d.compare("olt", x, 0.0)
    mirrored = d.sub(0, quadrant)
    return d.select(negative, mirrored, quadrant), d.select(negative, d.neg(r), r)


def _high_product(d: F64, a: Val, b: Val) -> Val:
    """The upper 64 bits of the product of unsigned numbers."""
    wide = d.mul(d.convert("extui", a, "i128"), d.convert("extui", b, "i128"))
    half = d.convert("extui", d.i(64), "i128")
    return d.convert("trunci", d.shift_right_unsigned(wide, half), "i64")


def _window_for_f64(d: F64, first: Val) -> list[Val]:
    """192 bits of 2/pi from bit `first` in [0, 1024) on, 32 of zeros in front."""
    words = [d.i(word) for word in _two_over_pi(16 + 3)]
    index = d.shift_right_unsigned(first, 6)
    for step, left in ((8, 11), (4, 7), (2, 5), (1, 4)):
        chosen = d.bit(index, step)
        words = [d.select(chosen, words[k + step], words[k]) for k in range(left)]
    shift = d.bit_and(first, 63)
    back = d.sub(63, shift)
    found = []
    for above, below in zip(words, words[1:], strict=False):
        carried = d.shift_right_unsigned(d.shift_right_unsigned(below, 1), back)
        found.append(d.bit_or(d.shift_left(above, shift), carried))
    return found


def _two_over_pi(words: int) -> list[int]:
    """2/pi in words of 64 bits, the first with 32 bits before the point; after Machin."""
    bits = 64 * words
    one = 1 << (bits + 32)

    def arctan(n: int) -> int:
        total, power, k = 0, one // n, 0
        while power:
            total += (-1) ** k * power // (2 * k + 1)
            power, k = power // (n * n), k + 1
        return total

    pi = 4 * (4 * arctan(5) - arctan(239))
    quotient = (2 * one << (bits - 32)) // pi
    return [quotient >> (bits - 64 * (k + 1)) & _WORD for k in range(words)]
