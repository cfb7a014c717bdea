"""What a quantised network is made of: an operator of each, on tensors that it has already."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .maker import Reject, Value
from .quantised_graphs import Network, Step, Tensor

_CHANNELS = (1, 2, 3, 5, 7, 8, 13, 16, 17, 24, 26, 32, 33, 40, 52, 64)
_MOST = 6000  # elements of a tensor
_DEEPEST = 900  # products that a result adds up: of more, f32 may not have the sum


def _images(tensor: Tensor) -> bool:
    return len(tensor.shape) in (3, 4)


def _window(net: Network, x: Tensor) -> tuple[list[int], dict[str, Any]]:
    """(kernel, attributes) of windows that fit."""
    g, extents = net.g, x.shape[2:]
    kernel = [min(g.pick((1, 1, 2, 3, 3, 5)), d) for d in extents]
    strides = [g.pick((1, 1, 2))] * len(kernel)
    found: dict[str, Any] = {"kernel_shape": kernel, "strides": strides}
    if g.chance(0.2):
        found["auto_pad"] = g.pick(("VALID", "SAME_UPPER", "SAME_LOWER"))
    else:
        found["pads"] = [g.int(0, k // 2) for k in kernel] * 2
    return kernel, found


def _conv_weights(net: Network, x: Tensor) -> tuple[Tensor, dict[str, Any]]:
    """Depthwise, in groups, or of all channels."""
    g, ci = net.g, x.shape[1]
    kernel, found = _window(net, x)
    form = g.pick(("full", "full", "depthwise", "grouped"))
    if form == "depthwise":
        groups, co = ci, ci * g.pick((1, 1, 1, 2))
    else:
        groups = g.pick([d for d in (2, 3, 4) if ci % d == 0] or [1]) if form == "grouped" else 1
        co = groups * g.pick(_CHANNELS) if groups == 1 else groups * g.pick((1, 2, 5, 8))
    depth = ci // groups * math.prod(kernel)
    if co * math.prod(x.shape[2:]) * x.shape[0] > _MOST or depth > _DEEPEST:
        raise Reject
    w = net.weights((co, ci // groups, *kernel), 0, depth)
    return w, {"group": groups, **found}


def conv(net: Network) -> None:
    x = net.tensor(_images)
    w, found = _conv_weights(net, x)
    bias = net.bias(w.shape[0]) if net.g.chance(0.6) else None
    plain = net.g.chance(0.15) and not net.exact and bias is not None
    after = _activation(net)

    def real() -> Value:
        b = bias and net.real_bias(bias, x, w)
        if plain:
            b = net.g.fixed(np.float32(b.array), "float32")
        return after(net.g.node("Conv", [net.real(x), net.real(w), b], **found)[0])

    def linear(scale: Value, zero: Value) -> Value:
        return net.g.node("QLinearConv", [*x.numbers, *w.numbers, scale, zero, bias], **found)[0]

    net.either(real, linear)


def _activation(net: Network) -> Callable[[Value], Value]:
    """What may follow a product before it is quantised."""
    name = net.g.pick(("", "", "Relu", "Relu", "Clip", "HardSwish"))
    if name == "Relu":
        return lambda value: net.g.node("Relu", [value])[0]
    if name == "Clip":
        limits = [net.g.fixed(np.float32(n), "float32") for n in (0, net.g.pick((1, 6)))]
        return lambda value: net.g.node("Clip", [value, *limits])[0]
    if name == "HardSwish" and net.g.opset >= 14 and not net.exact:
        return lambda value: net.g.node("HardSwish", [value])[0]
    return lambda value: value


def _matrix(net: Network) -> tuple[Tensor, int]:
    """A tensor, and how many columns it is to be multiplied with."""
    x = net.tensor(lambda t: len(t.shape) >= 2 and t.shape[-1] <= _DEEPEST)
    columns = net.g.pick(_CHANNELS)
    if math.prod(x.shape[:-1]) * columns > _MOST:
        raise Reject
    return x, columns


def matmul(net: Network) -> None:
    g, (x, columns) = net.g, _matrix(net)
    depth = x.shape[-1]
    w = net.weights((depth, columns), 1, depth)
    bias = g.leaf("float32", (columns,), -1, 1, True) if g.chance(0.4) and not net.exact else None
    after = _activation(net)

    def real() -> Value:
        made = g.node("MatMul", [net.real(x), net.real(w)])[0]
        return after(g.node("Add", [made, bias])[0] if bias else made)

    def linear(scale: Value, zero: Value) -> Value:
        return g.node("QLinearMatMul", [*x.numbers, *w.numbers, scale, zero])[0]

    net.either(real, linear)


def gemm(net: Network) -> None:
    g, (x, columns) = net.g, _matrix(net)
    if len(x.shape) != 2:
        x = flat(net, x)
    depth, turned = x.shape[1], g.int(0, 1)
    if depth > _DEEPEST or x.shape[0] * columns > _MOST:
        raise Reject
    w = net.weights((columns, depth) if turned else (depth, columns), 1 - turned, depth)
    bias = net.bias(columns) if g.chance(0.7) else None
    after = _activation(net)

    def real() -> Value:
        b = bias and net.real_bias(bias, x, w)
        return after(g.node("Gemm", [net.real(x), net.real(w), b], transB=turned)[0])

    def linear(scale: Value, zero: Value) -> Value:
        inputs = [*x.numbers, *w.numbers, bias, scale, zero]
        return net.contributed("QGemm", inputs, zero.dtype, transB=turned)

    net.either(real, linear, x.bytes.dtype)


def flat(net: Network, x: Tensor) -> Tensor:
    return net.add_like(net.g.node("Flatten", [net.real(x)])[0], x)


def dynamic(net: Network) -> None:
    """A product with what is quantised as it runs, and its bias in f32."""
    g, (x, columns) = net.g, _matrix(net)
    depth = x.shape[-1]
    w = net.weights((depth, columns), 1, depth, few=g.chance(0.5))
    bias = g.leaf("float32", (columns,), -1, 1, True) if g.chance(0.5) else None
    if net.exact:
        raise Reject  # the scale is no power of two
    value = net.real(x)
    if g.chance(0.3):
        inputs = [value, w.bytes, w.scale, w.zero, bias]
        net.add(net.contributed("DynamicQuantizeMatMul", inputs, "float32"))
        return
    q, step, zero = g.node("DynamicQuantizeLinear", [value], 3)
    if g.chance(0.3):
        inputs = [q, w.bytes, step, w.scale, zero, w.zero, bias]
        made = net.contributed("MatMulIntegerToFloat", inputs, "float32")
    else:
        made = _scaled(net, g.node("MatMulInteger", [q, w.bytes, zero, w.zero])[0], step, w.scale)
        made = g.node("Add", [made, bias])[0] if bias else made
    net.add(_activation(net)(made))


def dynamic_conv(net: Network) -> None:
    """As for products; or of bytes that there are, by a scale that is constant."""
    g, x = net.g, net.tensor(_images)
    w, found = _conv_weights(net, x)
    if w.axis is not None:
        raise Reject  # no zero points by channel are allowed
    given = x.numbers
    if g.chance(0.6) and not net.exact:
        q, step, zero = g.node("DynamicQuantizeLinear", [net.real(x)], 3)
        given = q, step, zero
    elif x.bytes.dtype != "uint8":
        raise Reject  # of onnxruntime
    sums = g.node("ConvInteger", [given[0], w.bytes, given[2], w.zero], **found)[0]
    net.add(_activation(net)(_scaled(net, sums, given[1], w.scale)))


def _scaled(net: Network, sums: Value, step: Value, other: Value) -> Value:
    """Sums of products by both scales, as quantisers write it."""
    (wide,) = net.g.node("Cast", [sums], to=1)
    (factor,) = net.g.node("Mul", [step, other])
    return net.g.node("Mul", [wide, factor])[0]


def binary(net: Network) -> None:
    """With another tensor of the same shape, or with one number for each channel or image."""
    g, op = net.g, net.g.pick(("Add", "Add", "Mul"))
    a = net.tensor()
    b = g.pick([t for t in net.tensors if t.shape == a.shape or _spreads(t, a)])
    a, b = (a, b) if g.chance(0.5) else (b, a)
    after = _activation(net)

    def real() -> Value:
        return after(g.node(op, [net.real(a), net.real(b)])[0])

    def linear(scale: Value, zero: Value) -> Value:
        inputs = [*a.numbers, *b.numbers, scale, zero]
        return net.contributed(f"QLinear{op}", inputs, zero.dtype)

    if a.bytes.dtype == b.bytes.dtype:
        net.either(real, linear, a.bytes.dtype)
    else:
        net.add(real())


def _spreads(small: Tensor, large: Tensor) -> bool:
    same_rank = len(small.shape) == len(large.shape)
    return same_rank and all(s in (1, d) for s, d in zip(small.shape, large.shape, strict=True))


def concat(net: Network) -> None:
    g, first = net.g, net.tensor(lambda t: len(t.shape) >= 2)

    def beside(t: Tensor) -> bool:
        return t.shape[:1] + t.shape[2:] == first.shape[:1] + first.shape[2:] and (
            len(t.shape) == len(first.shape) and t.bytes.dtype == first.bytes.dtype
        )

    parts = [net.tensor(beside) for _ in range(g.int(1, 2))]
    parts.insert(g.int(0, len(parts)), first)
    if sum(math.prod(t.shape) for t in parts) > _MOST:
        raise Reject

    def real() -> Value:
        return g.node("Concat", [net.real(t) for t in parts], axis=1)[0]

    def linear(scale: Value, zero: Value) -> Value:
        inputs = [scale, zero, *(n for t in parts for n in t.numbers)]
        return net.contributed("QLinearConcat", inputs, zero.dtype, axis=1)

    net.either(real, linear, first.bytes.dtype)


def max_pool(net: Network) -> None:
    x = net.tensor(_images)
    _, found = _window(net, x)
    net.add_like(net.g.node("MaxPool", [net.real(x)], **found)[0], x)


def average_pool(net: Network) -> None:
    g, x = net.g, net.tensor(_images)
    if net.exact:
        extents = x.shape[2:]
        if min(extents) < 2:
            raise Reject
        found: dict[str, Any] = {"kernel_shape": [2] * len(extents), "strides": [g.int(1, 2)] * 2}
        found["strides"] = found["strides"][: len(extents)]
    else:
        _, found = _window(net, x)
        found["count_include_pad"] = g.int(0, 1)
    _one(net, x, "AveragePool", **found)


def global_average_pool(net: Network) -> None:
    x = net.tensor(_images)
    if net.exact and math.prod(x.shape[2:]) & (math.prod(x.shape[2:]) - 1):
        raise Reject
    _one(net, x, "GlobalAveragePool")


def mean(net: Network) -> None:
    x = net.tensor(_images)
    if net.exact or net.g.opset >= 18:  # where the axes are an operand
        raise Reject
    axes = sorted(net.g.subset(range(1, len(x.shape)), 1))
    _one(net, x, "ReduceMean", axes=axes, keepdims=1)


def sigmoid(net: Network) -> None:
    if net.exact:
        raise Reject
    net.open = True
    _one(net, net.tensor(), "Sigmoid")


def leaky(net: Network) -> None:
    alpha = 0.25 if net.exact else net.g.pick((0.01, 0.1, 0.3))
    _one(net, net.tensor(), "LeakyRelu", alpha=alpha)


def _one(net: Network, x: Tensor, op: str, **attributes: Any) -> None:
    """An operator of one tensor."""

    def real() -> Value:
        return net.g.node(op, [net.real(x)], **attributes)[0]

    def linear(scale: Value, zero: Value) -> Value:
        inputs = [*x.numbers, scale, zero]
        return net.contributed(f"QLinear{op}", inputs, zero.dtype, **attributes)

    net.either(real, linear, x.bytes.dtype)


def curve(net: Network) -> None:
    """A function that only f32 has."""
    op = net.g.pick(("Tanh", "HardSwish", "HardSigmoid", "Elu", "Erf", "Softplus"))
    if net.exact or op == "HardSwish" and net.g.opset < 14:
        raise Reject
    net.open |= op not in ("HardSwish", "HardSigmoid")
    net.add(net.g.node(op, [net.real(net.tensor())])[0])


def bounded(net: Network) -> None:
    g = net.g
    if g.chance(0.5):
        net.add(g.node("Relu", [net.real(net.tensor())])[0])
        return
    low, high = (g.fixed(np.float32(n), "float32") for n in g.pick(((0, 6), (-1, 1), (0, 0.5))))
    net.add(g.node("Clip", [net.real(net.tensor()), low, high])[0])


def resize(net: Network) -> None:
    g, x = net.g, net.tensor(lambda t: len(t.shape) == 4)
    if math.prod(x.shape) * 4 > _MOST:
        raise Reject
    # given as scales, extents would be as noisy as they are
    sizes = g.fixed(np.array([*x.shape[:2], *(2 * d for d in x.shape[2:])]))
    if g.chance(0.6):
        how = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric",
               "nearest_mode": "floor"}  # fmt: skip
        net.add_like(g.node("Resize", [net.real(x), None, None, sizes], **how)[0], x)
    elif net.exact:
        raise Reject
    else:
        net.open = True
        mode = g.pick(("half_pixel", "asymmetric"))
        how = {"mode": "linear", "coordinate_transformation_mode": mode}
        net.add(g.node("Resize", [net.real(x), None, None, sizes], **how)[0])


def move(net: Network) -> None:
    """The same numbers at other places."""
    g, x = net.g, net.tensor(lambda t: len(t.shape) >= 2)
    value, shape = net.real(x), x.shape
    form = g.pick(("transpose", "reshape", "slice", "pad", "split"))
    if form == "transpose":
        perm = g.subset(range(len(shape)), len(shape))
        (made,) = g.node("Transpose", [value], perm=perm)
    elif form == "reshape":
        ways = ([*shape[:-2], -1], [0, 0, -1], [-1, shape[-1]], [1, *shape])
        to = g.pick([w for w in ways if len(w) <= 4 and (w[0] or len(shape) > 2)])
        (made,) = g.node("Reshape", [value, g.fixed(np.array(to))])
    elif form == "slice":
        axis = g.int(0, len(shape) - 1)
        start = g.int(0, shape[axis] - 1)
        ends = [g.fixed(np.array([n])) for n in (start, g.int(start + 1, shape[axis]), axis)]
        (made,) = g.node("Slice", [value, *ends, g.fixed(np.array([g.int(1, 2)]))])
    elif form == "pad":
        pads = [0] * (len(shape) * 2)
        pads[-1] = g.int(0, 2)
        pads[len(shape) - 1] = g.int(0, 2)
        (made,) = g.node("Pad", [value, g.fixed(np.array(pads))])
    else:
        if shape[1] < 2:
            raise Reject
        sizes = [g.int(1, shape[1] - 1)]
        sizes.append(shape[1] - sizes[0])
        other, made = g.node("Split", [value, g.fixed(np.array(sizes))], 2, axis=1)
        net.add_like(other, x)
    net.add_like(made, x)


def softmax(net: Network) -> None:
    x = net.tensor(lambda t: len(t.shape) >= 2)
    if net.exact:
        raise Reject
    net.open = True

    def real() -> Value:
        return net.g.node("Softmax", [net.real(x)], axis=-1)[0]

    def linear(scale: Value, zero: Value) -> Value:
        inputs = [*x.numbers, scale, zero]
        return net.contributed(
            "QLinearSoftmax", inputs, zero.dtype, axis=len(x.shape) - 1, opset=13
        )

    net.either(real, linear, x.bytes.dtype)


def norm(net: Network) -> None:
    """Of f32, as quantisers leave it."""
    g, x = net.g, net.tensor(lambda t: len(t.shape) >= 2 and t.shape[-1] > 1)
    if net.exact or g.opset < 17:
        raise Reject
    net.open = True
    scale, shift = (g.leaf("float32", x.shape[-1:], low, 1.5, True) for low in (0.5, -1.5))
    net.add(g.node("LayerNormalization", [net.real(x), scale, shift], epsilon=1e-3)[0])


def scores(net: Network) -> None:
    """A product of two tensors that are both computed, as attention has them."""
    g, x = net.g, net.tensor(lambda t: len(t.shape) >= 2)
    fitting = [t for t in net.tensors if t.shape[:-2] == x.shape[:-2] and len(t.shape) > 1
               and t.shape[-1] == x.shape[-1]]  # fmt: skip
    other = g.pick(fitting)
    if x.shape[-1] > _DEEPEST or math.prod(x.shape[:-1]) * other.shape[-2] > _MOST:
        raise Reject
    last = len(x.shape) - 1
    perm = [*range(last - 1), last, last - 1]
    turned = net.add_like(g.node("Transpose", [net.real(other)], perm=perm)[0], other)

    def real() -> Value:
        return g.node("MatMul", [net.real(x), net.real(turned)])[0]

    def linear(scale: Value, zero: Value) -> Value:
        return g.node("QLinearMatMul", [*x.numbers, *turned.numbers, scale, zero])[0]

    net.either(real, linear)


# How often each is taken of f32 or dequantised bytes ...
OF_REALS: dict[Step, int] = {
    conv: 8, matmul: 4, gemm: 3, binary: 4, concat: 2, max_pool: 1, average_pool: 2,
    global_average_pool: 1, mean: 1, sigmoid: 1, leaky: 1, curve: 2, bounded: 1, resize: 1,
    move: 3, softmax: 1, norm: 1, scores: 1,
}  # fmt: skip
# ... and of quantised tensors.
STEPS: dict[Step, int] = {**OF_REALS, dynamic: 3, dynamic_conv: 2}
