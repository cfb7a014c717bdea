"""Arithmetic on f64 scalars, as text: the building blocks of elementary functions."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from rcompiler.kernelgen.emitter import Emitter
from rcompiler.kernelgen.value import Val


class F64:
    """Operations on f64 values and their bits; the emitter has fused multiply-add."""

    def __init__(self, emitter: Emitter) -> None:
        self.e = emitter

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

    # -- of i64
    def iadd(self, a: Val, b: Val) -> Val:
        return self.op("arith.addi", a, b)

    def bit(self, value: Val, bit: int) -> Val:
        """An i1: whether any of these bits is set."""
        return self.compare("ne", self.op("arith.andi", value, self.i(bit)), self.i(0))
