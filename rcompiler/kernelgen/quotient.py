"""Quotients of f32 by constants, of which only the nearest integer counts: without a division.

    r + e = 1 / b, both rounded       q0 = x r + (x e)       q1 = q0 + r (x - b q0)

q0 is one of the two floats around the quotient, and with a reciprocal r that is rounded correctly
the last step then gives the quotient as IEEE 754 rounds it (Markstein; Muller et al., Handbook of
Floating-Point Arithmetic, "Division using FMA"), where nothing overflows or underflows: x is
bounded here, and a quotient so small that it is not rounded correctly is nearest to 0 anyway. Four
multiply-adds of vectors take 2 cycles, a division 16 (Sapphire Rapids, 512 bits). This is how a
value is quantised by a scale that is known. One instruction then rounds it to an integer, which
fits: `nearest`.
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
_FITS = 2.0**30  # quotients below are integers of 32 bits
_OLT, _OGT = 4, 2  # predicates of arith.cmpf


def known_divisor(op: ir.Operation) -> float | None:
    """The constant that an arith.divf may multiply by the reciprocal of; None: it has to divide."""
    divisor = scalar_number(op.operands[1])
    users = [use.owner.operation.name for use in op.result.uses]
    if divisor is None or users != ["math.roundeven"] or not isinstance(op.result.type, ir.F32Type):
        return None
    if not _RANGE[0] <= abs(divisor) <= _RANGE[1] or _limits(op.operands[0]) is None:
        return None
    return divisor


def quotient(ops: TypedOps, x: Val, divisor: float) -> Val:
    """x / divisor, see above."""
    reciprocal = float(np.float32(1) / np.float32(divisor))
    rest = float(np.float32(1 / float(np.float32(divisor)) - reciprocal))
    q = ops.fma(x, reciprocal, ops.mul(x, rest))
    return ops.fma(ops.fma(q, -divisor, x), reciprocal, q)


def is_nearest(op: ir.Operation) -> bool:
    """Whether an arith.fptosi makes an i32 of the integer nearest to such a quotient, by a divisor
    that lets it fit.
    """
    rounded = defining(op.operands[0])
    if rounded is None or rounded.name != "math.roundeven" or len(list(rounded.result.uses)) != 1:
        return False
    divided = defining(rounded.operands[0])
    if divided is None or divided.name != "arith.divf" or str(op.result.type) != "i32":
        return False
    divisor, limits = known_divisor(divided), _limits(divided.operands[0])
    return divisor is not None and limits is not None and limits < abs(divisor) * _FITS


def nearest(ops: TypedOps, x: Val) -> Val:
    """The integer nearest to x, the even one of two; i32."""
    of = f"v{x.lanes}" if x.lanes else ""
    return ops.intrinsic(f"llvm.lrint.{of}i32.{of}f32", [x], "i32", x.lanes)


def _limits(value: ir.Value) -> float | None:
    """The largest magnitude of a value that is `high` at most, of one that is `low` at least, of
    two finite constants that are not too large; None of another one.
    """
    high = _chosen(value, _OLT)
    low = None if high is None else _chosen(high[0], _OGT)
    return None if high is None or low is None else max(abs(high[1]), abs(low[1]))


def _chosen(value: ir.Value, predicate: int) -> tuple[ir.Value, float] | None:
    """The x and the limit of `x < limit ? x : limit`, or of > by the predicate."""
    op = defining(value)
    if op is None or op.name != "arith.select":
        return None
    condition, x, limit = op.operands
    test, number = defining(condition), scalar_number(limit)
    if test is None or test.name != "arith.cmpf" or number is None:
        return None
    same = ir.IntegerAttr(test.attributes["predicate"]).value == predicate
    fits = math.isfinite(number) and abs(number) <= _RANGE[1]
    return (x, number) if same and fits and list(test.operands) == [x, limit] else None
