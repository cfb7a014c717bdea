"""Arithmetic on f64 scalars, as text: the building blocks of elementary functions."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from rcompiler.kernelgen.emitter import Variant
from rcompiler.kernelgen.value import Val


class F64(Variant):
    """Operations on f64 values and their bits: what hardly ever runs is not hoisted out of its
    branch.
    """

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
