"""Divisions of f32 by a constant of which only the nearest integer counts, as bodies have them.

    bounded(x, low, high) / constant, rounded to an integer

What is known of the result, and that nothing overflows, lets `kernelgen.quotient` and
rtask-lift-scales multiply.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from torch_mlir import ir

from rcompiler.linalg.constants import scalar_number
from rcompiler.linalg.values import defining

_RANGE = 2.0**-60, 2.0**60  # of divisors and of dividends that may be the larger: nothing overflows
_FITS = 2.0**30  # quotients below are integers of 32 bits
_OLT, _OGT = 4, 2  # predicates of arith.cmpf


@dataclass(frozen=True)
class Division:
    """An arith.divf of a value between `low` and `high` by a constant, rounded to an integer."""

    low: float
    high: float
    divisor: float

    @property
    def integers(self) -> tuple[int, int]:
        """The least and the greatest result."""
        ends = (np.rint(np.float32(x) / np.float32(self.divisor)) for x in (self.low, self.high))
        least, greatest = sorted(map(int, ends))
        return least, greatest


def known_division(op: ir.Operation) -> Division | None:
    """The division of an arith.divf that may multiply by the reciprocal; None: it has to divide."""
    divisor = scalar_number(op.operands[1])
    users = [use.owner.operation.name for use in op.result.uses]
    if divisor is None or users != ["math.roundeven"] or not isinstance(op.result.type, ir.F32Type):
        return None
    limits = _limits(op.operands[0])
    if not _RANGE[0] <= abs(divisor) <= _RANGE[1] or limits is None:
        return None
    return Division(*limits, divisor)


def nearest_division(op: ir.Operation) -> Division | None:
    """The division if an arith.fptosi makes an i32 of the integer nearest to its quotient, by a
    divisor that lets it fit.
    """
    divided = rounded_by(op)
    division = None if divided is None or divided.name != "arith.divf" else known_division(divided)
    if division is None:
        return None
    fits = max(abs(division.low), abs(division.high)) < abs(division.divisor) * _FITS
    return division if fits else None


def rounded_by(op: ir.Operation) -> ir.Operation | None:
    """What computes a number that an arith.fptosi makes the nearest i32 of, and nothing else."""
    rounded = defining(op.operands[0])
    if rounded is None or rounded.name != "math.roundeven" or len(list(rounded.result.uses)) != 1:
        return None
    return defining(rounded.operands[0]) if str(op.result.type) == "i32" else None


def _limits(value: ir.Value) -> tuple[float, float] | None:
    """The least and the greatest of a value that is `high` at most, of one that is `low` at least,
    of two finite constants that are not too large; None of another one.
    """
    high = _chosen(value, _OLT)
    low = None if high is None else _chosen(high[0], _OGT)
    return None if high is None or low is None else (min(low[1], high[1]), high[1])


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
