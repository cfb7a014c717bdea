"""Operators that the standard has, too, under this name or another."""

from __future__ import annotations

from typing import Any

import numpy as np

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


@operator("SampleOp", "X:N")
def _sample(n: Node) -> Result:
    """Identity."""
    return n.op("Identity", "X")


@operator("MatMulInteger16", "A:Q B:Q")
def _matmul_integer(n: Node) -> Result:
    """The product of integers of 16 bits, in int32."""
    return n.op("MatMul", n.cast("A", "int32"), n.cast("B", "int32"))


@operator("UnfoldTensor", "input:X", dim=-1, size=int, step=1)
def _unfold(n: Node) -> Result:
    """All slices of `size` elements of one dimension, `step` apart, as a new last dimension."""
    shape, dim, size, step = n.shape("input"), n.attr("dim"), n.attr("size"), n.attr("step")
    if not -len(shape) <= dim < len(shape):
        raise n.shape_error(f"dim {dim} is outside a tensor of rank {len(shape)}")
    dim %= len(shape)
    if step < 1 or not 1 <= size <= shape[dim]:
        raise n.shape_error(f"slices of {size}, {step} apart, do not fit {shape[dim]} elements")
    first = np.arange(0, shape[dim] - size + 1, step)
    windows = n.op("Gather", "input", n.constant(first[:, None] + np.arange(size)), axis=dim)
    order = [*range(dim + 1), *range(dim + 2, len(shape) + 1), dim + 1]
    return n.transposed(windows, *order)


@operator(
    "CropAndResize", "X:T rois:T batch_indices:I crop_size:I",
    extrapolation_value=0.0, mode="bilinear",
)  # fmt: skip
def _crop_and_resize(n: Node) -> Result:
    """Boxes (top, left, bottom, right, from 0 to 1) of images, all in one size, which is known
    while compiling."""
    *_, height, width = n.shape("X", 4)
    boxes, _ = n.shape("rois", 2)
    n.need_shape("rois", (boxes, 4))
    n.need_shape("batch_indices", (boxes,))
    size = n.known("crop_size", "it decides the shape").reshape(-1).tolist()
    mode, kind = n.attr("mode"), n.dtype("X")
    if len(size) != 2 or min(size) < 1 or mode not in ("bilinear", "nearest"):
        raise n.shape_error("crop_size is two sizes, and mode bilinear or nearest")
    top, left, bottom, right = n.split("rois", 1, 1, 1, 1, 1)
    outside, places = [], []
    sides = ((top, bottom, height, size[0]), (left, right, width, size[1]))
    for low, high, extent, count in sides:
        steps = np.arange(count)[None] / (count - 1) if count > 1 else np.full((1, 1), 0.5)
        share = n.op("Mul", n.op("Sub", high, low), n.constant(steps, kind))
        at = n.op("Add", low, share)  # [boxes, count], from 0 to 1
        far = n.op("Greater", at, n.constant(1, kind))
        outside.append(n.op("Or", n.op("Less", at, n.constant(0, kind)), far))
        if mode == "nearest" and extent > 1:  # halves go up, which GridSample rounds to even
            last, half = n.constant(extent - 1, kind), n.constant(0.5, kind)
            whole = n.op("Floor", n.op("Add", n.op("Mul", at, last), half))
            at = n.op("Div", whole, last)
        two, one = n.constant(2, kind), n.constant(1, kind)
        places.append(n.op("Sub", n.op("Mul", at, two), one))
    grid_shape = n.ints(boxes, *size, 1)
    rows = n.op("Expand", n.reshaped(places[0], boxes, size[0], 1, 1), grid_shape)
    columns = n.op("Expand", n.reshaped(places[1], boxes, 1, size[1], 1), grid_shape)
    grid = n.op("Concat", columns, rows, axis=3)
    images = n.op("Gather", "X", "batch_indices")
    y = n.op(
        "GridSample", images, grid, align_corners=1, padding_mode="border",
        mode="linear" if mode == "bilinear" else mode,
    )  # fmt: skip
    outer = n.op(
        "Or",
        n.reshaped(outside[0], boxes, 1, size[0], 1),
        n.reshaped(outside[1], boxes, 1, 1, size[1]),
    )
    return n.op("Where", outer, n.constant(n.attr("extrapolation_value"), kind), y)
