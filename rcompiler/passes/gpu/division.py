"""Quotients of f32, rounded as IEEE 754 says, without a call.

ptxas writes `div.rn.f32` as a short sequence and a call for what that does not cover, and waits for
each wgmma of a function that calls (C7509). Here f64 covers all of it:

    r0 = rcp.approx.ftz.f64(b)               relative error below 2^-18
    r = two steps of Newton                  2^-52
    q = a r,  q' = q + r (a - b q)           the f64 next to the quotient, or the quotient itself
    f32(q')

Nothing is rounded twice to a wrong place: a quotient of two numbers of 24 bits that is no f32, and
no middle between two of them (25 bits), is further than 2^-49 of itself away from all of these. q'
is 0 or no number only if the quotient is one of 0, infinity and NaN; then it is a r0, which has its
sign. By a constant r is known, and rounded once.

f16 and bf16 are divided in f32, which is exact as well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch_mlir import ir
from torch_mlir.dialects import arith

from rcompiler.linalg.constants import scalar_number
from rcompiler.passes.gpu.scalars import each_lane, in_f32, intrinsic, lane_type
from rcompiler.passes.ir.operators import nested

_NEWTON_STEPS = 2
_RECIPROCAL = "llvm.nvvm.rcp.approx.ftz.d"
_DIVISION = "arith.divf"


def divide_exactly(gpu_module: ir.Operation) -> None:
    """Rewrite the divisions of a gpu.module that may not be approximated, but those of f64."""
    for op in [op for op in nested(gpu_module) if op.name == _DIVISION]:
        kind = op.results[0].type
        if isinstance(lane_type(kind), ir.F64Type) or _is_fast(op):
            continue
        with op.location, ir.InsertionPoint(op):
            result = each_lane(list(op.operands), kind, lambda lane: in_f32(lane, _quotient))
        op.results[0].replace_all_uses_with(result)
        op.erase()


def _is_fast(op: ir.Operation) -> bool:
    flags = str(op.attributes["fastmath"]) if "fastmath" in op.attributes else ""
    return any(flag in flags for flag in ("arcp", "afn", "fast>"))


def _quotient(values: Sequence[ir.Value]) -> ir.Value:
    """Of two numbers of f32."""
    f64 = ir.F64Type.get()
    divisor = _constant_of(values[1])
    a, b = (arith.extf(f64, value) for value in values)
    minus_b = arith.negf(b)
    if divisor is not None:
        rough = r = arith.constant(f64, 1 / divisor)
    else:
        rough = r = intrinsic(_RECIPROCAL, [b], f64)
        one = arith.constant(f64, 1.0)
        for _ in range(_NEWTON_STEPS):
            r = _fma(r, _fma(minus_b, r, one), r)
    q = arith.mulf(a, r)
    q = _fma(_fma(minus_b, q, a), r, q)
    is_known = arith.cmpf(arith.CmpFPredicate.ONE, q, arith.constant(f64, 0.0))  # neither 0 nor NaN
    chosen = arith.select(is_known, q, arith.mulf(a, rough))
    return arith.truncf(values[0].type, chosen)


def _constant_of(value: ir.Value) -> float | None:
    """The number that a value always is, if it has a reciprocal."""
    number = scalar_number(value)
    return number if number and math.isfinite(number) else None


def _fma(a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    return intrinsic(f"llvm.fma.{a.type}", [a, b, c], a.type)
