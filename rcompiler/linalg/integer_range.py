"""The least and the greatest number that an integer of a body can be, where its ops tell.

A number that is quantised, say, is bounded before it is rounded: to make a byte of it and to extend
that again changes nothing.
"""

from __future__ import annotations

from torch_mlir import ir

from rcompiler.linalg.constants import scalar_of
from rcompiler.linalg.element_types import BITS
from rcompiler.linalg.known_division import nearest_division
from rcompiler.linalg.values import defining


def integer_range(value: ir.Value) -> tuple[int, int] | None:
    """(least, greatest) of a signed integer of 32 bits; None where it may be any."""
    op = defining(value)
    if op is None or str(value.type) != "i32":
        return None
    if op.name == "arith.constant":
        number = scalar_of(value)
        return None if number is None else (int(number), int(number))
    if op.name == "arith.fptosi":
        division = nearest_division(op)
        return None if division is None else division.integers
    if op.name == "arith.addi":
        parts = [integer_range(operand) for operand in op.operands]
        if None in parts:
            return None
        least, greatest = (sum(ends) for ends in zip(*filter(None, parts), strict=True))
        return (least, greatest) if _fits(least, greatest, "i32", signed=True) else None
    return None


def keeps_number(value: ir.Value, element: str, *, signed: bool) -> bool:
    """Whether `value` cut to a narrower type and extended, with or without a sign, is the same."""
    limits = integer_range(value)
    return limits is not None and _fits(*limits, element, signed=signed)


def _fits(least: int, greatest: int, element: str, *, signed: bool) -> bool:
    half = 1 << (BITS[element] - 1)
    low, high = (-half, half - 1) if signed else (0, 2 * half - 1)
    return low <= least and greatest <= high
