"""Dot groups: reduction steps that one instruction multiplies and adds up in every lane.

    acc[lane] += sum over g of a[.., g] * b[.., lane, g]        g: 4 steps of i8, 2 of i16 or bf16

The innermost reduction dim is the last index of both factors and occurs nowhere else, so a group is
one 32-bit word of memory: a word that all lanes share for one factor, consecutive words for the
other (rtask-group-dots makes this form). This file tells what is such a group; `dot_step` has
the code of one.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir

from rcompiler.device.model import DOT_STEPS
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.maps import dim_of, dims_of
from rcompiler.linalg.values import defining, element_of, integers, shape_of
from rcompiler.linalg.views import RESHAPES

SUMS = {"i8": "i32", "i16": "i32", "bf16": "f32"}  # type of the accumulators
_HALF_WORDS = (("i8", True), ("i8", False), ("i16", True))  # that signed 16 bits hold
_SIGNED = {"arith.extsi": True, "arith.extui": False, "arith.extf": True}


@dataclass(frozen=True)
class DotGroup:
    """The dot groups of a product.

    factors: their operand numbers; signed: whether each is a signed number; element: their type;
    dim: the reduction dim that is a group.
    """

    factors: tuple[int, int]
    signed: tuple[bool, bool]
    element: str
    dim: int

    @property
    def steps(self) -> int:
        """Reduction steps in one group."""
        return DOT_STEPS[self.element]


def dot_group(generic: Generic) -> DotGroup | None:
    """The dot groups of a sum of products of extended elements; None if it has no such form."""
    if generic.product is None or len(generic.inputs) != 2 or not generic.reduction_dims:
        return None
    extended = [_extended(generic, factor) for factor in generic.product]
    (first, first_signed), (second, second_signed) = extended
    if {first, second} != {0, 1}:
        return None
    element, dim = element_of(generic.inputs[0]), generic.reduction_dims[-1]
    if (
        element_of(generic.inputs[1]) != element
        or SUMS.get(element) != element_of(generic.inits[0])
        or DOT_STEPS[element] != generic.sizes[dim]
        or not all(_ends_in(generic, k, dim) for k in (0, 1))
    ):
        return None
    return DotGroup((first, second), (first_signed, second_signed), element, dim)


@dataclass(frozen=True)
class NarrowFactors:
    """Factors of a product of integers that are extended to 32 bits from 16 or fewer.

    factors: their operand numbers; signed: whether each is a signed number.
    """

    factors: tuple[int, int]
    signed: tuple[bool, bool]


def narrow_factors(generic: Generic) -> NarrowFactors | None:
    """The factors of a sum of 32 bits of products of i8 or signed i16; None if it is none such."""
    if generic.product is None or len(generic.inputs) != 2 or not generic.reduction_dims:
        return None
    extended = [_extended(generic, factor) for factor in generic.product]
    (first, first_signed), (second, second_signed) = extended
    if {first, second} != {0, 1} or element_of(generic.inits[0]) != "i32":
        return None
    for operand, signed in extended:
        if (element_of(generic.inputs[operand]), signed) not in _HALF_WORDS:
            return None
    return NarrowFactors((first, second), (first_signed, second_signed))


def _extended(generic: Generic, factor: ir.Value) -> tuple[int, bool]:
    """(operand number, signed) of a factor; the number is -1 if it is no extended input."""
    op = defining(factor)
    arguments = list(generic.block.arguments)[:2]
    if op is None or op.name not in _SIGNED or op.operands[0] not in arguments:
        return -1, False
    return arguments.index(op.operands[0]), _SIGNED[op.name]


def _ends_in(generic: Generic, operand: int, dim: int) -> bool:
    """Whether an operand lies in memory, and `dim` is its last index and no part of another. It may
    be a slice, as in the body of one task, that has all of each group.
    """
    *others, last = generic.maps[operand].results
    if dim_of(last) != dim or any(dim in dims_of(e) for e in others):
        return False
    op = defining(generic.inputs[operand])
    while op is not None and op.name == "tensor.extract_slice":
        if integers(op, "static_sizes")[-1] != shape_of(op.operands[0])[-1]:
            return False
        op = defining(op.operands[0])
    while op is not None and op.name in RESHAPES:
        op = defining(op.operands[0])
    return op is None
