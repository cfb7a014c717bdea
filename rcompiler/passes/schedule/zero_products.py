"""Products with zeros, which a network need not compute: those of a first step that begins with
zeros.

The frontend leaves them out where it writes the steps one by one; of a loop only the graph of
rTasks has a first step.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from torch_mlir import ir

from rcompiler.linalg.constants import scalar_number
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.values import defining, yielded
from rcompiler.passes.constants.deferred import Constant, whole

Test = Callable[[ir.Value], bool]


def is_zero(op: ir.Operation, are_zeros: Test, are_finite: Test) -> bool:
    """Whether an rOperator is one sum of products of zeros and finite numbers that begins with 0:
    all its elements are +0.

    are_zeros, are_finite: of what it captures, whether all elements are known to be so.
    """
    [result, *others] = yielded(op.regions[0].blocks[0])
    root = defining(result)
    if others or root is None or root.name != "linalg.generic":
        return False
    generic = Generic(root)
    if generic.factors is None or not generic.reduction_dims or generic.outputs != 1:
        return False
    a, b = (generic.operands[number] for number in generic.factors)
    if not (are_zeros(a) and are_finite(b)) and not (are_zeros(b) and are_finite(a)):
        return False
    start = defining(generic.inits[0])
    if start is None or start.name != "linalg.fill":
        return False
    number = scalar_number(start.operands[0])
    return number is not None and number == 0 and math.copysign(1, number) > 0


def has_zeros(attribute: ir.Attribute) -> bool:
    """Whether all elements of a constant are the float 0."""
    if not isinstance(attribute, ir.DenseElementsAttr) or not attribute.is_splat:
        return False
    scalar = attribute.get_splat_value()
    return isinstance(scalar, ir.FloatAttr) and scalar.value == 0


def is_finite(array: Constant) -> bool:
    """Whether all elements of a constant of floats are numbers."""
    found = whole(array)
    return found.dtype.kind in "fV" and bool(np.isfinite(found).all())
