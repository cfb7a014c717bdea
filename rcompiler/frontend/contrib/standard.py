"""Operators that the standard has, too, under this name or another."""

from __future__ import annotations

from typing import Any

from .node import Node, Result, operator


@operator("Trilu", "X:X k:I?", upper=1)
def _trilu(n: Node) -> Result:
    """As the standard's."""
    return n.op("Trilu", "X", *(["k"] if n.has("k") else []), upper=n.attr("upper"))


@operator("ExpandDims", "X:X axis:I")
def _expand_dims(n: Node) -> Result:
    """Unsqueeze of one axis, which is known while compiling."""
    axis = n.known("axis", "it decides the shape")
    if axis.size != 1:
        raise n.shape_error(f"'axis' has {axis.size} elements; one is expected")
    return n.unsqueezed("X", int(axis.reshape(-1)[0]))


@operator("Range", "start:N limit:N delta:N?")
def _range(n: Node) -> Result:
    """As the standard's, of scalars or of vectors of one element."""
    names = [name for name in ("start", "limit", "delta") if n.has(name)]
    for name in names:
        n.need_shape(name, (), (1,))
    scalars = [n.reshaped(name) for name in names]
    if not n.has("delta"):
        scalars.append(n.constant(1, n.dtype("start")))
    return n.op("Range", *scalars)


@operator("Pad", "data:X pads:I value:X1?", mode="constant")
def _pad(n: Node) -> Result:
    """As the standard's, of pads that are known while compiling."""
    pads = n.known("pads", "they decide the shape").reshape(-1)
    rest = [n.reshaped("value")] if n.has("value") else []
    return n.op("Pad", "data", n.ints(*map(int, pads)), *rest, mode=n.attr("mode"))


@operator("GridSample", "X:N Grid:T", mode="bilinear", padding_mode="zeros", align_corners=0)
def _grid_sample(n: Node) -> Result:
    """As the standard's, with the older names of its modes."""
    modes = {"bilinear": "linear", "nearest": "nearest", "bicubic": "cubic"}
    own = dict(n.attributes)
    n.shape("X", 4)
    if own["mode"] not in modes:
        raise n.shape_error(f"mode '{own['mode']}' is none of {', '.join(modes)}")
    return n.op("GridSample", "X", "Grid", **(own | {"mode": modes[own["mode"]]}))


@operator("GatherND", "data:X indices:I")
def _gather_nd(n: Node) -> Result:
    """As the standard's."""
    return n.op("GatherND", "data", n.cast("indices", "int64"))


@operator("TorchEmbedding", "weight:X indices:I padding_idx:M? scale_grad_by_freq:B?")
def _torch_embedding(n: Node) -> Result:
    """Gather of rows; what is said of gradients does not matter."""
    n.shape("weight", 2)
    return n.op("Gather", "weight", "indices")


@operator("Unique", "x:X", outputs=3)
def _unique(n: Node) -> Result:
    """Unique in order of appearance, of what is known while compiling; not its places."""
    n.shape("x", 1)
    values, _, inverse, counts = n.ops("Unique", "x", results=4, sorted=0)
    return [values, inverse, counts]


@operator("QuantizeLinear", "x:T y_scale:T y_zero_point:Q?", axis=1)
def _quantize(n: Node) -> Result:
    """As the standard's, also of 4 and 16 bits."""
    return _quantised(n, "QuantizeLinear", "x", "y_scale", "y_zero_point")


@operator("DequantizeLinear", "x:Q x_scale:T x_zero_point:Q?", axis=1)
def _dequantize(n: Node) -> Result:
    """As the standard's, also of 4 and 16 bits."""
    return _quantised(n, "DequantizeLinear", "x", "x_scale", "x_zero_point")


def _quantised(n: Node, op: str, *names: str) -> str:
    given = [name for name in names if n.has(name)]
    own: dict[str, Any] = {"axis": n.attr("axis")} if n.shape(names[1]) else {}
    return n.op(op, *given, **own)


@operator("Rfft", "X:T", normalized=0, onesided=1, signal_ndim=1)
def _rfft(n: Node) -> Result:
    """One-sided DFT of the last axis."""
    if (n.attr("normalized"), n.attr("onesided"), n.attr("signal_ndim")) != (0, 1, 1):
        raise n.refuse("only normalized=0, onesided=1, signal_ndim=1 is translated", "Use DFT")
    rank = len(n.shape("X"))
    if not rank:
        raise n.shape_error("'X' is a scalar")
    return n.op("DFT", n.unsqueezed("X", -1), "", n.constant(-2, "int64"), onesided=1)


@operator("MulInteger", "A:Q A_zero_point:Q? B:Q B_zero_point:Q?")
def _mul_integer(n: Node) -> Result:
    """The product of integers of 8 bits less their zero points, in int32."""
    parts = []
    for name in "AB":
        wide, zero = n.cast(name, "int32"), f"{name}_zero_point"
        n.need_shape(zero, (), (1,))
        parts.append(n.op("Sub", wide, n.cast(zero, "int32")) if n.has(zero) else wide)
    return n.op("Mul", *parts)


@operator("ReduceSumInteger", "data:Q", axes=(), keepdims=1)
def _reduce_sum(n: Node) -> Result:
    """The sum of integers of 8 bits, in int32."""
    axes = n.attr("axes") or range(len(n.shape("data")))
    wide = n.cast("data", "int32")
    return n.op("ReduceSum", wide, n.ints(*axes), keepdims=n.attr("keepdims"))
