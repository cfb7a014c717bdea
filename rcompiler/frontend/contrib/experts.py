"""Mixtures of experts: every expert works on every token, and a token's result is the sum of those
that it is routed to; and what routes by groups of experts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .activations import silu
from .node import Node, Result, operator

_ACTIVATIONS = ("relu", "gelu", "silu", "swiglu", "identity")
ATTRIBUTES: dict[str, Any] = {  # of all mixtures
    "activation_alpha": 1.0,
    "activation_beta": 0.0,
    "activation_type": "relu",
    "k": 1,
    "normalize_routing_weights": 0,
    "swiglu_fusion": 0,
    "swiglu_limit": float("inf"),
    "use_sparse_mixer": 0,
}

# product(n, x, layer, (experts, columns, depth)): x [experts or 1, tokens, depth] times the weights
# of a layer "fc1", "fc2" or "fc3" of each expert: [experts, tokens, columns].
Product = Callable[[Node, str, str, tuple[int, int, int]], str]


@operator(
    "MoE",
    "input:T router_probs:T fc1_experts_weights:T fc1_experts_bias:T? fc2_experts_weights:T "
    "fc2_experts_bias:T? fc3_experts_weights:T? fc3_experts_bias:T?",
    **ATTRIBUTES,
)
def _experts(n: Node) -> Result:
    """Two products with an activation between them, of the `k` experts that a token's logits are
    largest for; swiglu with its two products in one (`swiglu_fusion` 1 and 2), or with a third."""
    return mixture(n, _product, _shares)


def _product(n: Node, x: str, layer: str, shape: tuple[int, int, int]) -> str:
    n.need_shape(f"{layer}_experts_weights", shape)
    return n.op("MatMul", x, n.transposed(f"{layer}_experts_weights", 0, 2, 1))


def _shares(n: Node, found: str, at: str) -> str:
    if n.attr("normalize_routing_weights"):
        return n.op("Softmax", found, axis=1)
    return n.op("GatherElements", n.op("Softmax", "router_probs", axis=1), at, axis=1)


def mixture(n: Node, product: Product, shares: Callable[[Node, str, str], str]) -> str:
    """The result of a node with the inputs and `ATTRIBUTES` of MoE.

    product: how its weights are multiplied. shares(n, logits, experts): what each of the experts
    that a token is routed to counts for it, [tokens, k], of their logits and of their numbers.

    Raises UnsupportedOp of a form that is not translated, ShapeError of shapes that do not fit.
    """
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
    for layer, size in (("fc1", hidden), ("fc2", columns), ("fc3", inner)):
        n.need_shape(f"{layer}_experts_bias", (experts, size))

    def layer_of(x: str, layer: str, columns: int, depth: int) -> str:
        y = product(n, x, layer, (experts, columns, depth))
        bias = f"{layer}_experts_bias"
        return n.op("Add", y, n.unsqueezed(bias, 1)) if n.has(bias) else y

    rows = n.reshaped("input", 1, tokens, columns)
    first = layer_of(rows, "fc1", hidden, columns)
    if gated and not fused:
        if not n.has("fc3_experts_weights"):
            raise n.shape_error("'fc3_experts_weights' is missing")
        first = _swiglu(n, first, layer_of(rows, "fc3", inner, columns))
    elif gated:
        first = _swiglu(n, *_halves(n, first, (experts, tokens, inner)))
    elif name == "silu":
        first = silu(n, first)
    elif name == "gelu":
        first = n.op("Gelu", first, approximate="tanh")
    elif name == "relu":
        first = n.op("Relu", first)
    second = layer_of(first, "fc2", columns, inner)  # [experts, tokens, columns]
    weights = n.unsqueezed(n.transposed(_routed(n, shares, tokens, experts), 1, 0), 2)
    total = n.op("ReduceSum", n.op("Mul", second, weights), n.ints(0), keepdims=0)
    return n.reshaped(total, *shape)


def _halves(n: Node, both: str, shape: tuple[int, int, int]) -> list[str]:
    """The gate and what it is multiplied with, of a product of both: in turns, or behind it."""
    if n.attr("swiglu_fusion") == 2:
        return n.split(both, -1, shape[2], shape[2])
    pairs = n.split(n.reshaped(both, *shape, 2), -1, 1, 1)
    return [n.op("Squeeze", part, n.ints(-1)) for part in pairs]


def _swiglu(n: Node, gate: str, linear: str) -> str:
    """`gate * sigmoid(alpha * gate) * (linear + beta)`, both clamped by the limit."""
    kind, limit = n.dtype("input"), n.attr("swiglu_limit")
    if limit != float("inf"):
        low, high = n.constant(-limit, kind), n.constant(limit, kind)
        gate, linear = n.op("Clip", gate, "", high), n.op("Clip", linear, low, high)
    if n.attr("activation_beta"):
        linear = n.op("Add", linear, n.constant(n.attr("activation_beta"), kind))
    return n.op("Mul", n.op("Swish", gate, alpha=n.attr("activation_alpha")), linear)


def _routed(n: Node, shares: Callable[[Node, str, str], str], tokens: int, experts: int) -> str:
    """What each expert counts for each token, [tokens, experts]: 0 of those it is not routed to."""
    found, at = n.ops("TopK", "router_probs", n.ints(n.attr("k")), results=2, axis=1)
    zeros = n.op("Expand", n.constant(0, n.dtype("router_probs")), n.ints(tokens, experts))
    return n.op("ScatterElements", zeros, at, shares(n, found, at), axis=1)


@operator(
    "MoEGroupRouter",
    "logits:T expert_bias:U projection_weight:T?",
    outputs=3,
    group_topk=2,
    n_group=1,
    router_sentinel=-10000.0,
    top_k=int,
    topk_group=1,
)
def _router(n: Node) -> Result:
    """Logits for MoE of the experts with the largest sigmoids plus bias, of the groups whose
    largest ones have the largest sums, and `router_sentinel` for others; or, as results 1 and 2,
    those sums of all experts and their sigmoids, also of logits that are projected. In f32."""
    *lead, columns = n.shape("logits")
    (experts,) = n.shape("expert_bias", 1)
    tokens = math.prod(lead)
    logits = n.reshaped(n.cast("logits", "float32"), tokens, columns)
    if n.has("projection_weight"):
        n.need_shape("projection_weight", (experts, columns))
        weights = n.cast("projection_weight", "float32")
        logits = n.op("MatMul", logits, n.transposed(weights, 1, 0))
    elif columns != experts:
        raise n.shape_error(f"{columns} logits are not those of {experts} experts")
    groups, count = n.attr("n_group"), n.attr("topk_group")
    fits = 1 <= count <= groups and n.attr("group_topk") > 0 and 1 <= n.attr("top_k") <= experts
    if not fits or experts % groups:
        raise n.shape_error(f"{experts} experts in {groups} groups do not fit what is chosen")
    shares = n.op("Sigmoid", logits)
    scores = n.op("Add", shares, n.cast("expert_bias", "float32"))
    if n.wants(1) or n.wants(2):
        return [None, scores, shares]
    if groups > 1:
        scores = _of_best_groups(n, scores, tokens, experts)
    _, at = n.ops("TopK", scores, n.ints(n.attr("top_k")), results=2, axis=1)
    chosen = n.op("GatherElements", shares, at, axis=1)
    chosen = n.op("Log", n.op("Max", chosen, n.constant(1e-20, "float32")))
    other = n.constant(n.attr("router_sentinel"), "float32")
    others = n.op("Expand", other, n.ints(tokens, experts))
    routed = n.op("ScatterElements", others, at, chosen, axis=1)
    return [n.cast(routed, n.dtype("logits")), None, None]


def _of_best_groups(n: Node, scores: str, tokens: int, experts: int) -> str:
    """[tokens, experts], -inf of experts that are in none of the best groups."""
    groups = n.attr("n_group")
    size = experts // groups
    apart = n.reshaped(scores, tokens, groups, size)
    most = n.ints(min(n.attr("group_topk"), size))
    largest, _ = n.ops("TopK", apart, most, results=2, axis=2)
    sums = n.op("ReduceSum", largest, n.ints(2), keepdims=0)
    _, best = n.ops("TopK", sums, n.ints(n.attr("topk_group")), results=2, axis=1)
    none = n.op("Expand", n.constant(0, "float32"), n.ints(tokens, groups))
    one = n.op("Expand", n.constant(1, "float32"), n.ints(tokens, n.attr("topk_group")))
    kept = n.op("ScatterElements", none, best, one, axis=1)
    seen = n.op("Greater", n.unsqueezed(kept, 2), n.constant(0, "float32"))
    lowest = n.constant(float("-inf"), "float32")
    return n.reshaped(n.op("Where", seen, apart, lowest), tokens, experts)
