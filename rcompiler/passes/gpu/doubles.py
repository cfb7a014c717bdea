"""Arithmetic on f64 scalars, as text: the building blocks of elementary functions.

What is computed from an f32 in f64 and rounded once is right to the last place but for about one
value in a million: no error of ours comes near half a unit of an f32.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from rcompiler.kernelgen.emitter import Emitter
from rcompiler.kernelgen.value import Val

LN2, LOG2E = math.log(2), 1 / math.log(2)
LN2_LOW = 2.3190468138462996e-17  # ln 2 - LN2
HALF_PI_LOW = 6.123233995736766e-17  # pi/2 - its f64
ROOT_HALF_BITS = 0x3FE6A09E667F3BCD  # of sqrt(1/2)
_TERMS_EXP = 11  # |r| <= ln2/2: r^12/12! < 2^-46
_TERMS_LOG = 9  # |s| <= 0.172: s^18/19 < 2^-49
_TERMS_SIN = 7  # |r| <= pi/4: r^16/16! < 2^-49
_TERMS_ATAN = 17  # |t| <= tan(pi/8): t^34/35 < 2^-48
# 2/pi after the point, 32 bits a word: 192 bits for the largest f32 and 32 to spare.
_TWO_OVER_PI = (
    *(0xA2F9836E, 0x4E441529, 0xFC2757D1, 0xF534DDC0, 0xDB629599, 0x3C439041, 0xFE5163AB),
)
# Below this the quotient by pi/2 is exact in f64, and so is what two steps leave of it.
_EXACT_QUOTIENT = 2.0**28


class Doubles:
    """Functions of f64 values, written with an emitter that has fused multiply-add."""

    def __init__(self, emitter: Emitter) -> None:
        self.e = emitter

    # -- building blocks
    def c(self, value: float) -> Val:
        return self.e.constant(value, "f64")

    def i(self, value: int) -> Val:
        return self.e.constant(value, "i64")

    def op(self, name: str, *operands: Val) -> Val:
        """An operation whose result has the type of its operands."""
        names = ", ".join(v.name for v in operands)
        return self._made(f"{name} {names} : {operands[0].type}", operands, operands[0].element)

    def cast(self, name: str, value: Val, element: str) -> Val:
        text = f"arith.{name} {value.name} : {value.type} to {element}"
        return self._made(text, [value], element)

    def compare(self, predicate: str, a: Val, b: Val) -> Val:
        kind = "cmpf" if a.element[0] == "f" else "cmpi"
        text = f"arith.{kind} {predicate}, {a.name}, {b.name} : {a.type}"
        return self._made(text, [a, b], "i1")

    def select(self, condition: Val, yes: Val, no: Val) -> Val:
        text = f"arith.select {condition.name}, {yes.name}, {no.name} : {yes.type}"
        return self._made(text, [condition, yes, no], yes.element)

    def _made(self, text: str, operands: Sequence[Val], element: str) -> Val:
        """Behind the guard of a branch: what hardly ever runs is not hoisted out of it."""
        names = [v.name for v in operands]
        return Val(self.e.pure(text, names, least_depth=self.e.guard), element)

    def add(self, a: Val, b: Val) -> Val:
        return self.op("arith.addf", a, b)

    def sub(self, a: Val, b: Val) -> Val:
        return self.op("arith.subf", a, b)

    def mul(self, a: Val, b: Val) -> Val:
        return self.op("arith.mulf", a, b)

    def div(self, a: Val, b: Val) -> Val:
        return self.op("arith.divf", a, b)

    def fma(self, a: Val, b: Val, c: Val) -> Val:
        return self.op("math.fma", a, b, c)

    def neg(self, a: Val) -> Val:
        return self.op("arith.negf", a)

    def abs(self, a: Val) -> Val:
        return self.op("math.absf", a)

    def sqrt(self, a: Val) -> Val:
        return self.op("math.sqrt", a)

    def truncated(self, a: Val) -> Val:
        return self.op("math.trunc", a)

    def copysign(self, magnitude: Val, sign: Val) -> Val:
        return self.op("math.copysign", magnitude, sign)

    def horner(self, x: Val, coefficients: Sequence[Fraction]) -> Val:
        """c0 + c1 x + c2 x^2 + ..."""
        *rest, last = [self.c(float(c)) for c in coefficients]
        for coefficient in reversed(rest):
            last = self.fma(last, x, coefficient)
        return last

    # -- functions
    def _exponential(self, x: Val) -> tuple[Val, Val]:
        """2^n and e^r - 1 with x = n ln2 + r, for x within 700 of 0 or else for 700."""
        low = self.op("arith.maximumf", x, self.c(-700.0))
        x = self.op("arith.minimumf", low, self.c(700.0))
        n = self.op("math.roundeven", self.mul(x, self.c(LOG2E)))
        r = self.fma(n, self.c(-LN2_LOW), self.fma(n, self.c(-LN2), x))
        series = [Fraction(1, math.factorial(k)) for k in range(1, _TERMS_EXP + 1)]
        biased = self.op("arith.addi", self.cast("fptosi", n, "i64"), self.i(1023))
        power = self.cast("bitcast", self.op("arith.shli", biased, self.i(52)), "f64")
        return power, self.mul(r, self.horner(r, series))

    def exp(self, x: Val) -> Val:
        power, rest = self._exponential(x)
        return self.fma(power, rest, power)

    def expm1(self, x: Val) -> Val:
        power, rest = self._exponential(x)
        return self.fma(power, rest, self.sub(power, self.c(1.0)))

    def log(self, x: Val) -> Val:
        """x is no denormal number of f64: none that comes from f32 is."""
        bits = self.cast("bitcast", x, "i64")
        above = self.op("arith.subi", bits, self.i(ROOT_HALF_BITS))
        k = self.op("arith.shrsi", above, self.i(52))
        mantissa = self.op("arith.subi", bits, self.op("arith.shli", k, self.i(52)))
        m = self.cast("bitcast", mantissa, "f64")  # in [sqrt(1/2), sqrt(2))
        s = self.div(self.sub(m, self.c(1.0)), self.add(m, self.c(1.0)))
        series = self.horner(self.mul(s, s), [Fraction(2, 2 * j + 1) for j in range(_TERMS_LOG)])
        result = self.fma(self.cast("sitofp", k, "f64"), self.c(LN2), self.mul(s, series))
        zero, infinity = self.c(0.0), self.c(math.inf)
        result = self.select(self.compare("oeq", x, zero), self.c(-math.inf), result)
        result = self.select(self.compare("olt", x, zero), self.c(math.nan), result)
        ends = self.compare("ueq", x, infinity)  # NaN too
        return self.select(ends, x, result)

    def power(self, a: Val, y: Val) -> Val:
        """a^y of a that is not below 0; 1^infinity is 1, but 0 infinity is NaN."""
        level = self.compare("oeq", a, self.c(1.0))
        return self.exp(self.select(level, self.c(0.0), self.mul(y, self.log(a))))

    def exponent(self, x: Val) -> Val:
        """Of 2 in x, which is not below 0, and some more."""
        return self.op("arith.shrui", self.cast("bitcast", x, "i64"), self.i(52))

    def raised(self, x: Val, places: Val) -> Val:
        """x 2^places, places not below 0."""
        step = self.op("arith.shli", places, self.i(52))
        return self.cast(
            "bitcast", self.op("arith.addi", self.cast("bitcast", x, "i64"), step), "f64"
        )

    def log1p(self, x: Val) -> Val:
        """log(u) with what rounding took from u = 1 + x."""
        one = self.c(1.0)
        u = self.add(x, one)
        lost = self.div(self.sub(x, self.sub(u, one)), u)
        known = self.compare("ord", lost, lost)  # not where u is 0 or infinite
        return self.add(self.log(u), self.select(known, lost, self.c(0.0)))

    def sine_cosine(self, x: Val) -> tuple[Val, Val]:
        quadrant, r = self._reduced(x)
        z = self.mul(r, r)
        sines = [Fraction((-1) ** k, math.factorial(2 * k + 1)) for k in range(_TERMS_SIN + 1)]
        cosines = [Fraction((-1) ** k, math.factorial(2 * k)) for k in range(_TERMS_SIN + 1)]
        return self._turned(quadrant, self.mul(r, self.horner(z, sines)), self.horner(z, cosines))

    def _turned(self, quadrant: Val, sine: Val, cosine: Val) -> tuple[Val, Val]:
        """Sine and cosine of an angle by so many quarter turns larger."""
        odd = self._bit(quadrant, 1)
        s, c = self.select(odd, cosine, sine), self.select(odd, sine, cosine)
        s = self.select(self._bit(quadrant, 2), self.neg(s), s)
        turned = self.op("arith.addi", quadrant, self.i(1))
        return s, self.select(self._bit(turned, 2), self.neg(c), c)

    def _bit(self, value: Val, bit: int) -> Val:
        return self.compare("ne", self.op("arith.andi", value, self.i(bit)), self.i(0))

    def _reduced(self, x: Val) -> tuple[Val, Val]:
        """x = quadrant * pi/2 + r, |r| <= pi/4, the quadrant modulo 4."""
        large = self.compare("oge", self.abs(x), self.c(_EXACT_QUOTIENT))
        quadrant, r = self.e.branch(
            large.name, lambda: self._reduced_large(x), lambda: self._reduced_small(x)
        )
        return quadrant, r

    def _reduced_small(self, x: Val) -> tuple[Val, Val]:
        k = self.op("math.roundeven", self.mul(x, self.c(2 / math.pi)))
        r = self.fma(k, self.c(-math.pi / 2), x)
        return self.cast("fptosi", k, "i64"), self.fma(k, self.c(-HALF_PI_LOW), r)

    def _reduced_large(self, x: Val) -> tuple[Val, Val]:
        """After Payne and Hanek: an integer of 24 bits times those 96 bits of 2/pi that matter,
        modulo 4. Infinity has no meaning here; its sine is made NaN by r.
        """
        bits = self.cast("bitcast", x, "i64")
        integer = self.op("arith.andi", self.op("arith.shrui", bits, self.i(29)), self.i(0x7FFFFF))
        integer = self.op("arith.ori", integer, self.i(0x800000))
        exponent = self.op("arith.andi", self.op("arith.shrui", bits, self.i(52)), self.i(0x7FF))
        # x = integer * 2^e; the first bit of 2/pi that counts, from 0: of weight 2 beside 2^e
        first = self.op("arith.subi", exponent, self.i(1023 + 23 + 2))
        high, middle, low = self._two_over_pi(first)
        product = self.op("arith.muli", integer, low)
        product = self.op("arith.shrui", product, self.i(32))
        product = self.op("arith.addi", product, self.op("arith.muli", integer, middle))
        top = self.op("arith.shli", self.op("arith.muli", integer, high), self.i(32))
        product = self.op("arith.addi", product, top)  # in units of 2^-62 quarter turns
        nearest = self.op("arith.addi", product, self.i(1 << 61))
        quadrant = self.op("arith.shrui", nearest, self.i(62))
        rest = self.op("arith.subi", product, self.op("arith.shli", quadrant, self.i(62)))
        r = self.mul(self.cast("sitofp", rest, "f64"), self.c(math.pi / 2 * 2.0**-62))
        finite = self.compare("olt", self.abs(x), self.c(math.inf))
        r = self.select(finite, r, self.c(math.nan))
        negative = self.compare("olt", x, self.c(0.0))
        mirrored = self.op("arith.subi", self.i(0), quadrant)
        return self.select(negative, mirrored, quadrant), self.select(negative, self.neg(r), r)

    def _two_over_pi(self, first: Val) -> list[Val]:
        """Three words of 2/pi from bit `first` in [0, 128) on."""
        pairs = [
            self.i(high << 32 | low)
            for high, low in zip(_TWO_OVER_PI, _TWO_OVER_PI[1:], strict=False)
        ]
        word = self.op("arith.shrui", first, self.i(5))
        shift = self.op("arith.andi", first, self.i(31))
        found = []
        for k in range(3):
            pair = pairs[k]
            for j in range(1, 4):
                pair = self.select(self.compare("uge", word, self.i(j)), pairs[k + j], pair)
            shifted = self.op("arith.shli", pair, shift)
            found.append(self.op("arith.shrui", shifted, self.i(32)))
        return found

    def _inclination(self, x: Val) -> tuple[Val, Val, Val]:
        """atan a = pi/2 + atan(-1/a) = pi/4 + atan((a - 1) / (a + 1)), whichever argument is small:
        whether it is the first, or one of both, and the argument.
        """
        a, one = self.abs(x), self.c(1.0)
        steep = self.compare("ogt", a, self.c(1 + math.sqrt(2)))
        middle = self.compare("ogt", a, self.c(math.sqrt(2) - 1))
        above = self.select(middle, self.sub(a, one), a)
        below = self.select(middle, self.add(a, one), one)
        t = self.div(self.select(steep, self.c(-1.0), above), self.select(steep, a, below))
        return steep, middle, t

    def atan(self, x: Val) -> Val:
        steep, middle, t = self._inclination(x)
        start = self.select(middle, self.c(math.pi / 4), self.c(0.0))
        start = self.select(steep, self.c(math.pi / 2), start)
        series = [Fraction((-1) ** j, 2 * j + 1) for j in range(_TERMS_ATAN)]
        turned = self.add(start, self.mul(t, self.horner(self.mul(t, t), series)))
        return self.copysign(turned, x)
