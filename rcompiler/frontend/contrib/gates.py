"""Gates, and mixtures of several streams of one model, that onnxruntime fuses."""

from __future__ import annotations

import math

from .activations import silu
from .node import Node, Result, operator


@operator("ScaledSiLU", "X:T scale:U?", alpha=1.0)
def _scaled_silu(n: Node) -> Result:
    """SiLU of X times `scale`, or times `alpha` where that is not given; rounded in between."""
    kind = n.dtype("X")
    if n.has("scale"):
        n.need_shape("scale", (), (1,))
        factor = n.reshaped(n.cast("scale", "float32"))
    else:
        factor = n.constant(n.attr("alpha"), "float32")
    scaled = n.cast(n.op("Mul", n.cast("X", "float32"), factor), kind)
    return n.op("Mul", scaled, n.op("Sigmoid", scaled))


@operator("GatedAdd", "X:T Y:T gate:T")
def _gated_add(n: Node) -> Result:
    """X plus Y times the gate of its row; not of a gate that is projected."""
    shape = n.shape("X")
    n.need_shape("Y", shape)
    n.need_shape("gate", (*shape[:-1], 1))
    return n.op("Add", "X", n.op("Mul", "Y", "gate"))


def _normal(n: Node, x: str, epsilon: float) -> str:
    """f32 `x` by the root of the mean square of its last axis."""
    squares = n.op("ReduceMean", n.op("Mul", x, x), n.ints(-1))
    root = n.op("Sqrt", n.op("Add", squares, n.constant(epsilon, "float32")))
    return n.op("Div", x, root)


def _wide(n: Node, name: str) -> str:
    return n.cast(name, "float32")


@operator("GatedRMSNorm", "X:T scale:T gate:T", activation="silu", epsilon=1e-5)
def _gated_rms(n: Node) -> Result:
    """RMSNormalization of each group of as many columns as `scale` has, times SiLU or Sigmoid of
    the gate; in f32."""
    shape, (size,) = n.shape("X"), n.shape("scale", 1)
    n.need_shape("gate", shape)
    name = n.attr("activation")
    if name not in ("silu", "swish", "sigmoid"):
        raise n.refuse(f"activation '{name}' is not translated", "Use silu or sigmoid")
    if not shape or not size or shape[-1] % size:
        raise n.shape_error(f"rows of {shape[-1:]} are no groups of {size}")
    groups = n.reshaped(_wide(n, "X"), *shape[:-1], shape[-1] // size, size)
    normal = n.op("Mul", _normal(n, groups, n.attr("epsilon")), _wide(n, "scale"))
    gate = _wide(n, "gate")
    gate = n.op("Sigmoid", gate) if name == "sigmoid" else silu(n, gate)
    return n.cast(n.op("Mul", n.reshaped(normal, *shape), gate), n.dtype("X"))


def _branches(n: Node, name: str) -> tuple[int, ...]:
    """The shape [..., branches, columns] of streams, which may be flat."""
    shape, count = n.shape(name), n.attr("num_branches")
    if not count:
        if len(shape) < 2:
            raise n.shape_error(f"'{name}' has {len(shape)} dimensions; 2 or more are expected")
        return shape
    if count < 0 or not shape or shape[-1] % count:
        raise n.shape_error(f"{shape[-1:]} columns do not divide into {count} branches")
    return (*shape[:-1], count, shape[-1] // count)


@operator("BranchwiseRMSNorm", "X:T scale:U?", epsilon=1e-5, num_branches=0)
def _branchwise(n: Node) -> Result:
    """RMSNormalization of each branch; in f32."""
    shape = _branches(n, "X")
    count, columns = shape[-2:]
    n.need_shape("scale", (count * columns,), (count, columns), (columns,))
    y = _normal(n, n.reshaped(_wide(n, "X"), *shape), n.attr("epsilon"))
    if n.has("scale"):
        scale = _wide(n, "scale")
        flat = n.shape("scale") == (count * columns,) and count != 1
        y = n.op("Mul", y, n.reshaped(scale, count, columns) if flat else scale)
    return n.cast(n.reshaped(y, *n.shape("X")), n.dtype("X"))


def _gates(n: Node, name: str, shape: tuple[int, ...]) -> str:
    """f32 gates of branches, or of each of their elements: they broadcast to `shape`."""
    *lead, count, columns = shape
    forms = [(*lead, count), (*lead, count, 1), shape, (*lead, count * columns)]
    n.need_shape(name, *forms)
    wide, own = _wide(n, name), n.shape(name)
    if own == forms[0]:
        return n.unsqueezed(wide, -1)
    return n.reshaped(wide, *shape) if own == forms[3] else wide


@operator("HyperConnectionPreMix", "streams:T pre_mix:U", num_branches=0, reduction_scale=1.0)
def _pre_mix(n: Node) -> Result:
    """The sum of the streams, each times its gates, times `reduction_scale`; in f32."""
    shape = _branches(n, "streams")
    streams = n.reshaped(_wide(n, "streams"), *shape)
    products = n.op("Mul", streams, _gates(n, "pre_mix", shape))
    total = n.op("ReduceSum", products, n.ints(-2), keepdims=0)
    return n.cast(n.scaled(total, n.attr("reduction_scale"), "float32"), n.dtype("streams"))


@operator(
    "HyperConnectionPostMix", "streams:T block_output:T post_mix:U stream_mix:U?", num_branches=0
)
def _post_mix(n: Node) -> Result:
    """Streams that are mixed with each other, plus one output times the gates of each; in f32."""
    shape = _branches(n, "streams")
    *lead, count, columns = shape
    n.need_shape("block_output", (*lead, columns))
    n.need_shape("stream_mix", (*lead, count, count))
    mixed = n.reshaped(_wide(n, "streams"), *shape)
    if n.has("stream_mix"):
        turned = [*range(len(lead)), len(lead) + 1, len(lead)]
        mixed = n.op("MatMul", n.transposed(_wide(n, "stream_mix"), *turned), mixed)
    output = n.unsqueezed(_wide(n, "block_output"), -2)
    total = n.op("Add", mixed, n.op("Mul", _gates(n, "post_mix", shape), output))
    return n.cast(n.reshaped(total, *n.shape("streams")), n.dtype("streams"))


@operator(
    "EngramGate",
    "key:T query:T value:T key_norm_scale:T query_norm_scale:T conv_norm_scale:T?",
    outputs=2,
    epsilon=1e-5,
)
def _engram(n: Node) -> Result:
    """The value times a gate by the product of keys and queries, which are normalised; result 1 is
    that, normalised. In f32."""
    shape = n.shape("key", 4)
    batch, steps, branches, columns = shape
    n.need_shape("query", shape)
    n.need_shape("value", (batch, steps, columns))
    for name in ("key_norm_scale", "query_norm_scale", "conv_norm_scale"):
        n.need_shape(name, (branches, columns))
    epsilon, kind = n.attr("epsilon"), n.dtype("key")

    def normal(x: str, scale: str) -> str:
        return n.op("Mul", _normal(n, x, epsilon), _wide(n, scale))

    keys, queries = (normal(_wide(n, name), f"{name}_norm_scale") for name in ("key", "query"))
    dot = n.op("ReduceSum", n.op("Mul", keys, queries), n.ints(-1))
    dot = n.scaled(dot, 1 / math.sqrt(max(columns, 1)), "float32")
    size = n.op("Max", n.op("Abs", dot), n.constant(1e-6, "float32"))
    gate = n.op("Sigmoid", n.op("Mul", n.op("Sign", dot), n.op("Sqrt", size)))
    gated = n.op("Mul", gate, n.unsqueezed(_wide(n, "value"), 2))
    second = None
    if n.wants(1):
        if not n.has("conv_norm_scale"):
            raise n.shape_error("'conv_norm_scale' is missing")
        second = n.cast(normal(gated, "conv_norm_scale"), kind)
    return [n.cast(gated, kind), second]
