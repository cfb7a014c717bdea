"""Quotients of f32 by constants, of which only the nearest integer counts: without a division.

    r = 1 / b, rounded       q0 = x r       q1 = q0 + r (x - b q0)       q2 = q1 + r (x - b q1)

q1 is one of the two floats around the quotient, and with a reciprocal that is rounded correctly the
last step then gives the quotient as IEEE 754 rounds it (Markstein; Muller et al., Handbook of
Floating-Point Arithmetic, "Division using FMA"), where nothing overflows or underflows: x is
bounded here, and a quotient so small that it is not rounded correctly is nearest to 0 anyway. Five
multiply-adds of vectors take 2.5 cycles, a division 16 (Sapphire Rapids, 512 bits). This is how a
value is quantised by a scale that is known.
"""

from __future__ import annotations

import math

import numpy as np
from torch_mlir import ir

from rcompiler.kernelgen.typed_ops import TypedOps
from rcompiler.kernelgen.value import Val
from rcompiler.linalg.constants import scalar_number
from rcompiler.linalg.values import defining

_RANGE = 2.0**-60, 2.0**60  # of divisors and of dividends that may be the larger: nothing overflows
_OLT, _OGT = 4, 2  # predicates of arith.cmpf


def known_divisor(op: ir.Operation) -> float | None:
    """The constant that an arith.divf may multiply by the reciprocal of; None: it has to divide."""
    divisor = scalar_number(op.operands[1])
    users = [use.owner.operation.name for use in op.result.uses]
    if divisor is None or users != ["math.roundeven"] or not isinstance(op.result.type, ir.F32Type):
        return None
    if not _RANGE[0] <= abs(divisor) <= _RANGE[1] or not _is_bounded(op.operands[0]):
        return None
    return divisor


def quotient(ops: TypedOps, x: Val, divisor: float) -> Val:
    """x / divisor, see above."""
    reciprocal = float(np.float32(1) / np.float32(divisor))
    q = ops.mul(x, reciprocal)
    for _ in range(2):
        q = ops.fma(ops.fma(q, -divisor, x), reciprocal, q)
    return q


def _is_bounded(value: ir.Value) -> bool:
    """Whether a value is `high` at most, and that is chosen from what is `low` at least; of two
    finite constants that are not too large.
    """
    inner = _chosen(value, _OLT)
    return inner is not None and _chosen(inner, _OGT) is not None


def _chosen(value: ir.Value, predicate: int) -> ir.Value | None:
    """The x of `x < limit ? x : limit`, or of > by the predicate."""
    op = defining(value)
    if op is None or op.name != "arith.select":
        return None
    condition, x, limit = op.operands
    test, number = defining(condition), scalar_number(limit)
    if test is None or test.name != "arith.cmpf" or number is None:
        return None
    same = ir.IntegerAttr(test.attributes["predicate"]).value == predicate
    fits = math.isfinite(number) and abs(number) <= _RANGE[1]
    return x if same and fits and list(test.operands) == [x, limit] else None
