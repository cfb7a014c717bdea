"""Operations on f16 on a core, with the bits that f32 has, rounded after each.

A sum, a difference, a product and a quotient of two f16 that are computed in f32 and rounded again
are those that are rounded once: f32 has more than twice the digits, and two besides (Figueroa, When
is double rounding innocuous?, 1995). So a core with AVX512_FP16 does without the conversions, which
take longer than what is between them.

A quotient by a constant is a product with its reciprocal, in f32, where that gives the same for
each of the 2^16 dividends: a division takes ten times as long.

e^x is taken between limits beyond which f16 has 0 and infinity alone: what is denormal in f32,
which masked scores of a softmax would make, takes a core a hundred times as long. erf is one
polynomial, a third of the work of f32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
from torch_mlir import ir

from rcompiler.kernelgen.emitter import Emitter
from rcompiler.kernelgen.value import Val
from rcompiler.kernelgen.vector_math import VectorMath
from rcompiler.linalg.constants import scalar_number

_NATIVE = ("arith.addf", "arith.divf", "arith.mulf", "arith.subf")
_EXP_LIMITS = -18.0, 12.0  # e^-18 is less than half of the least f16, e^12 more than the largest


class HalfMath:
    """Writes ops on f16 that have a faster form than f32, rounded."""

    def __init__(self, emitter: Emitter) -> None:
        self._e = emitter
        self._math = VectorMath(emitter)

    def op(self, op: ir.Operation, operands: Sequence[Val]) -> Val | None:
        """The result of an arith or math op on values of f16; None if it has no other form."""
        e = self._e
        if op.name == "math.exp":
            return self._rounded(operands[0], lambda x: self._math.exp_within(x, *_EXP_LIMITS))
        if op.name == "math.erf":
            return self._rounded(operands[0], self._math.short_erf)
        divisor = scalar_number(op.operands[1]) if op.name == "arith.divf" else None
        factor = None if divisor is None else reciprocal(divisor)
        if factor is not None:
            return self._rounded(operands[0], lambda x: e.mul(x, factor))
        if e.has_f16 and op.name in _NATIVE:
            return e.elementwise(op.name, *operands)
        return None

    def _rounded(self, x: Val, function: Callable[[Val], Val]) -> Val:
        """What a function makes of f32, of an f16 and rounded to one."""
        return self._e.convert("truncf", function(self._e.convert("extf", x, "f32")), "f16")


@cache
def reciprocal(divisor: float) -> float | None:
    """The f32 that each f16 may be multiplied by in place of a division by an f16, if there is
    one."""
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
    with np.errstate(all="ignore"):
        factor = np.float32(1) / np.float32(divisor)
        exact, found = (v.astype(np.float16) for v in (every / np.float32(divisor), every * factor))
    same = (exact.view(np.uint16) == found.view(np.uint16)) | (np.isnan(exact) & np.isnan(found))
    return float(factor) if np.isfinite(factor) and same.all() else None
