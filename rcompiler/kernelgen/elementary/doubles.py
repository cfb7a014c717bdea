"""Functions of f64 within the precision of f32: those of `f32` operations, computed in f64.

What is computed from an f32 in f64 and rounded once is right to the last place but for about one
value in a million: no error of ours comes near half a unit of an f32.
"""

from __future__ import annotations

import math
from fractions import Fraction

from rcompiler.kernelgen.elementary.f64 import F64
from rcompiler.kernelgen.elementary.quadrants import quadrant_for_f32, turned
from rcompiler.kernelgen.value import Val

LN2, LOG2E = math.log(2), 1 / math.log(2)
LN2_LOW = 2.3190468138462996e-17  # ln 2 - LN2
ROOT_HALF_BITS = 0x3FE6A09E667F3BCD  # of sqrt(1/2)
_TERMS_EXP = 11  # |r| <= ln2/2: r^12/12! < 2^-46
_TERMS_LOG = 9  # |s| <= 0.172: s^18/19 < 2^-49
_TERMS_SIN = 7  # |r| <= pi/4: r^16/16! < 2^-49
_TERMS_ATAN = 17  # |t| <= tan(pi/8): t^34/35 < 2^-48


class Doubles(F64):
    """Functions of f64 values."""

    def _exponential(self, x: Val) -> tuple[Val, Val]:
        """2^n and e^r - 1 with x = n ln2 + r, for x within 700 of 0 or else for 700."""
        low = self.maximum(x, -700.0)
        x = self.minimum(low, 700.0)
        n = self.math("roundeven", self.mul(x, LOG2E))
        r = self.fma(n, self.c(-LN2_LOW), self.fma(n, -LN2, x))
        series = [Fraction(1, math.factorial(k)) for k in range(1, _TERMS_EXP + 1)]
        biased = self.add(self.convert("fptosi", n, "i64"), 1023)
        power = self.bitcast(self.shift_left(biased, 52), "f64")
        return power, self.mul(r, self.horner(r, series))

    def exp(self, x: Val) -> Val:
        power, rest = self._exponential(x)
        return self.fma(power, rest, power)

    def expm1(self, x: Val) -> Val:
        power, rest = self._exponential(x)
        return self.fma(power, rest, self.sub(power, 1.0))

    def log(self, x: Val) -> Val:
        """x is no denormal number of f64: none that comes from f32 is."""
        bits = self.bitcast(x, "i64")
        above = self.sub(bits, ROOT_HALF_BITS)
        k = self.shift_right_signed(above, 52)
        mantissa = self.sub(bits, self.shift_left(k, 52))
        m = self.bitcast(mantissa, "f64")  # in [sqrt(1/2), sqrt(2))
        s = self.div(self.sub(m, 1.0), self.add(m, 1.0))
        series = self.horner(self.mul(s, s), [Fraction(2, 2 * j + 1) for j in range(_TERMS_LOG)])
        result = self.fma(self.convert("sitofp", k, "f64"), self.c(LN2), self.mul(s, series))
        zero, infinity = self.c(0.0), self.c(math.inf)
        result = self.select(self.compare("oeq", x, zero), -math.inf, result)
        result = self.select(self.compare("olt", x, zero), math.nan, result)
        ends = self.compare("ueq", x, infinity)  # NaN too
        return self.select(ends, x, result)

    def power(self, a: Val, y: Val) -> Val:
        """a^y of a that is not below 0; 1^infinity is 1, but 0 infinity is NaN."""
        level = self.compare("oeq", a, 1.0)
        return self.exp(self.select(level, self.c(0.0), self.mul(y, self.log(a))))

    def exponent(self, x: Val) -> Val:
        """Of 2 in x, which is not below 0, and some more."""
        return self.shift_right_unsigned(self.bitcast(x, "i64"), 52)

    def raised(self, x: Val, places: Val) -> Val:
        """x 2^places, places not below 0."""
        step = self.shift_left(places, 52)
        return self.bitcast(self.add(self.bitcast(x, "i64"), step), "f64")

    def log1p(self, x: Val) -> Val:
        """log(u) with what rounding took from u = 1 + x."""
        one = self.c(1.0)
        u = self.add(x, one)
        lost = self.div(self.sub(x, self.sub(u, one)), u)
        known = self.compare("ord", lost, lost)  # not where u is 0 or infinite
        return self.add(self.log(u), self.select(known, lost, 0.0))

    def sine_cosine(self, x: Val) -> tuple[Val, Val]:
        quadrant, r = quadrant_for_f32(self, x)
        z = self.mul(r, r)
        sines = [Fraction((-1) ** k, math.factorial(2 * k + 1)) for k in range(_TERMS_SIN + 1)]
        cosines = [Fraction((-1) ** k, math.factorial(2 * k)) for k in range(_TERMS_SIN + 1)]
        return turned(self, quadrant, self.mul(r, self.horner(z, sines)), self.horner(z, cosines))

    def _inclination(self, x: Val) -> tuple[Val, Val, Val]:
        """atan a = pi/2 + atan(-1/a) = pi/4 + atan((a - 1) / (a + 1)), whichever argument is small:
        whether it is the first, or one of both, and the argument.
        """
        a, one = self.abs(x), self.c(1.0)
        steep = self.compare("ogt", a, 1 + math.sqrt(2))
        middle = self.compare("ogt", a, math.sqrt(2) - 1)
        above = self.select(middle, self.sub(a, one), a)
        below = self.select(middle, self.add(a, one), one)
        t = self.div(self.select(steep, -1.0, above), self.select(steep, a, below))
        return steep, middle, t

    def atan(self, x: Val) -> Val:
        steep, middle, t = self._inclination(x)
        start = self.select(middle, self.c(math.pi / 4), self.c(0.0))
        start = self.select(steep, math.pi / 2, start)
        series = [Fraction((-1) ** j, 2 * j + 1) for j in range(_TERMS_ATAN)]
        turned = self.add(start, self.mul(t, self.horner(self.mul(t, t), series)))
        return self.copysign(turned, x)
