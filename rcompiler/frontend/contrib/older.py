"""Operators that the standard's domain had for a trial until opset 10, and that onnxruntime still
runs there.
"""

from __future__ import annotations

from typing import Any

from .node import Node, Result, operator


@operator("Affine", "X:T", alpha=1.0, beta=0.0)
def _affine(n: Node) -> Result:
    """`alpha * X + beta`."""
    kind = n.dtype("X")
    return n.op("Add", n.scaled("X", n.attr("alpha"), kind), n.constant(n.attr("beta"), kind))


@operator("Scale", "X:T", scale=1.0)
def _scale(n: Node) -> Result:
    """`scale * X`."""
    return n.op("Mul", "X", n.constant(n.attr("scale"), n.dtype("X")))


@operator("ParametricSoftplus", "X:T", alpha=float, beta=float)
def _softplus(n: Node) -> Result:
    """`alpha * log(exp(beta * X) + 1)`."""
    kind = n.dtype("X")
    return n.scaled(n.op("Softplus", n.scaled("X", n.attr("beta"), kind)), n.attr("alpha"), kind)


@operator("ScaledTanh", "X:T", alpha=float, beta=float)
def _tanh(n: Node) -> Result:
    """`alpha * tanh(beta * X)`."""
    kind = n.dtype("X")
    return n.scaled(n.op("Tanh", n.scaled("X", n.attr("beta"), kind)), n.attr("alpha"), kind)


@operator("ImageScaler", "X:T", scale=1.0, bias=())
def _image_scaler(n: Node) -> Result:
    """`scale * X`, plus a number for each channel."""
    kind, (_, channels, *_) = n.dtype("X"), n.shape("X", 4)
    bias = n.attr("bias")
    if len(bias) != channels:
        raise n.shape_error(f"{len(bias)} biases for {channels} channels")
    column = n.reshaped(n.constant(bias, kind), channels, 1, 1)
    return n.op("Add", n.scaled("X", n.attr("scale"), kind), column)


@operator("Crop", "X:T", border=tuple, scale=())
def _crop(n: Node) -> Result:
    """The image without a border (left, top, right, bottom), or `scale` (height, width) of it from
    its left and top end on.
    """
    *_, height, width = n.shape("X", 4)
    border, scale = n.attr("border"), n.attr("scale")
    if len(border) != 4 or len(scale) not in (0, 2):
        raise n.shape_error("border has 4 numbers, and scale 2 or none")
    left, top, right, bottom = border
    ends = (top + scale[0], left + scale[1]) if scale else (height - bottom, width - right)
    if not (0 <= top < ends[0] <= height and 0 <= left < ends[1] <= width):
        raise n.shape_error(f"border {list(border)} and scale {list(scale)} leave no image")
    return n.op("Slice", "X", n.ints(top, left), n.ints(*ends), n.ints(2, 3))


@operator("DynamicSlice", "data:X starts:I ends:I axes:I?")
def _dynamic_slice(n: Node) -> Result:
    """As the standard's Slice with steps of one."""
    given: dict[str, Any] = {name: name for name in ("starts", "ends", "axes") if n.has(name)}
    return n.op("Slice", "data", *given)
