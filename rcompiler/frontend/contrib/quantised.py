"""Quantised operators of onnxruntime (domain com.microsoft) as functions of standard operators.

What its quantiser writes beside the standard: products and sums of integers with scales. Each is
the dequantised inputs, the operator in f32, and the quantised result; the lowerings then keep
integers where they are. Source: onnxruntime, docs/ContribOperators.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from onnx import FunctionProto, NodeProto, parser

from rcompiler.frontend.dynamic_lstm import integer_lstm

from .node import DOMAIN, Node, Result, operator
from .products import channels_last, channels_second

OPSET = 17  # of the standard operators

# "x" with a scale and a zero point, to "y" with its own
_UNARY = """{name} {attributes} (x, x_scale, x_zero, y_scale, y_zero) => (y) {{
  x_real = DequantizeLinear (x, x_scale, x_zero)
  y_real = {call} (x_real)
  y = QuantizeLinear (y_real, y_scale, y_zero)
}}"""
_BINARY = """{name} (a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero) => (y) {{
  a_real = DequantizeLinear (a, a_scale, a_zero)
  b_real = DequantizeLinear (b, b_scale, b_zero)
  y_real = {call} (a_real, b_real)
  y = QuantizeLinear (y_real, y_scale, y_zero)
}}"""
_TEXTS = {
    "QLinearAdd": _BINARY.format(name="QLinearAdd", call="Add"),
    "QLinearMul": _BINARY.format(name="QLinearMul", call="Mul"),
    "QLinearLeakyRelu": _UNARY.format(
        name="QLinearLeakyRelu",
        attributes="<alpha: float = 0.01>",
        call="LeakyRelu <alpha: float = @alpha>",
    ),
    "QLinearSigmoid": _UNARY.format(name="QLinearSigmoid", attributes="", call="Sigmoid"),
    "QLinearReduceMean": _UNARY.format(
        name="QLinearReduceMean",
        attributes="<axes, keepdims: int = 1>",
        call="ReduceMean <axes: ints = @axes, keepdims: int = @keepdims>",
    ),
}


def quantised_body(node: NodeProto, first: Sequence[int] = ()) -> FunctionProto | None:
    """What a quantised node of `DOMAIN` stands for; None of an operator, or of a form of it, that
    is not here. first: the shape of its first input, where it is known.
    """
    if node.op_type in _TEXTS:
        return _parsed(_TEXTS[node.op_type])
    if node.op_type == "DynamicQuantizeLSTM":
        return integer_lstm(node, DOMAIN, first) or _lstm(node)
    build = _BUILDERS.get(node.op_type)
    return None if build is None else build(node)


def _parsed(text: str, opset: int = OPSET) -> FunctionProto:
    return parser.parse_function(f'<domain: "{DOMAIN}", opset_import: ["" : {opset}]> {text}')


def _has(node: NodeProto, index: int) -> bool:
    return index < len(node.input) and bool(node.input[index])


def _concat(node: NodeProto) -> FunctionProto:
    """y_scale, y_zero, then a tensor, its scale and its zero point for each part."""
    count = (len(node.input) - 2) // 3
    inputs = [f"{name}{k}" for k in range(count) for name in ("x", "scale", "zero")]
    lines = [f"real{k} = DequantizeLinear (x{k}, scale{k}, zero{k})" for k in range(count)]
    parts = ", ".join(f"real{k}" for k in range(count))
    return _parsed(
        f"QLinearConcat <axis> (y_scale, y_zero, {', '.join(inputs)}) => (y) {{ "
        + "\n".join(lines)
        + f"\n all = Concat <axis: int = @axis> ({parts})\n"
        "y = QuantizeLinear (all, y_scale, y_zero) }"
    )


def _softmax(node: NodeProto) -> FunctionProto:
    """As the standard has Softmax in the opset that the attribute says: before 13, all axes from
    `axis` on are one row.
    """
    said = [a.i for a in node.attribute if a.name == "opset"]
    text = _UNARY.format(
        name="QLinearSoftmax", attributes="<axis: int = -1>", call="Softmax <axis: int = @axis>"
    )
    return _parsed(text, 12 if said and said[0] < 13 else OPSET)


def _gemm(node: NodeProto) -> FunctionProto:
    """Without a scale of the result it stays f32. The bias has the scale of the products, in which
    `alpha` is a factor.
    """
    turned = any(a.name == "transB" and a.i for a in node.attribute)
    result = "product"
    lines = [
        "a_real = DequantizeLinear (a, a_scale, a_zero)",
        f"b_real = DequantizeLinear <axis: int = {0 if turned else 1}> (b, b_scale, b_zero)",
        "product = Gemm <alpha: float = @alpha, transA: int = @transA, transB: int = @transB> "
        "(a_real, b_real)",
    ]
    if _has(node, 6):
        result = "biased"
        lines += [
            "factor = Constant <value_float: float = @alpha> ()",
            "product_scale = Mul (a_scale, b_scale)",
            "bias_scale = Mul (product_scale, factor)",
            "bias_real = Cast <to: int = 1> (c)",
            "bias = Mul (bias_real, bias_scale)",
            "biased = Add (product, bias)",
        ]
    quantise = f"QuantizeLinear ({result}, y_scale, y_zero)"
    lines.append(f"y = {quantise if _has(node, 7) else f'Identity ({result})'}")
    return _parsed(
        "QGemm <alpha: float = 1.0, transA: int = 0, transB: int = 0> "
        "(a, a_scale, a_zero, b, b_scale, b_zero, c, y_scale, y_zero) => (y) { "
        + "\n".join(lines)
        + " }"
    )


def _to_float(node: NodeProto) -> FunctionProto:
    return _parsed(
        "MatMulIntegerToFloat (a, b, a_scale, b_scale, a_zero, b_zero, bias) => (y) { "
        "a_real = DequantizeLinear (a, a_scale, a_zero)\n" + _product(node, 6) + " }"
    )


def _dynamic_matmul(node: NodeProto) -> FunctionProto:
    return _parsed(
        "DynamicQuantizeMatMul (a, b, b_scale, b_zero, bias) => (y) { "
        "a_bytes, a_scale, a_zero = DynamicQuantizeLinear (a)\n"
        "a_real = DequantizeLinear (a_bytes, a_scale, a_zero)\n" + _product(node, 4) + " }"
    )


def _product(node: NodeProto, bias: int) -> str:
    """a_real times b, with one scale or one for each column; with the bias if there is one."""
    last = "y = Add (product, bias)" if _has(node, bias) else "y = Identity (product)"
    return (
        "b_real = DequantizeLinear <axis: int = -1> (b, b_scale, b_zero)\n"
        f"product = MatMul (a_real, b_real)\n{last}"
    )


def _lstm(node: NodeProto) -> FunctionProto:
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
    return _parsed(
        "DynamicQuantizeLSTM <activation_alpha, activation_beta, activations, clip, direction, "
        "hidden_size, input_forget> (x, w, r, b, lengths, h, c, p, w_scale, w_zero, r_scale, "
        "r_zero) => (y, y_h, y_c) { "
        + "\n".join(lines)
        + "\ny, y_h, y_c = LSTM <activation_alpha: floats = @activation_alpha, "
        "activation_beta: floats = @activation_beta, activations: strings = @activations, "
        "clip: float = @clip, direction: string = @direction, hidden_size: int = @hidden_size, "
        "input_forget: int = @input_forget> (x, w_turned, r_turned, b, lengths, h, c, p) }"
    )


def _pool(n: Node, op: str, **attributes: Any) -> str:
    """A pool of dequantised bytes, quantised again. Bytes are what is turned where the channels
    come last.
    """
    rank, last = len(n.shape("X")), n.attr("channels_last")
    if rank < 3:
        raise n.shape_error(f"'X' has {rank} dimensions; 3 or more are expected")
    before = ["x_zero_point"] if n.has("x_zero_point") else []
    after = "y_zero_point" if n.has("y_zero_point") else n.constant(0, n.dtype("X"))
    x = channels_second(n, "X", rank) if last else "X"
    pooled = n.op(op, n.op("DequantizeLinear", x, "x_scale", *before), **attributes)
    y = n.op("QuantizeLinear", pooled, "y_scale", after)
    return channels_last(n, y, rank) if last else y


_POOLED = "X:Q x_scale:T x_zero_point:Q? y_scale:T y_zero_point:Q?"


@operator("QLinearGlobalAveragePool", _POOLED, channels_last=0)
def _global_average_pool(n: Node) -> Result:
    """GlobalAveragePool of bytes with scales, of channels that come second or last."""
    return _pool(n, "GlobalAveragePool")


@operator(
    "QLinearAveragePool", _POOLED, auto_pad="NOTSET", ceil_mode=0, channels_last=0,
    count_include_pad=0, kernel_shape=tuple, pads=(), strides=(),
)  # fmt: skip
def _average_pool(n: Node) -> Result:
    """AveragePool of bytes with scales, of channels that come second or last."""
    return _pool(n, "AveragePool", **n.attributes_given("channels_last"))


_BUILDERS: dict[str, Callable[[NodeProto], FunctionProto | None]] = {
    "QLinearConcat": _concat,
    "QGemm": _gemm,
    "QLinearSoftmax": _softmax,
    "MatMulIntegerToFloat": _to_float,
    "DynamicQuantizeMatMul": _dynamic_matmul,
}

QUANTISED = frozenset((*_TEXTS, *_BUILDERS, "DynamicQuantizeLSTM"))
