"""Quantised tensors, and products of them."""

from __future__ import annotations

import numpy as np

from fuzz.catalog import generator
from fuzz.maker import Maker, Reject, Value
from fuzz.ops.products import window
from rcompiler.frontend import dtypes

BYTES = ("uint8", "int8")


def zero_point(g: Maker, dtype: str, shape: tuple[int, ...] = ()) -> Value:
    """Of a quantised tensor; mostly a constant."""
    if not dtypes.is_integer(dtype):
        return g.leaf(dtype, shape, 0, 0, constant=True)  # of floats it has no other value
    low, high = dtypes.limits(dtype)
    middle = (low + high + 1) // 2
    return g.leaf(dtype, shape, max(middle - 9, low), middle + 9, constant=g.chance(0.8))


def scale(g: Maker, shape: tuple[int, ...] = (), dtype: str = "float32") -> Value:
    if dtypes.is_integer(dtype):
        return g.leaf(dtype, shape, 1, 3, constant=g.chance(0.8))
    return g.leaf(dtype, shape, 0.01, 0.2, constant=g.chance(0.8))


def bytes_of(g: Maker, dtype: str, shape: tuple[int, ...], constant: bool | None = None) -> Value:
    """Integers over the whole range of their type."""
    if not dtypes.is_integer(dtype):
        return g.leaf(dtype, shape, -2, 2, constant)
    low, high = dtypes.limits(dtype)
    return g.leaf(dtype, shape, low, high, constant)


def _laid_out(g: Maker, x: Value) -> tuple[tuple[int, ...], dict[str, int]]:
    """(shape of scales, attributes): per tensor, per axis, or per block."""
    if not x.rank or g.chance(0.5):
        return (), {}
    axis = g.int(0, x.rank - 1)
    given = axis - x.rank if g.chance(0.3) else axis
    if g.chance(0.7):
        return (x.shape[axis],), {"axis": given}
    if x.rank < 2:
        raise Reject
    shape = list(x.shape)
    block = g.pick([n for n in range(1, shape[axis] + 1) if not shape[axis] % n])
    shape[axis] //= block
    return tuple(shape), {"axis": given, "block_size": block}


@generator("QuantizeLinear")
def quantize(g: Maker, op: str) -> None:
    types = g.types(op, "T1")
    x = g.value(g.among(types, [t for t in types if dtypes.is_float(t)]), empty=False)
    shape, found = _laid_out(g, x)
    results = g.types(op, "T3" if g.opset >= 23 else "T2")
    to = g.dtype(g.among(results, [t for t in results if g.chance(0.1) or t in BYTES]))
    kind = x.dtype
    if g.opset >= 23 and g.liked != x.dtype:
        kind = g.dtype(g.among(g.types(op, "T2"), (kind,)))
    zero: Value | None = None
    told = g.has("output_dtype") and g.chance(0.2)
    if told:
        found["output_dtype"] = dtypes.to_onnx(to)
    elif g.chance(0.8) or to != "uint8":
        zero = zero_point(g, to, shape)
    if to.startswith("float8"):
        found |= {"saturate": 0} if g.chance(0.3) else {}
    if g.opset >= 23 and g.chance(0.2):
        found["precision"] = g.pick([1, 10])
    g.node(op, [x, scale(g, shape, kind), zero], **found)


@generator("DequantizeLinear")
def dequantize(g: Maker, op: str) -> None:
    types = g.types(op, "T1")
    x = g.value(g.among(types, [t for t in types if g.chance(0.5) or t in BYTES]), empty=False)
    shape, found = _laid_out(g, x)
    zero = zero_point(g, x.dtype, shape) if g.chance(0.7) and x.dtype != "int32" else None
    kinds = g.types(op, "T2")
    kind = g.dtype(g.among(kinds, [t for t in kinds if dtypes.is_float(t)]))
    if g.opset >= 23 and (g.chance(0.2) or not dtypes.is_float(kind)):
        found["output_dtype"] = dtypes.to_onnx(g.pick(g.types(op, "T3")))
    g.node(op, [x, scale(g, shape, kind), zero], **found)


@generator("DynamicQuantizeLinear")
def dynamic(g: Maker, op: str) -> None:
    q, step, zero = g.node(op, [g.value(["float32"], empty=False)], 3)
    if g.chance(0.6):
        g.node("DequantizeLinear", [q, step, zero])


@generator("MatMulInteger")
def matmul_integer(g: Maker, op: str) -> None:
    m, k, n = g.int(1, 6), g.pick([1, 3, 4, 8, 17, 32]), g.pick([1, 2, 5, 16])
    lead = g.shape(0, 2, empty=False)
    a = bytes_of(g, g.pick(BYTES), (*lead, m, k), g.pick([False, False, None]))
    b = bytes_of(g, g.pick(BYTES), (k, n), g.pick([True, True, None]))
    first = zero_point(g, a.dtype) if g.chance(0.6) else None
    second = zero_point(g, b.dtype, g.pick([(), (n,)])) if g.chance(0.5) else None
    g.node(op, [a, b, first, second])


@generator("QLinearMatMul")
def qlinear_matmul(g: Maker, op: str) -> None:
    m, k, n = g.int(1, 6), g.pick([1, 3, 4, 8, 17, 32]), g.pick([1, 2, 5, 16])
    types = [t for t in g.among(g.types(op, "T1"), BYTES) if t == g.liked or g.liked in BYTES]
    types = types or list(BYTES)
    a = bytes_of(g, g.pick(types), (m, k), False)
    b = bytes_of(g, g.pick(types), (k, n), g.pick([True, True, None]))
    per = g.pick([(), (n,)])
    to = g.pick(BYTES)
    kind = g.dtype(g.among(g.types(op, "TS"), ("float32",))) if g.opset >= 21 else "float32"
    scales = [scale(g, shape, kind) for shape in ((), per)]
    g.node(op, [a, scales[0], zero_point(g, a.dtype), b, scales[1], zero_point(g, b.dtype, per),
                g.leaf(kind, (), 0.5, 3), zero_point(g, to)])  # fmt: skip


def _images(g: Maker) -> tuple[Value, Value, dict[str, object]]:
    extents, kernel, found = window(g, g.pick([1, 2, 2]), 4)
    groups, each, out = g.pick([1, 1, 2]), g.pick([1, 3, 4]), g.pick([1, 2, 8])
    x = bytes_of(g, g.pick(BYTES), (g.int(1, 2), groups * each, *extents), False)
    w = bytes_of(g, g.pick(BYTES), (groups * out, each, *kernel), g.pick([True, True, None]))
    return x, w, {"group": groups, "kernel_shape": g.pick([None, kernel]), **found}


@generator("ConvInteger")
def conv_integer(g: Maker, op: str) -> None:
    x, w, found = _images(g)
    first = zero_point(g, x.dtype) if g.chance(0.6) else None
    second = zero_point(g, w.dtype) if first is not None and g.chance(0.5) else None
    g.node(op, [x, w, first, second], **found)


@generator("QLinearConv")
def qlinear_conv(g: Maker, op: str) -> None:
    x, w, found = _images(g)
    # onnx.reference takes scales and zero points of channels for those of images of two dims
    per = g.pick([(), (w.shape[0],)]) if w.rank == 4 else ()
    zero = zero_point(g, w.dtype, per)
    bias = g.leaf("int32", (w.shape[0],), -500, 500, True) if g.chance(0.5) else None
    g.node(op, [x, scale(g), zero_point(g, x.dtype), w, scale(g, per), zero,
                g.leaf("float32", (), 0.5, 3), zero_point(g, g.pick(BYTES)), bias],
           **found)  # fmt: skip


def between(g: Maker, x: Value) -> Value:
    """``x`` quantised and dequantised, as exporters write it."""
    dtype = g.pick(BYTES)
    step, zero = scale(g), g.fixed(np.array(128 if dtype == "uint8" else 0), dtype)
    (q,) = g.node("QuantizeLinear", [x, step, zero])
    return g.node("DequantizeLinear", [q, step, zero])[0]


def weights(g: Maker, shape: tuple[int, ...], axis: int) -> Value:
    """Constant int8 weights, dequantised; of one scale or of one per column."""
    q = bytes_of(g, "int8", shape, True)
    per = (shape[axis],) if g.chance(0.6) else ()
    zero = g.fixed(np.zeros(per, np.int8), "int8") if g.chance(0.7) else None
    step = g.leaf("float32", per, 0.01, 0.1, True)
    return g.node("DequantizeLinear", [q, step, zero], axis=axis if per else None)[0]


def dequantised_product(g: Maker) -> None:
    """A product or convolution between QuantizeLinear and DequantizeLinear."""
    if g.chance(0.5):
        x = g.value(["float32"], rank=2, empty=False)
        made = g.node("MatMul", [between(g, x), weights(g, (x.shape[1], g.pick([1, 4, 16])), 1)])
    else:
        extents, kernel, found = window(g, 2, 4)
        x = g.value(["float32"], shape=(1, g.pick([1, 3, 4]), *extents))
        w = weights(g, (g.pick([1, 4, 8]), x.shape[1], *kernel), 0)
        made = g.node("Conv", [between(g, x), w], **found)
    if g.chance(0.7):
        between(g, made[0])
