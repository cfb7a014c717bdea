"""Products and convolutions with what onnxruntime fuses into them, and those of channels that come
last."""

from __future__ import annotations

from typing import Any

from .activations import activated
from .node import Node, Result, operator

_TURNS: dict[str, Any] = {"transA": 0, "transB": 0, "alpha": 1.0}
_BATCH_TURNS: dict[str, Any] = {"transBatchA": 0, "transBatchB": 0}
_ACTIVATION: dict[str, Any] = {
    "activation": "",
    "activation_alpha": 0.0,
    "activation_beta": 0.0,
    "activation_gamma": 0.0,
}
_WINDOW: dict[str, Any] = {
    "auto_pad": "NOTSET",
    "dilations": (),
    "group": 1,
    "kernel_shape": (),
    "pads": (),
    "strides": (),
}


def _turned(n: Node, name: str, letter: str) -> str:
    """An operand of which the last two dimensions are turned, and of which the rows may come before
    the batch."""
    rank = len(n.shape(name))
    if rank < 2:
        return name
    order = list(range(rank))
    if n.attributes.get(f"transBatch{letter}"):
        order = [*range(1, rank - 1), 0, rank - 1]
    if n.attr(f"trans{letter}"):
        order[-2:] = order[:-3:-1]
    return n.transposed(name, *order)


@operator("FusedMatMul", "A:T B:T", **_TURNS, **_BATCH_TURNS)
def _fused_matmul(n: Node) -> Result:
    """`alpha` times the product of A and B, each turned or not."""
    product = n.op("MatMul", _turned(n, "A", "A"), _turned(n, "B", "B"))
    return n.scaled(product, n.attr("alpha"), n.dtype("A"))


@operator("TransposeMatMul", "A:T B:T", **_TURNS)
def _transpose_matmul(n: Node) -> Result:
    """The older name of FusedMatMul."""
    return _fused_matmul(n)


@operator(
    "FusedMatMulActivation", "A:T B:T", **_TURNS, **_BATCH_TURNS, **_ACTIVATION, activation_axis=0
)
def _activated_matmul(n: Node) -> Result:
    """FusedMatMul, and an activation of it."""
    product = _fused_matmul(n)
    assert isinstance(product, str)
    return _with_activation(n, product, n.dtype("A"))


def _with_activation(n: Node, x: str, dtype: str) -> str:
    """By the attributes that are given, else those that the activation usually has."""
    name = n.attr("activation")
    given = {a.name for a in n.node.attribute}
    order = {"HardSigmoid": "alpha beta", "Selu": "alpha gamma", "Clip": "alpha beta"}
    parameters = []
    for letter in order.get(name, "alpha").split():
        if f"activation_{letter}" not in given:
            break
        parameters.append(n.attr(f"activation_{letter}"))
    return activated(n, x, name, parameters, dtype)


@operator("FusedGemm", "A:T B:T C:T?", **_TURNS, beta=1.0, **_ACTIVATION)
def _fused_gemm(n: Node) -> Result:
    """Gemm, and an activation of it."""
    inputs = [name for name in "ABC" if n.has(name)]
    own = {name: n.attr(name) for name in ("alpha", "beta", "transA", "transB")}
    return _with_activation(n, n.op("Gemm", *inputs, **own), n.dtype("A"))


@operator("GemmFastGelu", "X:T W:T bias:T?")
def _gemm_fast_gelu(n: Node) -> Result:
    """Gelu by the tangent, of the product plus the bias."""
    return n.op("Gelu", n.add(n.op("MatMul", "X", "W"), "bias"), approximate="tanh")


def channels_second(n: Node, x: str, rank: int) -> str:
    """`x`, whose channels come last, as the standard's convolutions and pools read it."""
    return n.transposed(x, 0, rank - 1, *range(1, rank - 1))


def channels_last(n: Node, x: str, rank: int) -> str:
    """`x`, whose channels come second, with its channels last."""
    return n.transposed(x, 0, *range(2, rank), 1)


def _conv(n: Node, last: bool) -> str:
    """A convolution, plus Z, activated. last: X, Z and the result have their channels last."""
    rank = len(n.shape("X"))
    if rank < 3:
        raise n.shape_error(f"'X' has {rank} dimensions; 3 or more are expected")
    x = channels_second(n, "X", rank) if last else "X"
    own = n.attributes_given("activation", "activation_params")
    x = n.op("Conv", x, "W", *(["B"] if n.has("B") else []), **own)
    x = channels_last(n, x, rank) if last else x
    x = n.add(x, "Z") if "Z" in n.given else x
    name = n.attributes.get("activation", "")
    return activated(n, x, name, n.attributes.get("activation_params", ()), n.dtype("X"))


_FUSED: dict[str, Any] = {**_WINDOW, "activation": "", "activation_params": ()}


@operator("FusedConv", "X:T W:T B:T? Z:T?", **_FUSED)
def _fused_conv(n: Node) -> Result:
    """Conv, plus Z, and an activation of it."""
    return _conv(n, last=False)


@operator("NhwcFusedConv", "X:T W:T B:T? Z:T?", **_FUSED)
def _nhwc_fused_conv(n: Node) -> Result:
    """FusedConv of channels that come last; the weights are those of Conv."""
    return _conv(n, last=True)


@operator("NhwcConv", "X:T W:T B:T?", **_WINDOW)
def _nhwc_conv(n: Node) -> Result:
    """Conv of channels that come last; the weights are those of Conv."""
    return _conv(n, last=True)


@operator(
    "NhwcMaxPool", "x:N", auto_pad="NOTSET", ceil_mode=0, dilations=(), kernel_shape=tuple,
    pads=(), strides=(),
)  # fmt: skip
def _nhwc_max_pool(n: Node) -> Result:
    """MaxPool of channels that come last."""
    rank = len(n.shape("x"))
    if rank < 3:
        raise n.shape_error(f"'x' has {rank} dimensions; 3 or more are expected")
    pooled = n.op("MaxPool", channels_second(n, "x", rank), **n.attributes_given())
    return channels_last(n, pooled, rank)


@operator(
    "ConvTransposeWithDynamicPads", "X:T W:T Pads:I? B:T?", auto_pad="NOTSET", dilations=(),
    group=1, kernel_shape=(), output_padding=(), strides=(),
)  # fmt: skip
def _conv_transpose(n: Node) -> Result:
    """ConvTranspose, with pads that are known while compiling."""
    own = n.attributes_given()
    if n.has("Pads"):
        own["pads"] = [int(x) for x in n.known("Pads", "they decide the shape").reshape(-1)]
    inputs = ["X", "W", *(["B"] if n.has("B") else [])]
    return n.op("ConvTranspose", *inputs, **own)


@operator("CDist", "A:T B:T", metric="sqeuclidean")
def _cdist(n: Node) -> Result:
    """Distances of rows: metric 'euclidean', or 'sqeuclidean', its square."""
    (rows, columns), (others, same) = n.shape("A", 2), n.shape("B", 2)
    metric = n.attr("metric")
    if columns != same:
        raise n.shape_error(f"rows of {columns} and of {same} elements")
    if metric not in ("euclidean", "sqeuclidean"):
        raise n.refuse(f"metric '{metric}' is not translated", "Use euclidean or sqeuclidean")
    apart = n.op("Sub", n.reshaped("A", rows, 1, columns), n.reshaped("B", 1, others, columns))
    squares = n.op("ReduceSumSquare", apart, n.ints(2), keepdims=0)
    return n.op("Sqrt", squares) if metric == "euclidean" else squares
