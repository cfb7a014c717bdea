"""Mixtures of experts: every expert works on every token, and a token's result is the sum of those
that it is routed to.
"""

from __future__ import annotations

from .activations import silu
from .node import Node, Result, operator

_ACTIVATIONS = ("relu", "gelu", "silu", "swiglu", "identity")


@operator(
    "MoE",
    "input:T router_probs:T fc1_experts_weights:T fc1_experts_bias:T? fc2_experts_weights:T "
    "fc2_experts_bias:T? fc3_experts_weights:T? fc3_experts_bias:T?",
    activation_alpha=1.0,
    activation_beta=0.0,
    activation_type="relu",
    k=1,
    normalize_routing_weights=0,
    swiglu_fusion=0,
    swiglu_limit=float("inf"),
    use_sparse_mixer=0,
)
def _experts(n: Node) -> Result:
    """Two products with an activation between them, of the `k` experts that a token's logits are
    largest for; swiglu with its two products in one (`swiglu_fusion` 1 and 2), or with a third."""
    name, fused = n.attr("activation_type"), n.attr("swiglu_fusion")
    gated = name == "swiglu"
    if n.attr("use_sparse_mixer"):
        raise n.refuse("use_sparse_mixer is not translated", "Route by the largest logits")
    if name not in _ACTIVATIONS:
        remedy = f"Use one of {', '.join(_ACTIVATIONS)}"
        raise n.refuse(f"activation_type '{name}' is not translated", remedy)
    if n.has("fc3_experts_weights") and (not gated or fused):
        raise n.refuse(f"a third product with '{name}' is not translated", "Use swiglu")
    shape = n.shape("input")
    columns = shape[-1] if shape else 0
    experts, hidden, _ = n.shape("fc1_experts_weights", 3)
    inner = hidden // 2 if gated and fused else hidden
    tokens, _ = n.shape("router_probs", 2)
    if len(shape) not in (2, 3) or fused not in (0, 1, 2) or not 1 <= n.attr("k") <= experts:
        raise n.shape_error("input, k and swiglu_fusion do not fit the experts")
    n.need_shape("router_probs", (tokens, experts))
    n.need_shape("fc1_experts_weights", (experts, hidden, columns))
    n.need_shape("fc2_experts_weights", (experts, columns, inner))
    n.need_shape("fc3_experts_weights", (experts, inner, columns))
    for bias, size in (("fc1", hidden), ("fc2", columns), ("fc3", inner)):
        n.need_shape(f"{bias}_experts_bias", (experts, size))
    rows = n.reshaped("input", 1, tokens, columns)
    first = _product(n, rows, "fc1")
    if gated:
        first = _swiglu(n, first, rows, (experts, tokens, inner))
    elif name == "silu":
        first = silu(n, first)
    elif name == "gelu":
        first = n.op("Gelu", first, approximate="tanh")
    elif name == "relu":
        first = n.op("Relu", first)
    second = _product(n, first, "fc2")  # [experts, tokens, columns]
    weights = n.unsqueezed(n.transposed(_routed(n, tokens, experts), 1, 0), 2)
    total = n.op("ReduceSum", n.op("Mul", second, weights), n.ints(0), keepdims=0)
    return n.reshaped(total, *shape)


def _product(n: Node, x: str, name: str) -> str:
    y = n.op("MatMul", x, n.transposed(f"{name}_experts_weights", 0, 2, 1))
    bias = f"{name}_experts_bias"
    return n.op("Add", y, n.unsqueezed(bias, 1)) if n.has(bias) else y


def _swiglu(n: Node, first: str, rows: str, shape: tuple[int, int, int]) -> str:
    """`gate * sigmoid(alpha * gate) * (linear + beta)`, both clamped by the limit."""
    fused, kind, limit = n.attr("swiglu_fusion"), n.dtype("input"), n.attr("swiglu_limit")
    inner = shape[2]
    if fused == 1:  # in turns
        pairs = n.split(n.reshaped(first, *shape, 2), -1, 1, 1)
        gate, linear = (n.op("Squeeze", part, n.ints(-1)) for part in pairs)
    elif fused == 2:
        gate, linear = n.split(first, -1, inner, inner)
    elif n.has("fc3_experts_weights"):
        gate, linear = first, _product(n, rows, "fc3")
    else:
        raise n.shape_error("'fc3_experts_weights' is missing")
    if limit != float("inf"):
        low, high = n.constant(-limit, kind), n.constant(limit, kind)
        gate, linear = n.op("Clip", gate, "", high), n.op("Clip", linear, low, high)
    if n.attr("activation_beta"):
        linear = n.op("Add", linear, n.constant(n.attr("activation_beta"), kind))
    return n.op("Mul", n.op("Swish", gate, alpha=n.attr("activation_alpha")), linear)


def _routed(n: Node, tokens: int, experts: int) -> str:
    """What each expert counts for each token, [tokens, experts]: its softmax, 0 of others."""
    kind, count = n.dtype("router_probs"), n.attr("k")
    found, at = n.ops("TopK", "router_probs", n.ints(count), results=2, axis=1)
    if n.attr("normalize_routing_weights"):
        weights = n.op("Softmax", found, axis=1)
    else:
        weights = n.op("GatherElements", n.op("Softmax", "router_probs", axis=1), at, axis=1)
    zeros = n.op("Expand", n.constant(0, kind), n.ints(tokens, experts))
    return n.op("ScatterElements", zeros, at, weights, axis=1)
