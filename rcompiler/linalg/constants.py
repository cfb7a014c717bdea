"""Values that are constants."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from torch_mlir import ir

from rcompiler.linalg.element_types import numpy_type
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.values import constant_of, defining
from rcompiler.linalg.views import MOVES


def is_constant(value: ir.Value) -> bool:
    """Whether a tensor comes from constants through data movement only."""
    op = defining(value)
    name = "" if op is None else op.name
    if op is None or name not in (*MOVES, "linalg.generic"):
        return name == "arith.constant"
    if name == "linalg.generic" and (len(Generic(op).inputs) != 1 or Generic(op).reduction_dims):
        return False
    parts = list(op.operands) if name == "tensor.concat" else [op.operands[0]]
    return all(is_constant(part) for part in parts)


def is_computed_once(value: ir.Value) -> bool:
    """Whether a tensor comes from constants alone, such as weights in Winograd's form."""
    if is_constant(value):
        return True
    op = defining(value)
    if op is None or op.name not in (*MOVES, "linalg.generic"):
        return False
    parts = Generic(op).inputs if op.name == "linalg.generic" else [op.operands[0]]
    return bool(parts) and all(map(is_computed_once, parts))


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
