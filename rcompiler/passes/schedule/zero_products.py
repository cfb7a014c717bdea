"""Products with zeros, which a network need not compute: those of a first step that begins with
zeros.

The frontend leaves them out where it writes the steps one by one; of a loop only the graph of
rTasks has a first step.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from torch_mlir import ir

from rcompiler.linalg.constants import is_plus_zero
from rcompiler.linalg.dense import dense_array
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.values import defining, yielded
from rcompiler.runtime.deferred import Constant, whole


def is_zero(op: ir.Operation, zeros: Collection[ir.Value], finite: Collection[ir.Value]) -> bool:
    """Whether an rOperator is one sum of products of zeros and finite numbers that begins with 0:
    all its elements are +0 (IEEE 754: 0 times a finite number is 0, and +0 plus either 0 is +0).

    zeros, finite: those of the tensors it captures whose elements are all known to be so.
    """
    [result, *others] = yielded(op.regions[0].blocks[0])
    root = defining(result)
    if others or root is None or root.name != "linalg.generic":
        return False
    generic = Generic(root)
    if generic.factors is None or not generic.reduction_dims or generic.outputs != 1:
        return False
    a, b = (generic.operands[number] for number in generic.factors)
    if not (a in zeros and b in finite) and not (b in zeros and a in finite):
        return False
    start = defining(generic.inits[0])
    return start is not None and start.name == "linalg.fill" and is_plus_zero(start.operands[0])


def has_zeros(attribute: ir.Attribute) -> bool:
    """Whether all elements of a constant are the float 0."""
    if not isinstance(attribute, ir.DenseElementsAttr) or not attribute.is_splat:
        return False
    scalar = attribute.get_splat_value()
    return isinstance(scalar, ir.FloatAttr) and scalar.value == 0


def is_finite(attribute: ir.Attribute, array: Constant | None) -> bool:
    """Whether all elements of a constant of floats are numbers.

    array: the elements, where the attribute only names them; None: they are not there.
    """
    if isinstance(attribute, ir.DenseElementsAttr):
        array = dense_array(attribute)
    if array is None:
        return False
    found = whole(array)
    return found.dtype.kind in "fV" and bool(np.isfinite(found).all())
