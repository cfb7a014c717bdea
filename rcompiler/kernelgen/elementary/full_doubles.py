"""Functions of f64 within a few units of its last place, for every f64: those of `f64` operations.

Beside `Doubles`, whose results are rounded to f32: longer series, sums that keep what rounding
takes, denormal numbers, and the ends of a range that no f32 reaches.
"""

from __future__ import annotations

import math
from fractions import Fraction

from rcompiler.kernelgen.elementary.doubles import LN2, LN2_LOW, LOG2E, ROOT_HALF_BITS, Doubles
from rcompiler.kernelgen.elementary.quadrants import HALF_PI_LOW, quadrant_for_f64, turned
from rcompiler.kernelgen.value import Val

_TERMS_EXP = 14  # |r| <= ln2/2: r^14/15! < 2^-61
_TERMS_LOG = 11  # |s| <= 0.172: s^22/23 < 2^-60
_TERMS_SIN = 8  # |r| <= pi/4: r^18/18! < 2^-58
_TERMS_ATAN = 21  # |t| <= tan(pi/8): t^42/43 < 2^-58
_TERMS_ERF = 20  # |x| <= 1: 1/(20! 41) < 2^-66
_SQUARINGS = 6  # below 2^53 no whole number but 0 and 1 has powers from 2^6 on
_DENORMAL = 2.0**-1022
_LARGE = 2.0**28  # from here on x^2 +- 1 is x^2, and more
# e^(a^2) erfc(a), 1 <= a <= 28, in t = (a - 3) / (a + 3): by tools/bench fit_erfcx
_ERFCX = (
    0.17900115118138996,
    -0.3262335600430372,
    0.24560380171233087,
    -0.15011593650077723,
    0.07166583719797852,
    -0.024392499318670956,
    0.004269136332823189,
    0.000707746438898368,
    -0.0005970619481917462,
    4.5255298742928425e-05,
    6.405655192512488e-05,
    -1.28604971710999e-05,
    -7.978113610240477e-06,
    2.1199904287583893e-06,
    1.252449591755003e-06,
    -2.9378443426271173e-07,
    -2.3461112801120264e-07,
    2.793555147203117e-08,
    4.69883919815088e-08,
    2.0814098983948702e-09,
    -9.22482784033864e-09,
    -2.1175018321097844e-09,
    1.7910308865489005e-09,
    5.142675235076319e-10,
    -3.0542705629713957e-10,
)


class FullDoubles(Doubles):
    """Functions of f64 values to f64's own precision."""

    # -- exponentials
    def _parts(self, x: Val) -> tuple[Val, Val]:
        """n and e^r - 1 with x = n ln2 + r."""
        n = self.math("roundeven", self.mul(x, LOG2E))
        r = self.fma(n, self.c(-LN2_LOW), self.fma(n, -LN2, x))
        return self.convert("fptosi", n, "i64"), self._grown(r)

    def _grown(self, r: Val) -> Val:
        """e^r - 1 for |r| <= ln2/2."""
        series = [Fraction(1, math.factorial(k)) for k in range(2, _TERMS_EXP + 1)]
        return self.fma(self.mul(r, r), self.horner(r, series), r)

    def _clamped(self, x: Val, low: float, high: float) -> Val:
        return self.minimum(self.maximum(x, low), high)

    def _power(self, n: Val) -> Val:
        """2^n, n in [-1022, 1023]."""
        return self.bitcast(self.shift_left(self.add(n, 1023), 52), "f64")

    def _scaled(self, p: Val, n: Val) -> Val:
        """p 2^n, in two steps: neither factor overflows or is denormal."""
        half = self.shift_right_signed(n, 1)
        rest = self.sub(n, half)
        return self.mul(self.mul(p, self._power(half)), self._power(rest))

    def exp(self, x: Val) -> Val:
        n, grown = self._parts(self._clamped(x, -746.0, 710.0))
        return self._scaled(self.add(grown, 1.0), n)

    def exp2(self, x: Val) -> Val:
        clamped = self._clamped(x, -1076.0, 1025.0)
        n = self.math("roundeven", clamped)
        f = self.sub(clamped, n)
        grown = self._grown(self.fma(f, self.c(LN2), self.mul(f, LN2_LOW)))
        return self._scaled(self.add(grown, 1.0), self.convert("fptosi", n, "i64"))

    def expm1(self, x: Val) -> Val:
        """2 (h (e^r - 1) + (h - 1/2)), h = 2^(n-1), which no x in reach makes infinite."""
        n, grown = self._parts(self._clamped(x, -40.0, 710.0))
        half = self._power(self.add(n, -1))
        result = self.fma(half, grown, self.sub(half, 0.5))
        return self.add(result, result)

    def tanh(self, x: Val) -> Val:
        a = self.minimum(self.abs(x), 20.0)
        grown = self.expm1(self.add(a, a))
        return self.copysign(self.div(grown, self.add(grown, 2.0)), x)

    def sinh(self, x: Val) -> Val:
        a, half = self.abs(x), self.c(0.5)
        grown = self.expm1(a)
        near = self.mul(self.add(grown, self.div(grown, self.add(grown, 1.0))), half)
        return self.copysign(self._unless_far(a, near), x)

    def cosh(self, x: Val) -> Val:
        a, half = self.abs(x), self.c(0.5)
        power = self.exp(a)
        near = self.fma(power, half, self.div(half, power))
        return self._unless_far(a, near)

    def _unless_far(self, a: Val, near: Val) -> Val:
        """e^a / 2 where e^a may overflow."""
        half = self.c(0.5)
        root = self.exp(self.mul(a, half))
        far = self.mul(self.mul(root, half), root)
        return self.select(self.compare("ogt", a, 700.0), far, near)

    def erf(self, x: Val) -> Val:
        """|x| < 1: the series; else 1 - erfc(|x|), which is nothing beside 1 from 6 on."""
        a, one = self.minimum(self.abs(x), 6.0), self.c(1.0)
        large = self.sub(one, self._erf_tail(a))
        return self.copysign(self.select(self.compare("olt", a, one), self._erf_near(a), large), x)

    def erfc(self, x: Val) -> Val:
        """1 - erf(x), of which nothing cancels where x is above 1: nothing is left from 28 on."""
        a, one = self.minimum(self.abs(x), 28.0), self.c(1.0)
        tail = self._erf_tail(a)
        below = self.compare("olt", x, 0.0)
        large = self.select(below, self.sub(2.0, tail), tail)
        near = self.sub(one, self._erf_near(x))
        return self.select(self.compare("olt", a, one), near, large)

    def _erf_near(self, x: Val) -> Val:
        """erf(x), |x| < 1: the series."""
        series = [
            Fraction((-1) ** k, math.factorial(k) * (2 * k + 1)) for k in range(1, _TERMS_ERF)
        ]
        square = self.mul(x, x)
        cube = self.mul(x, square)
        small = self.fma(cube, self.horner(square, series), x)
        return self.mul(small, 2 / math.sqrt(math.pi))

    def _erf_tail(self, a: Val) -> Val:
        """erfc(a), 1 <= a <= 28."""
        square = self.mul(a, a)
        rest = self.fma(a, a, self.neg(square))
        t = self.div(self.sub(a, 3.0), self.add(a, 3.0))
        scaled = self.horner(t, [Fraction(c) for c in _ERFCX])
        tail = self.mul(self.exp(self.neg(square)), scaled)
        return self.fma(self.neg(rest), tail, tail)

    # -- logarithms
    def _split(self, x: Val) -> tuple[Val, Val]:
        """k and m - 1 with x = m 2^k, m in [sqrt(1/2), sqrt(2)), for finite x above 0."""
        tiny = self.compare("olt", x, _DENORMAL)
        normal = self.select(tiny, self.mul(x, 2.0**54), x)
        bits = self.bitcast(normal, "i64")
        k = self.shift_right_signed(self.sub(bits, ROOT_HALF_BITS), 52)
        mantissa = self.sub(bits, self.shift_left(k, 52))
        f = self.sub(self.bitcast(mantissa, "f64"), 1.0)
        shift = self.select(tiny, self.c(-54.0), self.c(0.0))
        return self.add(self.convert("sitofp", k, "f64"), shift), f

    def _series(self, z: Val) -> Val:
        """2 z/3 + 2 z^2/5 + ...: of 2 atanh(s) / s what is beyond 2, z = s^2."""
        terms = [Fraction(2, 2 * j + 1) for j in range(1, _TERMS_LOG)]
        return self.mul(z, self.horner(z, terms))

    def _at_ends(self, x: Val, result: Val) -> Val:
        """A logarithm of numbers that are not above 0 or not finite."""
        result = self.select(self.compare("oeq", x, 0.0), -math.inf, result)
        result = self.select(self.compare("olt", x, 0.0), math.nan, result)
        return self.select(self.compare("ueq", x, math.inf), x, result)  # NaN too

    def _less(self, f: Val, low: Val) -> Val:
        """f^2/2 - s (f^2/2 + series) - low: f less that is log(1 + f) + low."""
        s = self.div(f, self.add(f, 2.0))
        square = self.mul(self.mul(f, f), 0.5)
        rest = self.fma(s, self.add(square, self._series(self.mul(s, s))), low)
        return self.sub(square, rest)

    def log(self, x: Val) -> Val:
        k, f = self._split(x)
        inner = self.sub(f, self._less(f, self.mul(k, LN2_LOW)))
        return self._at_ends(x, self.fma(k, LN2, inner))

    def log2(self, x: Val) -> Val:
        """Of powers of two exact."""
        k, f = self._split(x)
        inner = self.sub(f, self._less(f, self.c(0.0)))
        return self._at_ends(x, self.fma(inner, LOG2E, k))

    def _log_pair(self, x: Val) -> tuple[Val, Val]:
        """log x as the sum of two numbers, to some 60 bits; x is finite and above 0."""
        k, f = self._split(x)
        u = self.add(f, 2.0)
        lost = self.sub(f, self.sub(u, 2.0))  # of u
        s = self.div(f, u)
        rest = self.fma(self.neg(s), u, f)
        low = self.div(self.fma(self.neg(s), lost, rest), u)  # of s
        twice = self.add(s, s)
        small = self.fma(s, self._series(self.mul(s, s)), self.add(low, low))
        # k LN2 in two exact parts
        high = self.mul(k, LN2)
        below = self.fma(k, self.c(LN2_LOW), self.fma(k, self.c(LN2), self.neg(high)))
        total, error = self._sum(high, twice)
        return self._sum(total, self.add(error, self.add(small, below)))

    def _sum(self, a: Val, b: Val) -> tuple[Val, Val]:
        """a + b, rounded, and what rounding took; a is the larger, or 0."""
        total = self.add(a, b)
        return total, self.sub(b, self.sub(total, a))

    def power(self, a: Val, y: Val) -> Val:
        """As `Doubles.power`; exact where a and y are whole and the result is below 2^53.

        An integer to the power of a float is cut to an integer: 9^3 may not be 729 less one unit in
        the last place.
        """
        exact, right = self._product_of_squares(a, y)
        return self.select(right, exact, self._near_power(a, y))

    def _product_of_squares(self, a: Val, y: Val) -> tuple[Val, Val]:
        """a^y by squaring, and whether it is that: no factor is more than the result."""
        small = self.bit_and(
            self.compare("oge", y, 0.0),
            self.compare("olt", y, 2.0**_SQUARINGS),
        )
        bits = self.convert("fptosi", self.select(small, y, 0.0), "i64")
        result, square = self.c(1.0), a
        for k in range(_SQUARINGS):
            has = self.compare("ne", self.bit_and(bits, 1 << k), 0)
            result = self.select(has, self.mul(result, square), result)
            square = self.mul(square, square)
        right = small
        for number in (a, y):
            whole = self.compare("oeq", self.math("trunc", number), number)
            right = self.bit_and(right, whole)
        return result, self.bit_and(right, self.compare("olt", result, 2.0**53))

    def _near_power(self, a: Val, y: Val) -> Val:
        """The error of an exponent is one of all digits of the result: y log a has more of them."""
        zero, one = self.c(0.0), self.c(1.0)
        above, finite = self.compare("ogt", a, zero), self.compare("olt", a, math.inf)
        fine = self.bit_and(above, finite)
        high, low = self._log_pair(a)
        product = self.mul(y, high)
        rest = self.fma(y, low, self.fma(y, high, self.neg(product)))
        known = self.bit_and(fine, self.compare("olt", self.abs(rest), one))
        exponent = self.select(fine, product, self.mul(y, self.log(a)))
        exponent = self.select(self.compare("oeq", a, one), zero, exponent)
        return self.mul(self.exp(exponent), self.add(one, self.select(known, rest, zero)))

    # -- exponents
    def exponent(self, x: Val) -> Val:
        wide = super().exponent(self.mul(x, 2.0**54))
        tiny = self.compare("olt", x, _DENORMAL)
        return self.select(tiny, self.add(wide, -54), super().exponent(x))

    def raised(self, x: Val, places: Val) -> Val:
        """A denormal number is raised by more than there are exponents: in three steps."""
        most = self.i(1000)
        for _ in range(3):
            step = self.min_signed(places, most)
            x, places = self.mul(x, self._power(step)), self.sub(places, step)
        return x

    # -- inverses of hyperbolic functions
    def _log_of_twice(self, x: Val) -> Val:
        return self.add(self.log(x), LN2)

    def asinh(self, x: Val) -> Val:
        a, one = self.abs(x), self.c(1.0)
        square = self.mul(a, a)
        more = self.div(square, self.add(one, self.sqrt(self.add(square, one))))
        far = self.compare("ogt", a, _LARGE)
        near = self.log1p(self.add(a, more))
        return self.copysign(self.select(far, self._log_of_twice(a), near), x)

    def acosh(self, x: Val) -> Val:
        t = self.sub(x, 1.0)
        near = self.log1p(self.add(t, self.sqrt(self.mul(t, self.add(t, 2.0)))))
        far = self.compare("ogt", x, _LARGE)
        inside = self.compare("uge", x, 1.0)
        return self.select(inside, self.select(far, self._log_of_twice(x), near), math.nan)

    def atanh(self, x: Val) -> Val:
        a = self.abs(x)
        ratio = self.div(self.add(a, a), self.sub(1.0, a))
        return self.copysign(self.mul(self.log1p(ratio), 0.5), x)

    # -- of angles
    def sine_cosine(self, x: Val) -> tuple[Val, Val]:
        quadrant, r = quadrant_for_f64(self, x)
        z = self.mul(r, r)
        sines, cosines = (
            [Fraction((-1) ** k, math.factorial(2 * k + odd)) for k in range(1, _TERMS_SIN + 1)]
            for odd in (1, 0)
        )
        sine = self.fma(self.mul(r, z), self.horner(z, sines), r)
        cosine = self.fma(z, self.horner(z, cosines), 1.0)
        return turned(self, quadrant, sine, cosine)

    def atan(self, x: Val) -> Val:
        steep, middle, t = self._inclination(x)
        low = self.select(middle, self.c(HALF_PI_LOW / 2), self.c(0.0))
        low = self.select(steep, HALF_PI_LOW, low)
        start = self.select(middle, self.c(math.pi / 4), self.c(0.0))
        start = self.select(steep, math.pi / 2, start)
        z = self.mul(t, t)
        series = [Fraction((-1) ** j, 2 * j + 1) for j in range(1, _TERMS_ATAN)]
        bent = self.fma(self.mul(t, z), self.horner(z, series), low)
        return self.copysign(self.add(start, self.add(t, bent)), x)
