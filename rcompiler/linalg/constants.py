"""Values that are constants."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from torch_mlir import ir

from rcompiler.linalg.element_types import numpy_type
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.values import constant_of, defining, ops_of
from rcompiler.linalg.views import MOVES


def is_constant(value: ir.Value) -> bool:
    """Whether a tensor comes from constants through data movement only."""
    pending = [value]
    while pending:
        op = defining(pending.pop())
        if op is None or op.name not in (*MOVES, "linalg.generic", "arith.constant"):
            return False
        if op.name == "linalg.generic":
            generic = Generic(op)
            if len(generic.inputs) != 1 or generic.reduction_dims:
                return False
        pending += _moved(op)
    return True


def computed_once(body: ir.Block) -> set[ir.Value]:
    """The tensors that come from constants alone, such as weights in Winograd's form."""
    found: set[ir.Value] = set()
    for op in ops_of(body):
        parts = Generic(op).inputs if op.name == "linalg.generic" else _moved(op)
        if op.name == "arith.constant" or (parts and found.issuperset(parts)):
            found.update(op.results)
    return found


def _moved(op: ir.Operation) -> list[ir.Value]:
    """The tensors that an op moves; nothing for an op of another kind."""
    if op.name == "tensor.concat":
        return list(op.operands)
    return [op.operands[0]] if op.name in (*MOVES, "linalg.generic") else []


def scalar_of(value: ir.Value) -> Any:
    """The number of a scalar arith.constant as a numpy scalar of its type, else None."""
    attribute = constant_of(value)
    if not isinstance(attribute, ir.FloatAttr | ir.IntegerAttr | ir.BoolAttr):
        return None
    dtype = numpy_type(value.type)
    return None if dtype is None else np.asarray(attribute.value).astype(dtype)[()]


def is_plus_zero(value: ir.Value) -> bool:
    """Whether a scalar is the float whose bits are all 0."""
    number = scalar_number(value)
    return number is not None and number == 0 and math.copysign(1, number) > 0


def scalar_number(value: ir.Value) -> float | None:
    """The float that a scalar ``arith.constant`` holds, else None."""
    attribute = constant_of(value)
    return attribute.value if isinstance(attribute, ir.FloatAttr) else None
