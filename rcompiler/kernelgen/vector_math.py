"""exp, exp - 1, tanh, erf, 1 - erf and log on f32 vectors: own polynomials within 3 ulp, of 1 - erf
within 5 + 2 x^2, written with arith and vector.fma.

MLIR's LLVM lowering turns vector `math.exp` into scalar libm calls (10 to 37 times slower). The
coefficients are weighted minimax fits; `tools/bench fit_vector_math` computes them again.
"""

from __future__ import annotations

import math

from rcompiler.kernelgen.emitter import Emitter
from rcompiler.kernelgen.value import Val
from rcompiler.kernelgen.vector_math_coefficients import (
    ERF_LARGE,
    ERF_SHORT,
    ERF_SMALL,
    ERFCX,
    EXP,
    EXP2,
    EXPM1,
    LOG,
    POWER,
    TANH,
)

# From -104 down e^x is 0. vscalefps takes 25 times as long where its result is near the denormal
# numbers (64k elements of -104: 240 us, of -1000: 9.6 us, a Xeon of 2023), and masks of softmax are
# far below.
_FAR_BELOW = -1000.0
# Of vscalefps and vreduceps: lanes, the rounding mode that stands for the one that is set, and the
# operand of vreduceps that asks for the integer below, without an exception for what is cut off.
_AVX512_LANES = (4, 8, 16)
_CURRENT_ROUNDING = 4
_BELOW = 0b1001
_EXPONENT = 23  # the place of an f32's exponent in its bits
_ROOT_HALF = 0x3F3504F3  # the bits of sqrt(1/2)


class VectorMath:
    """Elementary functions of one f32 value (any number of lanes)."""

    def __init__(self, emitter: Emitter) -> None:
        self._e = emitter

    def apply(self, function: str, x: Val) -> Val | None:
        """The f32 value of `math.<function>`, or None if there is no polynomial for it."""
        table = {
            "exp": self.exp,
            "tanh": self.tanh,
            "erf": self.erf,
            "erfc": self.erfc,
            "log": self.log,
            "exp2": self.exp2,
            "expm1": self.expm1,
        }
        return table[function](x) if function in table else None

    # -- building blocks
    def _c(self, value: float, x: Val) -> Val:
        return self._e.constant(value, "f32", x.lanes)

    def _nearest(self, x: Val) -> Val:
        """The integer nearest to x, |x| < 2^22; an even one where two are."""
        e = self._e
        if e.has_fma:
            return e.math("roundeven", x)
        # Before SSE4.1 that is a call for every lane. At this magnitude the last place is 1.
        magic = self._c(1.5 * 2.0**23, x)
        return e.sub(e.add(x, magic), magic)

    def _floor(self, x: Val) -> Val:
        """The greatest integer that is not above x, |x| < 2^22."""
        if self._e.has_fma:
            return self._e.math("floor", x)
        nearest = self._nearest(x)
        below = self._e.sub(nearest, 1.0)
        return self._select("ogt", nearest, x, below, nearest)

    def _horner(self, x: Val, coefficients: tuple[float, ...]) -> Val:
        total = self._c(coefficients[-1], x)
        for coefficient in coefficients[-2::-1]:
            total = self._e.fma(total, x, coefficient)
        return total

    def _select(self, predicate: str, a: Val, b: Val | float, yes: Val, no: Val) -> Val:
        return self._e.select(self._e.compare(predicate, a, b), yes, no)

    def _scaled(self, p: Val, n: Val) -> Val:
        """p * 2^n for integral n in [-252, 254], rounded once: one instruction, or two steps so
        that neither factor overflows or is denormal.
        """
        if self._scales(p):
            return self._scalef(p, n)
        i = self._e.convert("fptosi", n, "i32")
        half = self._e.shift_right_signed(i, 1)
        rest = self._e.sub(i, half)
        for part in (half, rest):
            p = self._e.mul(p, self._power_of_two(part, 127))
        return p

    def _power_of_two(self, n: Val, bias: int) -> Val:
        """2^(n + bias - 127) of integers: the bits of an f32 with this exponent."""
        e = self._e
        first, places = (e.constant(k, "i32", n.lanes) for k in (bias, _EXPONENT))
        return e.bitcast(e.shift_left(e.add(n, first), places), "f32")

    def _four_lanes(self, x: Val) -> Val:
        """At least four: those of `x` again and again."""
        if x.lanes == 2:
            return self._e.shuffle(x, x, [0, 1, 0, 1])
        return self._e.splat(x, max(x.lanes, 4))

    def _first_lanes(self, x: Val, lanes: int) -> Val:
        if lanes == 2:
            return self._e.shuffle(x, x, [0, 1])
        return x if lanes else self._e.lane(x, 0)

    def _scales(self, x: Val) -> bool:
        """Whether there are instructions that multiply such a vector with powers of two."""
        return self._e.has_scalef and x.lanes in _AVX512_LANES

    def _scalef(self, p: Val, x: Val) -> Val:
        """p * 2^n, n the integer below x."""
        return self._avx512("scalef", [p, x], p)

    def _above_integer(self, x: Val) -> Val:
        """x - n, n the integer below x; 0 where x is infinite."""
        return self._avx512("reduce", [x, self._e.constant(_BELOW, "i32")], x)

    def _avx512(self, name: str, operands: list[Val], x: Val) -> Val:
        """An instruction that has a mask, on all lanes of vectors like `x`."""
        operands = [*operands, x, self._e.constant(-1, f"i{max(x.lanes, 8)}")]
        if x.lanes == 16:
            operands.append(self._e.constant(_CURRENT_ROUNDING, "i32"))
        full = f"llvm.x86.avx512.mask.{name}.ps.{32 * x.lanes}"
        return self._e.intrinsic(full, operands, "f32", x.lanes)

    # -- functions
    def exp(self, x: Val) -> Val:
        """e^x; overflows to inf, underflows gradually to 0, NaN stays NaN."""
        low = _FAR_BELOW if self._scales(x) else -104.0
        n, r = self._reduced(self._clamp(x, low, 89.0))
        return self._scaled(self._horner(r, EXP), n)

    def exp_within(self, x: Val, low: float, high: float) -> Val:
        """e^x with the bits of `exp` between two limits, -85 and 85 at the widest; e^limit beyond
        them. NaN stays NaN.
        """
        n, r = self._reduced(self._clamp(x, low, high))
        p = self._horner(r, EXP)
        return self._scalef(p, n) if self._scales(p) else self._raised(p, n)

    def _reduced(self, x: Val) -> tuple[Val, Val]:
        """n and r with x = n ln2 + r, n whole, |r| <= ln2/2."""
        n = self._nearest(self._e.mul(x, 1 / math.log(2)))
        r = self._e.fma(n, -0.693359375, x)
        return n, self._e.fma(n, 2.12194440e-4, r)

    def expm1(self, x: Val) -> Val:
        """e^x - 1 as 2 (h (e^r - 1) + (h - 1/2)), h = 2^(n-1), which no x in reach makes infinite;
        where n is 0 that is e^r - 1, of which nothing cancels. It has the sign of x.
        """
        e = self._e
        n, r = self._reduced(self._clamp(x, -18.0, 89.0))
        square = e.mul(r, r)
        grown = e.fma(square, self._horner(r, EXPM1), r)
        half = self._half_power(n)
        rest = e.sub(half, 0.5)
        result = e.fma(half, grown, rest)
        return e.copysign(e.add(result, result), x)

    def _half_power(self, n: Val) -> Val:
        """2^(n - 1) for integral n in [-125, 128]."""
        if self._scales(n):
            return self._scalef(self._c(0.5, n), n)
        return self._power_of_two(self._e.convert("fptosi", n, "i32"), 126)

    def exp2(self, x: Val) -> Val:
        """2^x as 2^(x - n) * 2^n, n the integer below x. AVX-512 takes both from x, whatever it is,
        with three instructions less to wait for; also of fewer than four lanes, as one of them
        rounds x - n down.
        """
        if self._e.has_scalef and x.lanes <= max(_AVX512_LANES):
            wide = self._four_lanes(x)
            y = self._scalef(self._horner(self._above_integer(wide), EXP2), wide)
            return self._first_lanes(y, x.lanes)
        clamped = self._clamp(x, -150.0, 129.0)
        n = self._floor(clamped)
        return self._scaled(self._horner(self._difference_down(clamped, n), EXP2), n)

    def _difference_down(self, x: Val, n: Val) -> Val:
        """x - n; on CPUs that fuse multiply-adds rounded down, as vreduceps does: the same bits on
        each of them. Others have other bits all the same.
        """
        e = self._e
        nearest = e.sub(x, n)  # exact where it is less than a half, and so is the way back above
        if not (e.has_fma and e.has_libm):
            return nearest
        above = e.convert("extsi", e.compare("ogt", e.add(nearest, n), x), "i32")  # -1 where it is
        return e.bitcast(e.add(e.bitcast(nearest, "i32"), above), "f32")

    def _clamp(self, x: Val, low: float, high: float) -> Val:
        """x between two numbers; NaN stays NaN."""
        return self._e.minimum(self._e.maximum(x, low), high)

    def _power(self, y: Val) -> Val:
        """2^y for |y| <= 125 within 1e-7 of itself: no ends to look at, one step of scaling."""
        e = self._e
        n = self._nearest(y)
        return self._raised(self._horner(e.sub(y, n), POWER), n)

    def _raised(self, p: Val, n: Val) -> Val:
        """p * 2^n for integral n, of which neither factor nor product is denormal or infinite."""
        e = self._e
        step = e.shift_left(e.convert("fptosi", n, "i32"), _EXPONENT)
        return e.bitcast(e.add(e.bitcast(p, "i32"), step), "f32")

    def tanh(self, x: Val) -> Val:
        """|x| < 0.55: x * P(x^2); else sign * (1 - 2 / (e^(2|x|) + 1))."""
        e = self._e
        a = e.abs(x)
        small = e.mul(x, self._horner(e.mul(x, x), TANH))
        e2 = self._power(e.mul(e.minimum(a, 9.2), 2 / math.log(2)))
        one, two = self._c(1.0, x), self._c(2.0, x)
        large = e.sub(one, e.div(two, e.add(e2, one)))
        large = e.copysign(large, x)
        return self._select("olt", a, 0.55, small, large)

    def erf(self, x: Val) -> Val:
        """|x| < 1: x * P(x^2); else sign * (1 - 2^Q(|x|))."""
        e = self._e
        a = e.minimum(e.abs(x), 3.95)
        small = e.mul(x, self._horner(e.mul(a, a), ERF_SMALL))
        rest = self._power(self._horner(a, ERF_LARGE))
        large = e.copysign(e.sub(1.0, rest), x)
        return self._select("olt", a, 1.0, small, large)

    def short_erf(self, x: Val) -> Val:
        """erf for a result that is rounded to f16: x * P(x^2) up to 2.75, behind which that is 1.
        Of all f16 three have another neighbour of erf than the nearest.
        """
        e = self._e
        near = self._clamp(x, -2.75, 2.75)
        return e.mul(near, self._horner(e.mul(near, near), ERF_SHORT))

    def erfc(self, x: Val) -> Val:
        """1 - erf(x), of which nothing cancels: with a = |x| and t = (a - 3) / (a + 3)
        e^(-a^2) P(t), or 2 less that. Its relative error grows with a^2, as that of x counts for
        so much.
        """
        e = self._e
        a = e.minimum(e.abs(x), 10.2)  # there it is 0
        t = e.div(e.sub(a, 3.0), e.add(a, 3.0))
        powers = e.mul(e.mul(a, -math.log2(math.e)), a)
        tail = e.mul(self._horner(t, ERFCX), self.exp2(powers))
        other = e.sub(2.0, tail)
        return self._select("olt", x, 0.0, other, tail)

    def log(self, x: Val) -> Val:
        """Natural logarithm: x = m * 2^k with m in [sqrt(1/2), sqrt(2)); log m = f - f^2/2 + f^3
        P(f), f = m - 1.
        """
        e = self._e
        tiny = self._c(1.1754944e-38, x)
        scaled = e.mul(x, 2.0**25)
        normal = self._select("olt", x, tiny, scaled, x)
        shift_k = self._select("olt", x, tiny, self._c(-25.0, x), self._c(0.0, x))
        bits = e.bitcast(normal, "i32")
        k = e.shift_right_signed(e.sub(bits, _ROOT_HALF), _EXPONENT)
        mantissa = e.sub(bits, e.shift_left(k, _EXPONENT))
        f = e.sub(e.bitcast(mantissa, "f32"), 1.0)
        kf = e.add(e.convert("sitofp", k, "f32"), shift_k)
        square = e.mul(f, f)
        p = e.mul(e.mul(square, f), self._horner(f, LOG))
        p = e.fma(kf, -2.12194440e-4, p)
        p = e.fma(square, -0.5, p)
        result = e.fma(kf, self._c(0.693359375, x), e.add(f, p))
        infinity, zero = self._c(math.inf, x), self._c(0.0, x)
        result = self._select("oeq", x, infinity, infinity, result)
        result = self._select("oeq", x, zero, self._c(-math.inf, x), result)
        return self._select("uge", x, zero, self._keep_nan(x, result), self._c(math.nan, x))

    def _keep_nan(self, x: Val, result: Val) -> Val:
        return self._select("uno", x, x, x, result)
