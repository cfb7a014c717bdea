"""Quantised operators of onnxruntime (domain com.microsoft) as functions of standard operators.

What its quantiser writes beside the standard: products and sums of integers with scales. Each is
the dequantised inputs, the operator in f32, and the quantised result; the lowerings then keep
integers where they are. Source: onnxruntime, docs/ContribOperators.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnx import FunctionProto, NodeProto, parser

from rcompiler.frontend.dynamic_lstm import integer_lstm

from .activations import softmax_of_rest
from .node import DOMAIN, Node, Result, operator
from .normalization import embedded
from .products import channels_last, channels_second

_LSTM_OPSET = 17  # of the standard operators
_TO_BYTES = "y_scale:T y_zero_point:Q?"
_ONE = f"x:Q x_scale:T x_zero_point:Q? {_TO_BYTES}"
_TWO = f"a:Q a_scale:T a_zero_point:Q? b:Q b_scale:T b_zero_point:Q? {_TO_BYTES}"


def _real(n: Node, name: str, x: str = "", **attributes: Any) -> str:
    """An input of bytes, or `x` made of it, in numbers: by its scale, and by its zero point where
    that is given.
    """
    zero = f"{name}_zero_point"
    given = [f"{name}_scale", *([zero] if n.has(zero) else [])]
    return n.op("DequantizeLinear", x or name, *given, **attributes)


def _bytes(n: Node, x: str, kind: str, name: str = "y") -> str:
    """Numbers in bytes, by the scale of a result. kind: their type, which a zero point that is not
    given does not tell.
    """
    zero = f"{name}_zero_point"
    zero = zero if n.has(zero) else n.constant(0, kind)
    return n.op("QuantizeLinear", x, f"{name}_scale", zero)


@operator("QLinearAdd", _TWO)
def _add(n: Node) -> Result:
    """The sum of bytes with scales."""
    return _bytes(n, n.op("Add", _real(n, "a"), _real(n, "b")), n.dtype("a"))


@operator("QLinearMul", _TWO)
def _mul(n: Node) -> Result:
    """The product of bytes with scales."""
    return _bytes(n, n.op("Mul", _real(n, "a"), _real(n, "b")), n.dtype("a"))


@operator("QLinearLeakyRelu", _ONE, alpha=0.01)
def _leaky_relu(n: Node) -> Result:
    """LeakyRelu of bytes with scales."""
    y = n.op("LeakyRelu", _real(n, "x"), alpha=n.attr("alpha"))
    return _bytes(n, y, n.dtype("x"))


@operator("QLinearSigmoid", _ONE)
def _sigmoid(n: Node) -> Result:
    """Sigmoid of bytes with scales."""
    return _bytes(n, n.op("Sigmoid", _real(n, "x")), n.dtype("x"))


@operator("QLinearReduceMean", _ONE, axes=(), keepdims=1)
def _reduce_mean(n: Node) -> Result:
    """ReduceMean of bytes with scales."""
    axes = [n.ints(*n.attr("axes"))] if n.attr("axes") else []
    y = n.op("ReduceMean", _real(n, "x"), *axes, keepdims=n.attr("keepdims"))
    return _bytes(n, y, n.dtype("x"))


@operator("QLinearSoftmax", _ONE, axis=-1, opset=int)
def _softmax(n: Node) -> Result:
    """As the standard has Softmax in the opset that the attribute says: before 13, all axes from
    `axis` on are one row.
    """
    x, axis = _real(n, "x"), n.attr("axis")
    if n.attr("opset") < 13:
        y = softmax_of_rest(n, x, len(n.shape("x")), axis)
    else:
        y = n.op("Softmax", x, axis=axis)
    return _bytes(n, y, n.dtype("x"))


@operator("QLinearConcat", f"{_TO_BYTES} x#:Q x#_scale:T x#_zero_point:Q?", axis=int)
def _concat(n: Node) -> Result:
    """Parts of bytes, each with its scale and zero point, one behind the other."""
    parts = [_real(n, f.name) for f in n.formals[2::3]]
    return _bytes(n, n.op("Concat", *parts, axis=n.attr("axis")), n.dtype("x0"))


@operator(
    "QLinearWhere",
    "condition:B X:Q X_scale:T X_zero_point:Q? Y:Q Y_scale:T Y_zero_point:Q? "
    "Z_scale:T Z_zero_point:Q?",
)
def _where(n: Node) -> Result:
    """Of two tensors of bytes with scales the one that the condition says."""
    chosen = n.op("Where", "condition", _real(n, "X"), _real(n, "Y"))
    return _bytes(n, chosen, n.dtype("X"), "Z")


@operator(
    "QGemm",
    "a:Q a_scale:T a_zero_point:Q? b:Q1 b_scale:T b_zero_point:Q1? c:I? y_scale:T? "
    "y_zero_point:Q2?",
    alpha=1.0,
    transA=0,
    transB=0,
)
def _gemm(n: Node) -> Result:
    """Gemm of bytes with scales, b's one for each column or one. The bias has the scale of the
    products, in which `alpha` is a factor. Without a scale of the result it stays f32.
    """
    if n.has("y_scale") != n.has("y_zero_point"):
        reason = "a result with one of 'y_scale' and 'y_zero_point' is not translated"
        raise n.refuse(reason, "Give both, or leave both out")
    b = _real(n, "b", axis=0 if n.attr("transB") else 1)
    y = n.op("Gemm", _real(n, "a"), b, **n.attributes)
    if n.has("c"):
        kind = n.dtype("a_scale")
        scale = n.op("Mul", "a_scale", "b_scale")
        scale = n.op("Mul", scale, n.constant(n.attr("alpha"), kind))
        y = n.op("Add", y, n.op("Mul", n.cast("c", kind), scale))
    return _bytes(n, y, "") if n.has("y_scale") else y


@operator(
    "MatMulIntegerToFloat",
    "a:Q b:Q1 a_scale:T b_scale:T a_zero_point:Q? b_zero_point:Q1? bias:T?",
)
def _to_float(n: Node) -> Result:
    """The product of bytes with scales, b's one for each column or one, in f32."""
    return n.add(n.op("MatMul", _real(n, "a"), _real(n, "b", axis=-1)), "bias")


@operator("DynamicQuantizeMatMul", "a:T b:Q b_scale:T b_zero_point:Q? bias:T?")
def _dynamic_matmul(n: Node) -> Result:
    """MatMulIntegerToFloat of numbers that are quantised by their range."""
    given = n.ops("DynamicQuantizeLinear", "a", results=3)
    a = n.op("DequantizeLinear", *given)
    return n.add(n.op("MatMul", a, _real(n, "b", axis=-1)), "bias")


def _pool(n: Node, op: str, **attributes: Any) -> str:
    """A pool of dequantised bytes, quantised again. Bytes are what is turned where the channels
    come last.
    """
    rank, last = len(n.shape("x")), n.attr("channels_last")
    if rank < 3:
        raise n.shape_error(f"'x' has {rank} dimensions; 3 or more are expected")
    x = channels_second(n, "x", rank) if last else "x"
    y = _bytes(n, n.op(op, _real(n, "x", x), **attributes), n.dtype("x"))
    return channels_last(n, y, rank) if last else y


@operator("QLinearGlobalAveragePool", _ONE, channels_last=0)
def _global_average_pool(n: Node) -> Result:
    """GlobalAveragePool of bytes with scales, of channels that come second or last."""
    return _pool(n, "GlobalAveragePool")


@operator(
    "QLinearAveragePool", _ONE, auto_pad="NOTSET", ceil_mode=0, channels_last=0,
    count_include_pad=0, kernel_shape=tuple, pads=(), strides=(),
)  # fmt: skip
def _average_pool(n: Node) -> Result:
    """AveragePool of bytes with scales, of channels that come second or last."""
    return _pool(n, "AveragePool", **n.attributes_given("channels_last"))


@operator(
    "QLinearConv",
    "x:Q x_scale:T x_zero_point:Q w:Q1 w_scale:T w_zero_point:Q1 y_scale:T y_zero_point:Q2 B:I?",
    auto_pad="NOTSET", channels_last=0, dilations=(), group=1, kernel_shape=(), pads=(), strides=(),
)  # fmt: skip
def _conv(n: Node) -> Result:
    """As the standard's, of channels that come second or last; the weights are those of Conv."""
    rank, last = len(n.shape("x")), n.attr("channels_last")
    if rank < 3:
        raise n.shape_error(f"'x' has {rank} dimensions; 3 or more are expected")
    rest = [formal.name for formal in n.formals[1:] if n.has(formal.name)]
    x = channels_second(n, "x", rank) if last else "x"
    y = n.op("QLinearConv", x, *rest, **n.attributes_given("channels_last"))
    return channels_last(n, y, rank) if last else y


_TABLES = ("word_embedding", "position_embedding", "segment_embedding", "gamma", "beta")


@operator(
    "QEmbedLayerNormalization",
    "input_ids:I segment_ids:I? word_embedding:Q position_embedding:Q segment_embedding:Q? "
    "gamma:Q beta:Q mask:I? word_embedding_scale:T position_embedding_scale:T "
    "segment_embedding_scale:T? gamma_scale:T beta_scale:T word_embedding_zero_point:Q "
    "position_embedding_zero_point:Q segment_embedding_zero_point:Q? gamma_zero_point:Q "
    "beta_zero_point:Q",
    outputs=2,
    epsilon=1e-12,
)
def _embed(n: Node) -> Result:
    """EmbedLayerNormalization of tables of bytes with scales."""
    real = {name: _real(n, name) for name in _TABLES if n.has(name)}
    return embedded(n, real)[:2]


def quantised_lstm(node: NodeProto, first: Sequence[int] = ()) -> FunctionProto:
    """DynamicQuantizeLSTM; first: the shape of its first input, where it is known."""
    return integer_lstm(node, DOMAIN, first) or _lstm()


def _lstm() -> FunctionProto:
    """Weights [directions, depth, 4 hidden] of bytes, with a scale for each direction or for each
    column of it, as f32: for forms that `integer_lstm` does not have.
    """
    lines = ["each = Constant <value_ints = [0, 1, -1]> ()"]
    for w in "wr":
        lines += [
            f"{w}_steps = Reshape ({w}_scale, each)",
            f"{w}_shift = Reshape ({w}_zero, each)",
            f"{w}_wide = Cast <to: int = 1> ({w})",
            f"{w}_low = Cast <to: int = 1> ({w}_shift)",
            f"{w}_around = Sub ({w}_wide, {w}_low)",
            f"{w}_real = Mul ({w}_around, {w}_steps)",
            f"{w}_turned = Transpose <perm: ints = [0, 2, 1]> ({w}_real)",
        ]
    return parser.parse_function(
        f'<domain: "{DOMAIN}", opset_import: ["" : {_LSTM_OPSET}]> '
        "DynamicQuantizeLSTM <activation_alpha, activation_beta, activations, clip, direction, "
        "hidden_size, input_forget> (x, w, r, b, lengths, h, c, p, w_scale, w_zero, r_scale, "
        "r_zero) => (y, y_h, y_c) { "
        + "\n".join(lines)
        + "\ny, y_h, y_c = LSTM <activation_alpha: floats = @activation_alpha, "
        "activation_beta: floats = @activation_beta, activations: strings = @activations, "
        "clip: float = @clip, direction: string = @direction, hidden_size: int = @hidden_size, "
        "input_forget: int = @input_forget> (x, w_turned, r_turned, b, lengths, h, c, p) }"
    )
