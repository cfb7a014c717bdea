"""Arithmetic on f64 scalars, as text: the building blocks of elementary functions."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from rcompiler.kernelgen.emitter import Emitter
from rcompiler.kernelgen.typed_ops import TypedOps
from rcompiler.kernelgen.value import Val
from rcompiler.linalg.affine import Linear


class F64(TypedOps):
    """Operations on f64 values and their bits, none of which is hoisted out of a branch."""

    has_fma = True

    def __init__(self, emitter: Emitter) -> None:
        self.e = emitter

    def op(self, text: str, operands: Sequence[Val], element: str, lanes: int | None = None) -> Val:
        """As `TypedOps.op`: what hardly ever runs is not hoisted out of its branch."""
        return self.e.guarded.op(text, operands, element, lanes)

    def constant(self, value: float | int | bool, element: str, lanes: int = 0) -> Val:
        return self.e.constant(value, element, lanes)

    def index(self, value: Linear) -> str:
        return self.e.index(value)

    def c(self, value: float) -> Val:
        """A constant of f64."""
        return self.constant(value, "f64")

    def i(self, value: int) -> Val:
        """A constant of i64."""
        return self.constant(value, "i64")

    def horner(self, x: Val, coefficients: Sequence[Fraction]) -> Val:
        """c0 + c1 x + c2 x^2 + ..."""
        *rest, last = [self.c(float(c)) for c in coefficients]
        for coefficient in reversed(rest):
            last = self.fma(last, x, coefficient)
        return last

    def bit(self, value: Val, bit: int) -> Val:
        """An i1: whether any of these bits is set."""
        return self.compare("ne", self.bit_and(value, bit), 0)
