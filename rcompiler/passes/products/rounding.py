"""Tensors of f32 in a shorter type."""

from __future__ import annotations

from torch_mlir import ir
from torch_mlir.dialects import arith

from rcompiler.linalg.bodies import copied_argument
from rcompiler.linalg.constants import scalar_number
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.pieces import pad_value
from rcompiler.linalg.values import defining, integers, shape_of
from rcompiler.linalg.views import RESHAPES
from rcompiler.passes.ir.tensor_ir import elementwise, empty, generic, padded, reshape


def rounded(value: ir.Value, element: ir.Type) -> ir.Value:
    """`value` in a shorter type; what only moves is rounded before, where it is computed."""
    op = defining(value)
    if op is not None and op.name in RESHAPES:
        return reshape(rounded(op.operands[0], element), shape_of(value))
    if op is not None and op.name == "tensor.pad":
        border = scalar_number(pad_value(op))
        if border is not None:
            low, high = (integers(op, name) for name in ("static_low", "static_high"))
            scalar = arith.ConstantOp(element, ir.FloatAttr.get(element, float(border))).result
            return padded(rounded(op.operands[0], element), low, high, scalar)
    if op is not None and op.name == "linalg.generic" and len(op.operands) == 2:
        copy = Generic(op)
        if copied_argument(copy.block) == 0:
            moved, target = rounded(op.operands[0], element), empty(shape_of(value), element)
            return generic([moved], [target], copy.maps, copy.kinds, lambda x, _: x).results[0]
    return elementwise([value], element, lambda wide: _rounded(wide, element))


def _rounded(wide: ir.Value, element: ir.Type) -> ir.Value:
    """With a rounding mode, as of what a model asks for (rtask-widen-halves)."""
    return arith.truncf(element, wide, roundingmode=arith.RoundingMode.to_nearest_even)
