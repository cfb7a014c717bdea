"""Which nodes on constants are folded: bounded in memory and time by the operands' size."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from . import dtypes
from .builder import Value, broadcast_shapes
from .randomness import DRAWS

LINEAR_BYTES = 1 << 29  # ops whose result is about as large as their operands
SMALL_ELEMENTS = 1 << 16  # everything else
TINY_ELEMENTS = 1 << 10  # ops without a lowering, whose cost is unknown

_NEVER = DRAWS | {"ImageDecoder"}  # the reference draws other numbers; it decodes untrusted data
# One result element costs one step, and the result is no larger than the (broadcast) operands.
_LINEAR = {
    "Abs", "Neg", "Sign", "Ceil", "Floor", "Round", "Sqrt", "Reciprocal", "Exp", "Log", "Not",
    "Cast", "Identity", "Transpose", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Concat",
    "Slice", "Split", "Add", "Sub", "Mul", "Div", "Pow", "Mod", "Min", "Max", "And", "Or", "Xor",
    "Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Where", "Clip", "Relu",
    "ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin", "DequantizeLinear", "Shape", "Size",
    "Sigmoid", "Tanh", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot", "CastLike",
}  # fmt: skip
# What else may decide shapes, and is exact or rounds as the type does. Nothing more: the reference
# leaves out attributes (activations of LSTM, GRU and RNN, ceil_mode of LpPool), the absolute value
# of LpNormalization, and computes Erf of f64 in f32 (onnx 1.23).
_SMALL = _LINEAR | {
    "ArgMax", "ArgMin", "BitShift", "Compress", "CumSum", "DepthToSpace", "Expand", "Gather",
    "GatherElements", "GatherND", "IsInf", "IsNaN", "MatMul", "Mean", "NonZero", "OneHot", "Pad",
    "QuantizeLinear", "ReduceMean", "ReverseSequence", "ScatterElements", "ScatterND",
    "SpaceToDepth", "Sum", "Tile", "TopK", "Trilu",
}  # fmt: skip
# Where the reference asks Python which of two numbers is less: of a number and a NaN it keeps the
# first.
_NUMBERS = {"ScatterElements"}
_ORIGIN = {"DequantizeLinear"}
_GROWING = {
    "Expand", "Tile", "ConstantOfShape", "Range", "OneHot", "EyeLike", "Resize", "Upsample", "Pad",
    "HannWindow", "HammingWindow", "BlackmanWindow", "MelWeightMatrix", "CenterCropPad", "Col2Im",
    "AffineGrid", "SequenceEmpty", "SequenceConstruct",
}  # fmt: skip


def is_linear(op: str, inputs: Sequence[Value | None]) -> bool:
    """True when folding costs no more than a pass over operands of a bounded size."""
    values = [v for v in inputs if v is not None]
    if op not in _LINEAR or not values:
        return False
    result = broadcast_shapes(*(v.shape for v in values)) or ()
    size = max([math.prod(result), *(v.size for v in values)])
    return size * 8 <= LINEAR_BYTES


def has_origin(op: str) -> bool:
    """True for ops whose lowering knows what a constant was made of."""
    return op in _ORIGIN


def is_small(op: str, inputs: Sequence[Value | None], results: Sequence[Value | None]) -> bool:
    """True for a node whose operands and (already known) results are small, and whose result the
    reference can be relied on for."""
    if op not in _SMALL:
        return False
    small = all(v is None or v.size <= SMALL_ELEMENTS for v in [*inputs, *results])
    return small and not (op in _NUMBERS and any(map(_has_nan, inputs)))


def _has_nan(value: Value | None) -> bool:
    if value is None or value.const is None or not dtypes.is_float(value.dtype):
        return False
    return bool(np.isnan(value.const).any())


def is_tiny(op: str, inputs: Sequence[Value | None]) -> bool:
    """True for a node without lowering that may be tried: tiny operands, no growing result."""
    if op in _NEVER or op in _GROWING:
        return False
    return all(v is None or v.size <= TINY_ELEMENTS for v in inputs)
