"""exp, exp - 1, tanh, erf, 1 - erf and log on f32 vectors: own polynomials within 3 ulp, of 1 - erf
within 5 + 2 x^2, written with arith and vector.fma.

MLIR's LLVM lowering turns vector `math.exp` into scalar libm calls (10 to 37 times slower). The
coefficients are weighted minimax fits; `tools/fit_vector_math.py` computes them again and measures
the error in ulp.
"""

from __future__ import annotations

import math

from rcompiler.kernelgen.emitter import Emitter
from rcompiler.kernelgen.value import Val
from rcompiler.kernelgen.vector_math_coefficients import (
    ERF_LARGE,
    ERF_SMALL,
    ERFCX,
    EXP,
    EXP2,
    EXPM1,
    LOG,
    POWER,
    TANH,
)

# Of vscalefps and vreduceps: lanes, the rounding mode that stands for the one that is set, and the
# operand of vreduceps that asks for the integer below, without an exception for what is cut off.
_AVX512_LANES = (4, 8, 16)
_CURRENT_ROUNDING = 4
_BELOW = 0b1001


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

    def _binary(self, op: str, a: Val, b: Val) -> Val:
        return self._e.op(f"arith.{op} {a.name}, {b.name} : {a.type}", [a, b], "f32")

    def _fma(self, a: Val, b: Val, c: Val) -> Val:
        return self._e.fma(a, b, c)

    def _unary(self, op: str, x: Val) -> Val:
        return self._e.op(f"math.{op} {x.name} : {x.type}", [x], "f32")

    def _nearest(self, x: Val) -> Val:
        """The integer nearest to x, |x| < 2^22; an even one where two are."""
        if self._e.has_fma:
            return self._unary("roundeven", x)
        # Before SSE4.1 that is a call for every lane. At this magnitude the last place is 1.
        magic = self._c(1.5 * 2.0**23, x)
        return self._binary("subf", self._binary("addf", x, magic), magic)

    def _floor(self, x: Val) -> Val:
        """The greatest integer that is not above x, |x| < 2^22."""
        if self._e.has_fma:
            return self._unary("floor", x)
        nearest = self._nearest(x)
        below = self._binary("subf", nearest, self._c(1.0, x))
        return self._select("ogt", nearest, x, below, nearest)

    def _horner(self, x: Val, coefficients: tuple[float, ...]) -> Val:
        total = self._c(coefficients[-1], x)
        for coefficient in coefficients[-2::-1]:
            total = self._fma(total, x, self._c(coefficient, x))
        return total

    def _select(self, predicate: str, a: Val, b: Val, yes: Val, no: Val) -> Val:
        mask_type = f"vector<{a.lanes}xi1>" if a.lanes else "i1"
        mask = self._e.op(f"arith.cmpf {predicate}, {a.name}, {b.name} : {a.type}", [a, b], "i1")
        types = f"{mask_type}, {yes.type}" if a.lanes else yes.type
        return self._e.op(
            f"arith.select {mask.name}, {yes.name}, {no.name} : {types}", [mask, yes, no], "f32"
        )

    def _integers(self, x: Val) -> str:
        return f"vector<{x.lanes}xi32>" if x.lanes else "i32"

    def _scaled(self, p: Val, n: Val) -> Val:
        """p * 2^n for integral n in [-252, 254], rounded once: one instruction, or two steps so
        that neither factor overflows or is denormal.
        """
        kind = self._integers(p)
        e = self._e
        if self._scales(p):
            return self._scalef(p, n)
        i = e.op(f"arith.fptosi {n.name} : {n.type} to {kind}", [n], "i32")
        one = e.constant(1, "i32", p.lanes)
        half = e.op(f"arith.shrsi {i.name}, {one.name} : {kind}", [i, one], "i32")
        rest = e.op(f"arith.subi {i.name}, {half.name} : {kind}", [i, half], "i32")
        for part in (half, rest):
            bias = e.constant(127, "i32", p.lanes)
            shift = e.constant(23, "i32", p.lanes)
            biased = e.op(f"arith.addi {part.name}, {bias.name} : {kind}", [part, bias], "i32")
            raised = e.op(
                f"arith.shli {biased.name}, {shift.name} : {kind}", [biased, shift], "i32"
            )
            factor = e.op(f"arith.bitcast {raised.name} : {kind} to {p.type}", [raised], "f32")
            p = self._binary("mulf", p, factor)
        return p

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
        values, types = (", ".join(getattr(v, f) for v in operands) for f in ("name", "type"))
        text = f'llvm.call_intrinsic "llvm.x86.avx512.mask.{name}.ps.{32 * x.lanes}"({values})'
        return self._e.op(f"{text} : ({types}) -> {x.type}", operands, "f32", x.lanes)

    # -- functions
    def exp(self, x: Val) -> Val:
        """e^x; overflows to inf, underflows gradually to 0, NaN stays NaN."""
        n, r = self._reduced(self._clamp(x, -104.0, 89.0))
        return self._scaled(self._horner(r, EXP), n)

    def _reduced(self, x: Val) -> tuple[Val, Val]:
        """n and r with x = n ln2 + r, n whole, |r| <= ln2/2."""
        n = self._nearest(self._binary("mulf", x, self._c(1 / math.log(2), x)))
        r = self._fma(n, self._c(-0.693359375, x), x)
        return n, self._fma(n, self._c(2.12194440e-4, x), r)

    def expm1(self, x: Val) -> Val:
        """e^x - 1 as 2 (h (e^r - 1) + (h - 1/2)), h = 2^(n-1), which no x in reach makes infinite;
        where n is 0 that is e^r - 1, of which nothing cancels. It has the sign of x.
        """
        n, r = self._reduced(self._clamp(x, -18.0, 89.0))
        square = self._binary("mulf", r, r)
        grown = self._fma(square, self._horner(r, EXPM1), r)
        half = self._half_power(n)
        rest = self._binary("subf", half, self._c(0.5, x))
        result = self._fma(half, grown, rest)
        return self._copysign(self._binary("addf", result, result), x)

    def _half_power(self, n: Val) -> Val:
        """2^(n - 1) for integral n in [-125, 128]."""
        if self._scales(n):
            return self._scalef(self._c(0.5, n), n)
        e, kind = self._e, self._integers(n)
        i = e.op(f"arith.fptosi {n.name} : {n.type} to {kind}", [n], "i32")
        bias, places = e.constant(126, "i32", n.lanes), e.constant(23, "i32", n.lanes)
        biased = e.op(f"arith.addi {i.name}, {bias.name} : {kind}", [i, bias], "i32")
        bits = e.op(f"arith.shli {biased.name}, {places.name} : {kind}", [biased, places], "i32")
        return e.op(f"arith.bitcast {bits.name} : {kind} to {n.type}", [bits], "f32")

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
        return self._scaled(self._horner(self._binary("subf", clamped, n), EXP2), n)

    def _clamp(self, x: Val, low: float, high: float) -> Val:
        # minimumf/maximumf propagate NaN
        return self._binary(
            "minimumf", self._binary("maximumf", x, self._c(low, x)), self._c(high, x)
        )

    def _power(self, y: Val) -> Val:
        """2^y for |y| <= 125 within 1e-7 of itself: no ends to look at, one step of scaling."""
        e, kind = self._e, self._integers(y)
        n = self._nearest(y)
        p = self._horner(self._binary("subf", y, n), POWER)
        i = e.op(f"arith.fptosi {n.name} : {n.type} to {kind}", [n], "i32")
        places = e.constant(23, "i32", y.lanes)
        step = e.op(f"arith.shli {i.name}, {places.name} : {kind}", [i, places], "i32")
        bits = e.op(f"arith.bitcast {p.name} : {p.type} to {kind}", [p], "i32")
        raised = e.op(f"arith.addi {bits.name}, {step.name} : {kind}", [bits, step], "i32")
        return e.op(f"arith.bitcast {raised.name} : {kind} to {y.type}", [raised], "f32")

    def tanh(self, x: Val) -> Val:
        """|x| < 0.55: x * P(x^2); else sign * (1 - 2 / (e^(2|x|) + 1))."""
        a = self._unary("absf", x)
        small = self._binary("mulf", x, self._horner(self._binary("mulf", x, x), TANH))
        bounded = self._binary("minimumf", a, self._c(9.2, x))
        e2 = self._power(self._binary("mulf", bounded, self._c(2 / math.log(2), x)))
        one, two = self._c(1.0, x), self._c(2.0, x)
        large = self._binary("subf", one, self._binary("divf", two, self._binary("addf", e2, one)))
        large = self._copysign(large, x)
        return self._select("olt", a, self._c(0.55, x), small, large)

    def erf(self, x: Val) -> Val:
        """|x| < 1: x * P(x^2); else sign * (1 - 2^Q(|x|))."""
        a = self._binary("minimumf", self._unary("absf", x), self._c(3.95, x))
        small = self._binary("mulf", x, self._horner(self._binary("mulf", a, a), ERF_SMALL))
        rest = self._power(self._horner(a, ERF_LARGE))
        large = self._copysign(self._binary("subf", self._c(1.0, x), rest), x)
        return self._select("olt", a, self._c(1.0, x), small, large)

    def erfc(self, x: Val) -> Val:
        """1 - erf(x), of which nothing cancels: with a = |x| and t = (a - 3) / (a + 3)
        e^(-a^2) P(t), or 2 less that. Its relative error grows with a^2, as that of x counts for
        so much.
        """
        a = self._binary("minimumf", self._unary("absf", x), self._c(10.2, x))  # there it is 0
        three = self._c(3.0, x)
        t = self._binary("divf", self._binary("subf", a, three), self._binary("addf", a, three))
        powers = self._binary("mulf", self._binary("mulf", a, self._c(-math.log2(math.e), x)), a)
        tail = self._binary("mulf", self._horner(t, ERFCX), self.exp2(powers))
        other = self._binary("subf", self._c(2.0, x), tail)
        return self._select("olt", x, self._c(0.0, x), other, tail)

    def _copysign(self, magnitude: Val, sign: Val) -> Val:
        return self._e.op(
            f"math.copysign {magnitude.name}, {sign.name} : {magnitude.type}",
            [magnitude, sign],
            "f32",
        )

    def log(self, x: Val) -> Val:
        """Natural logarithm: x = m * 2^k with m in [sqrt(1/2), sqrt(2)); log m = f - f^2/2 + f^3
        P(f), f = m - 1.
        """
        e, kind = self._e, self._integers(x)
        tiny = self._c(1.1754944e-38, x)
        scaled = self._binary("mulf", x, self._c(2.0**25, x))
        normal = self._select("olt", x, tiny, scaled, x)
        shift_k = self._select("olt", x, tiny, self._c(-25.0, x), self._c(0.0, x))
        bits = e.op(f"arith.bitcast {normal.name} : {normal.type} to {kind}", [normal], "i32")
        offset = e.constant(0x3F3504F3, "i32", x.lanes)
        moved = e.op(f"arith.subi {bits.name}, {offset.name} : {kind}", [bits, offset], "i32")
        places = e.constant(23, "i32", x.lanes)
        k = e.op(f"arith.shrsi {moved.name}, {places.name} : {kind}", [moved, places], "i32")
        back = e.op(f"arith.shli {k.name}, {places.name} : {kind}", [k, places], "i32")
        mantissa = e.op(f"arith.subi {bits.name}, {back.name} : {kind}", [bits, back], "i32")
        m = e.op(f"arith.bitcast {mantissa.name} : {kind} to {x.type}", [mantissa], "f32")
        f = self._binary("subf", m, self._c(1.0, x))
        kf = e.op(f"arith.sitofp {k.name} : {kind} to {x.type}", [k], "f32")
        kf = self._binary("addf", kf, shift_k)
        square = self._binary("mulf", f, f)
        p = self._binary("mulf", self._binary("mulf", square, f), self._horner(f, LOG))
        p = self._fma(kf, self._c(-2.12194440e-4, x), p)
        p = self._fma(square, self._c(-0.5, x), p)
        result = self._fma(kf, self._c(0.693359375, x), self._binary("addf", f, p))
        infinity, zero = self._c(math.inf, x), self._c(0.0, x)
        result = self._select("oeq", x, infinity, infinity, result)
        result = self._select("oeq", x, zero, self._c(-math.inf, x), result)
        return self._select("uge", x, zero, self._keep_nan(x, result), self._c(math.nan, x))

    def _keep_nan(self, x: Val, result: Val) -> Val:
        return self._select("uno", x, x, x, result)
