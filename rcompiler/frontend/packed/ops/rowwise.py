"""What is done row by row: element by element, along later axes, by weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rcompiler.frontend.builder import Value
from rcompiler.frontend.packed.ragged import Padded, Rows, is_ragged, symbols_of
from rcompiler.frontend.packed.rules import Packed, constant, rule
from rcompiler.support.extent import Extent

_POINTWISE = (
    "Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr "
    "BitwiseXor Cast CastLike Ceil Celu Clip Cos Cosh Div Dropout Elu Equal Erf Exp Floor Gelu "
    "Greater GreaterOrEqual HardSigmoid HardSwish IsInf IsNaN LeakyRelu Less LessOrEqual Log "
    "Max Mean Min Mish Mod Mul Neg Not Or PRelu Pow Reciprocal Relu Round Selu Shrink Sigmoid "
    "Sign Sin Sinh Softplus Softsign Sqrt Sub Sum Swish Tan Tanh ThresholdedRelu Where Xor"
)


@rule(*_POINTWISE.split())
def _pointwise(packed: Packed) -> list[Any]:
    """Where rows meet rows, on rows."""
    if any(isinstance(value, Padded) for value in packed.inputs):
        return packed.by_groups()
    found = packed.aligned(packed.inputs)
    if found is None:
        return packed.by_groups()
    return packed.on_rows(found)


@rule("QuantizeLinear", "DequantizeLinear")
def _quantize(packed: Packed) -> list[Any]:
    """By one scale for all."""
    if any(is_ragged(v) or isinstance(v, Value) and v.size > 1 for v in packed.inputs[1:]):
        raise packed.refuse("scales differ along an axis")
    x = packed.inputs[0]
    return packed.by_groups() if isinstance(x, Padded) else packed.on_rows(packed.inputs)


@rule("MatMul")
def _matmul(packed: Packed) -> list[Any]:
    """Rows by a weight on rows; what requests have, by groups."""
    a, b = packed.inputs
    if _by_weight(a, b):
        if a.covers(len(a.sizes) - 1):
            raise packed.refuse("it sums over the positions of all requests")
        return packed.on_rows([a, b])
    for value in (a, b):
        if is_ragged(value) and Extent.of(packed.packing.batch) in value.sizes[-2:]:
            raise packed.refuse("it goes along the requests")
    return packed.by_groups()


def _by_weight(a: Any, b: Any) -> bool:
    """Whether it is rows by a matrix or a vector that all requests have."""
    return isinstance(a, Rows) and isinstance(b, Value) and b.rank <= 2 and b.whole is None


@rule("Gemm")
def _gemm(packed: Packed) -> list[Any]:
    """Joined rows by a weight."""
    a, b, *c = packed.inputs
    if not _by_weight(a, b) or packed.call.attr("transA", 0) or a.axis != 0:
        raise packed.refuse("it is no product of rows by a weight")
    if any(is_ragged(each) for each in c):
        raise packed.refuse("rows are added in it")
    return packed.on_rows([a, b, *c])


@rule("LayerNormalization", "RMSNormalization")
def _norm(packed: Packed) -> list[Any]:
    """Over all axes from one on."""
    x = packed.inputs[0]
    axis = packed.axis(packed.call.attr("axis", -1), len(x.sizes))
    if any(is_ragged(value) for value in packed.inputs[1:]):
        raise packed.refuse("scales differ between requests")
    return _along(packed, range(axis, len(x.sizes)), lambda own: {"axis": own[0]})


@rule("Softmax", "LogSoftmax", "LpNormalization")
def _softmax(packed: Packed) -> list[Any]:
    """Over one axis."""
    if packed.call.version < 13 and packed.call.node.op_type != "LpNormalization":
        raise packed.refuse("before opset 13 it goes over all axes from one on")
    axis = packed.axis(packed.call.attr("axis", -1), len(packed.inputs[0].sizes))
    return _along(packed, [axis], lambda own: {"axis": own[0]})


@rule("CumSum")
def _cumulative(packed: Packed) -> list[Any]:
    """Along the axis that an input tells."""
    axis = int(packed.call.known(packed.inputs[1], "input 1 ('axis')").reshape(-1)[0])
    axes = [packed.axis(axis, len(packed.inputs[0].sizes))]
    b = packed.tables.b
    return _along(packed, axes, lambda own: {1: b.constant(np.array(own[0], np.int64), "int64")})


_SUMS = "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd"


@rule(*_SUMS.split(), "ReduceSum", "ReduceSumSquare")
def _reduce(packed: Packed) -> list[Any]:
    """Over the axes that an attribute or an input tells."""
    x, call = packed.inputs[0], packed.call
    given, rank = call.optional(1), len(x.sizes)
    told = call.attr("axes") if given is None else call.known(given, "input 1 ('axes')").tolist()
    if not told and not call.attr("noop_with_empty_axes", 0):
        told = range(rank)
    axes = sorted(packed.axis(int(axis), rank) for axis in told or ())
    if given is None:
        return _along(packed, axes, lambda own: {"axes": own})
    return _along(packed, axes, lambda own: {1: constant(packed, own)})


def _along(
    packed: Packed,
    axes: Sequence[int],
    told: Callable[[list[int]], dict[str | int, Any]],
) -> list[Any]:
    """Over axes beside the rows on rows; over positions by groups, never over requests.

    told: attributes by name, and inputs by number, that say of axes of the rows what the node says
    of those of the tensor.
    """
    x = packed.inputs[0]
    if isinstance(x, Padded) or any(map(x.covers, axes)):
        if any(packed.packing.batch in symbols_of(x.sizes[axis]) for axis in axes):
            raise packed.refuse("it goes along the requests")
        return packed.by_groups()
    own = told([x.beside(axis) for axis in axes])
    inputs = [own.get(number, value) for number, value in enumerate(packed.inputs)]
    return packed.on_rows(inputs, {name: v for name, v in own.items() if isinstance(name, str)})
