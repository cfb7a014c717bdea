"""Activations, with the biases that onnxruntime fuses into them."""

from __future__ import annotations

from collections.abc import Sequence

from .node import Node, Result, operator

_PARAMETERS = {  # of an activation in a fused operator: its attributes, in order
    "": (),
    "Relu": (),
    "Tanh": (),
    "Sigmoid": (),
    "HardSwish": (),
    "Softplus": (),
    "Softsign": (),
    "Gelu": (),
    "LeakyRelu": ("alpha",),
    "Elu": ("alpha",),
    "ThresholdedRelu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "Selu": ("alpha", "gamma"),
}


def activated(n: Node, x: str, name: str, parameters: Sequence[float], dtype: str) -> str:
    """`x` under the activation of a fused operator. parameters: what it needs, from the first on;
    those of Clip are its bounds. dtype: of `x`.
    """
    if name == "Clip":
        bounds = [n.constant(number, dtype) for number in parameters[:2]]
        return n.op("Clip", x, *bounds)
    if name not in _PARAMETERS:
        raise n.refuse(f"activation '{name}' is not translated", "Apply it with an operator")
    if not name:
        return x
    given = dict(zip(_PARAMETERS[name], parameters, strict=False))
    return n.op(name, x, **{key: float(value) for key, value in given.items()})


def silu(n: Node, x: str) -> str:
    """``x * sigmoid(x)``."""
    return n.op("Swish", x)


def _bias_of_columns(n: Node, x: str, bias: str) -> None:
    shape = n.shape(x)
    if not shape:
        raise n.shape_error(f"'{x}' is a scalar")
    n.need_shape(bias, shape[-1:])


@operator("Gelu", "X:T")
def _gelu(n: Node) -> Result:
    """By the error function."""
    return n.op("Gelu", "X")


@operator("QuickGelu", "X:T", alpha=1.702)
def _quick_gelu(n: Node) -> Result:
    """`X * sigmoid(alpha * X)`."""
    return n.op("Swish", "X", alpha=n.attr("alpha"))


@operator("FastGelu", "X:T bias:T?")
def _fast_gelu(n: Node) -> Result:
    """By the tangent, of X plus the bias."""
    _bias_of_columns(n, "X", "bias")
    return n.op("Gelu", n.add("X", "bias"), approximate="tanh")


@operator("BiasGelu", "A:T B:T")
def _bias_gelu(n: Node) -> Result:
    """By the error function, of A plus the bias B."""
    _bias_of_columns(n, "A", "B")
    return n.op("Gelu", n.add("A", "B"))


@operator("BiasSplitGelu", "X:T bias:T")
def _bias_split_gelu(n: Node) -> Result:
    """The first half of the columns times Gelu of the second."""
    *_, columns = n.shape("X", 3)
    _bias_of_columns(n, "X", "bias")
    if columns % 2:
        raise n.shape_error(f"{columns} columns have no halves")
    biased = n.add("X", "bias")
    left, right = n.split(biased, -1, columns // 2, columns // 2)
    return n.op("Mul", left, n.op("Gelu", right))


@operator("BiasAdd", "X:T bias:T skip:T")
def _bias_add(n: Node) -> Result:
    """The sum of the three."""
    _bias_of_columns(n, "X", "bias")
    n.need_shape("skip", n.shape("X"))
    return n.add("X", "bias", "skip")


@operator("BiasDropout", "data:T bias:T residual:T? ratio:U? training_mode:B?", outputs=2, seed=0)
def _bias_dropout(n: Node) -> Result:
    """Inference: the sum, and a mask of ones. Training draws random numbers, which is refused."""
    n.need_broadcast("bias", n.shape("data"))
    n.need_shape("residual", n.shape("data"))
    if n.has("training_mode") and n.known("training_mode", "it decides what is computed").any():
        raise n.refuse("training mode draws random numbers", "Export the model for inference")
    biased, mask = n.ops("Dropout", n.add("data", "bias"), results=2)
    return [n.add(biased, "residual"), mask]


@operator("BiasSoftmax", "data:T bias:T", axis=1, is_inner_broadcast=int)
def _bias_softmax(n: Node) -> Result:
    """Softmax over all dimensions from `axis` on, of data plus a bias that broadcasts to it."""
    shape, axis = n.shape("data"), n.attr("axis")
    n.need_broadcast("bias", shape)
    if not -len(shape) <= axis < len(shape):
        raise n.shape_error(f"axis {axis} is outside a tensor of rank {len(shape)}")
    return softmax_of_rest(n, n.add("data", "bias"), len(shape), axis)


def softmax_of_rest(n: Node, x: str, rank: int, axis: int) -> str:
    """Over all dimensions from `axis` on, as the standard had Softmax before opset 13."""
    if axis in (-1, rank - 1):
        return n.op("Softmax", x, axis=-1)
    flat = n.op("Softmax", n.op("Flatten", x, axis=axis), axis=-1)
    return n.op("Reshape", flat, n.op("Shape", x))


@operator(
    "SwiGLU", "gate:T up:T?", activation_alpha=1.0, activation_beta=0.0, limit=0.0,
    round_activation=0,
)  # fmt: skip
def _swiglu(n: Node) -> Result:
    """`gate * sigmoid(alpha * gate) * (up + beta)`, both clamped by `limit`; of a gate alone, its
    columns are both halves."""
    shape, limit, dtype = n.shape("gate"), n.attr("limit"), n.dtype("gate")
    gate, up = "gate", "up"
    if n.has("up"):
        n.need_shape("up", shape)
    elif not shape or shape[-1] % 2:
        raise n.shape_error("the columns of 'gate' have no halves")
    else:
        gate, up = n.split("gate", -1, shape[-1] // 2, shape[-1] // 2)
    if limit > 0:
        low, high = n.constant(-limit, dtype), n.constant(limit, dtype)
        gate, up = n.op("Clip", gate, "", high), n.op("Clip", up, low, high)
    if n.attr("activation_beta"):
        up = n.op("Add", up, n.constant(n.attr("activation_beta"), dtype))
    return n.op("Mul", n.op("Swish", gate, alpha=n.attr("activation_alpha")), up)
