"""Values that are constants."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from torch_mlir import ir

from rcompiler.linalg.element_types import numpy_type
from rcompiler.linalg.generic import Generic

_MOVES = (
    "tensor.collapse_shape",
    "tensor.concat",
    "tensor.expand_shape",
    "tensor.extract_slice",
    "tensor.pad",
    "linalg.generic",
)


def is_constant(value: ir.Value) -> bool:
    """Whether a tensor comes from constants through data movement only."""
    owner = value.owner
    op = None if isinstance(owner, ir.Block) else owner.operation
    name = "" if op is None else op.name
    if op is None or name not in _MOVES:
        return name == "arith.constant"
    if name == "linalg.generic" and (len(Generic(op).inputs) != 1 or Generic(op).reduction_dims):
        return False
    parts = list(op.operands) if name == "tensor.concat" else [op.operands[0]]
    return all(is_constant(part) for part in parts)


def scalar_of(value: ir.Value) -> Any:
    """The number of a scalar arith.constant as a numpy scalar of its type, else None."""
    if isinstance(value.owner, ir.Block) or value.owner.operation.name != "arith.constant":
        return None
    attribute = value.owner.operation.attributes["value"]
    dtype = numpy_type(value.type)
    if dtype is None or not isinstance(attribute, ir.FloatAttr | ir.IntegerAttr | ir.BoolAttr):
        return None
    return np.asarray(attribute.value).astype(dtype)[()]


def is_plus_zero(value: ir.Value) -> bool:
    """Whether a scalar is the float whose bits are all 0."""
    number = scalar_number(value)
    return number is not None and number == 0 and math.copysign(1, number) > 0


def scalar_number(value: ir.Value) -> float | None:
    """The float that a scalar ``arith.constant`` holds, else None."""
    if isinstance(value.owner, ir.Block) or value.owner.operation.name != "arith.constant":
        return None
    attribute = value.owner.operation.attributes["value"]
    return ir.FloatAttr(attribute).value if isinstance(attribute, ir.FloatAttr) else None
