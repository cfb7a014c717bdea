"""Quotients of f32 by constants, of which only the nearest integer counts: without a division.

    r + e = 1 / b, both rounded       q0 = x r + (x e)       q1 = q0 + r (x - b q0)

q0 is one of the two floats around the quotient, and with a reciprocal r that is rounded correctly
the last step then gives the quotient as IEEE 754 rounds it (Markstein; Muller et al., Handbook of
Floating-Point Arithmetic, "Division using FMA"), where nothing overflows or underflows: x is
bounded here, and a quotient so small that it is not rounded correctly is nearest to 0 anyway. For
most scales q0 has the same nearest integers, which `nearest_quotient` finds out; the last step is
then left out. Four multiply-adds of vectors take 2 cycles, a division 16 (Sapphire Rapids, 512
bits). This is how a value is quantised by a scale that is known. One instruction then rounds it to
an integer, which fits: `nearest`.
"""

from __future__ import annotations

from torch_mlir import ir

from rcompiler.kernelgen.typed_ops import TypedOps
from rcompiler.kernelgen.value import Val
from rcompiler.linalg.known_division import Division, nearest_division, rounded_by
from rcompiler.linalg.nearest_quotient import reciprocal_of, same_integers


def quotient(ops: TypedOps, x: Val, division: Division) -> Val:
    """x / divisor, see above."""
    divisor = division.divisor
    reciprocal, rest = reciprocal_of(divisor)
    q = ops.fma(x, reciprocal, ops.mul(x, rest))
    if same_integers(division.low, division.high, divisor):
        return q
    return ops.fma(ops.fma(q, -divisor, x), reciprocal, q)


def rounds(op: ir.Operation) -> bool:
    """Whether an arith.fptosi makes an i32 of the integer nearest to a number that fits: a quotient
    by a constant, or the product that rtask-lift-scales makes of one.
    """
    rounded = rounded_by(op)
    product = rounded is not None and rounded.name == "math.fma"
    return product or nearest_division(op) is not None


def nearest(ops: TypedOps, x: Val) -> Val:
    """The integer nearest to x, the even one of two; i32."""
    of = f"v{x.lanes}" if x.lanes else ""
    return ops.intrinsic(f"llvm.lrint.{of}i32.{of}f32", [x], "i32", x.lanes)
