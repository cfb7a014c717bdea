"""Convolutions and attention that carry a state from one call to the next."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .activations import silu
from .node import Node, Result, operator


@operator(
    "CausalConvWithState",
    "input:T weight:T bias:T? past_state:T?",
    outputs=2,
    activation="none",
    channels_last=0,
    dilation=1,
    ndim=1,
    state_window=0,
)
def _causal_conv(n: Node) -> Result:
    """Each channel convolved with its own weights, of what has been only; result 1 is the end of
    the input that the next call begins with. Of one dimension, without windows of states."""
    if n.attr("ndim") != 1 or n.attr("state_window"):
        raise n.refuse("ndim other than 1 and state_window are not translated", "Use Conv and Pad")
    if n.attr("activation") not in ("none", "silu", "swish"):
        raise n.refuse(f"activation '{n.attr('activation')}' is not translated", "Use silu or none")
    last, shape, dilation = n.attr("channels_last"), n.shape("input"), n.attr("dilation")
    if len(shape) < 3 or not last and len(shape) != 3 or dilation < 1:
        raise n.shape_error("'input' has a batch, channels and steps, and dilation is at least 1")
    batch = shape[0]
    channels = math.prod(shape[2:]) if last else shape[1]
    taps = n.shape("weight", 3)[2]
    kept = (taps - 1) * dilation
    n.need_shape("weight", (channels, 1, taps))
    n.need_shape("bias", (channels,))
    n.need_shape("past_state", (batch, kept, *shape[2:]) if last else (batch, channels, kept))

    def channels_second(x: str, steps: int) -> str:
        return n.transposed(n.reshaped(x, batch, steps, channels), 0, 2, 1) if last else x

    steps = shape[1] if last else shape[2]
    x = channels_second("input", steps)
    if n.has("past_state"):
        x = n.op("Concat", channels_second("past_state", kept), x, axis=2)
    else:
        x = n.op("Pad", x, n.ints(0, 0, kept, 0, 0, 0))
    inputs = [x, "weight", *(["bias"] if n.has("bias") else [])]
    y = n.op("Conv", *inputs, group=channels, dilations=[dilation])
    y = y if n.attr("activation") == "none" else silu(n, y)
    state = n.sliced(x, 2, steps, steps + kept)
    if not last:
        return [y, state]
    y, state = (n.transposed(each, 0, 2, 1) for each in (y, state))
    return [n.reshaped(y, *shape), n.reshaped(state, batch, kept, *shape[2:])]


@operator("LinearAttentionGate", "a:T dt_bias:U decay_scale:U b:T?", outputs=2)
def _gate(n: Node) -> Result:
    """`decay_scale * Softplus(a + dt_bias)` in f32, and Sigmoid of b."""
    *_, heads = n.shape("a", 3)
    n.need_shape("dt_bias", (heads,))
    n.need_shape("decay_scale", (heads,))
    n.need_shape("b", n.shape("a"))
    kind = n.dtype("a")
    soft = n.op("Softplus", n.op("Add", n.cast("a", "float32"), "dt_bias"))
    decay = n.cast(n.op("Mul", "decay_scale", soft), kind)
    if not n.wants(1):
        return [decay, None]
    if not n.has("b"):
        raise n.shape_error("'b' is missing")
    return [decay, n.cast(n.op("Sigmoid", n.cast("b", "float32")), kind)]


MOST_STEPS = 64  # of one call, which stand one behind the other
_RULES = ("linear", "gated", "delta", "gated_delta")


@operator(
    "LinearAttention",
    "query:T key:T value:T past_state:U? decay:T? beta:T?",
    outputs=2,
    chunk_size=64,
    kv_num_heads=int,
    q_num_heads=int,
    scale=0.0,
    state_window=0,
    update_rule="gated_delta",
)
def _linear_attention(n: Node) -> Result:
    """A state of keys and values that decays and learns with each step; result 1 is the last one.
    Of so many steps a call as can stand one behind the other, without windows of states."""
    if n.attr("state_window"):
        raise n.refuse("state_window is not translated", "Leave it out")
    rule, heads, queries = n.attr("update_rule"), n.attr("kv_num_heads"), n.attr("q_num_heads")
    if rule not in _RULES:
        raise n.shape_error(f"update_rule '{rule}' is none of {', '.join(_RULES)}")
    batch, steps, columns = n.shape("query", 3)
    if heads < 1 or queries < 1 or max(heads, queries) % min(heads, queries):
        raise n.shape_error(f"{queries} heads of queries do not fit {heads} of keys")
    size, width = columns // queries, n.shape("value", 3)[2] // heads
    n.need_shape("query", (batch, steps, queries * size))
    n.need_shape("key", (batch, steps, heads * size))
    n.need_shape("value", (batch, steps, heads * width))
    n.need_shape("past_state", (batch, heads, size, width))
    n.need_shape("decay", (batch, steps, heads * size), (batch, steps, heads))
    n.need_shape("beta", (batch, steps, heads), (batch, steps, 1))
    if steps > MOST_STEPS:
        reason = f"{steps} steps a call are not translated, {MOST_STEPS} at most"
        raise n.refuse(reason, "Call it with fewer steps and the state of the call before")
    for name, there in (("decay", "gated" in rule), ("beta", "delta" in rule)):
        if there and not n.has(name):
            raise n.shape_error(f"'{name}' is missing, which update_rule '{rule}' needs")
    if not n.has("past_state"):
        state = n.op("Expand", n.constant(0, "float32"), n.ints(batch, heads, size, width))
    else:
        state = n.cast("past_state", "float32")
    per_head = {"query": (queries, size), "key": (heads, size), "value": (heads, width)}
    if "gated" in rule:
        per_head["decay"] = (heads, n.shape("decay")[2] // heads)
    if "delta" in rule:
        per_head["beta"] = (n.shape("beta")[2], 1)
    each = {name: _steps(n, name, batch, steps, *form) for name, form in per_head.items()}
    scale = float(n.attr("scale")) or 1 / math.sqrt(max(size, 1))
    made = []
    for step in range(steps):
        state = _learned(n, state, {name: parts[step] for name, parts in each.items()})
        made.append(_read(n, state, each["query"][step], scale, queries, (batch, heads, width)))
    y = n.op("Concat", *made, axis=1) if len(made) > 1 else made[0]
    kind = n.dtype("past_state") if n.has("past_state") else n.dtype("query")
    return [n.cast(y, n.dtype("query")), n.cast(state, kind)]


def _steps(n: Node, name: str, batch: int, steps: int, heads: int, size: int) -> Sequence[str]:
    """f32 [batch, heads, size, 1] of each step."""
    x = n.reshaped(n.cast(name, "float32"), batch, steps, heads, size, 1)
    parts = n.split(x, 1, *[1] * steps) if steps > 1 else [x]
    return [n.op("Squeeze", part, n.ints(1)) for part in parts]


def _learned(n: Node, state: str, at: dict[str, str]) -> str:
    """The state [batch, heads, size, width] behind a step. at: what the step brings."""
    if "decay" in at:
        state = n.op("Mul", state, n.op("Exp", at["decay"]))
    value = n.transposed(at["value"], 0, 1, 3, 2)
    if "beta" in at:
        known = n.op("MatMul", n.transposed(at["key"], 0, 1, 3, 2), state)
        value = n.op("Mul", n.op("Sub", value, known), at["beta"])
    return n.op("Add", state, n.op("Mul", at["key"], value))


def _read(
    n: Node, state: str, query: str, scale: float, queries: int, shape: tuple[int, int, int]
) -> str:
    """What the queries find in the state: [batch, 1, columns]. Heads of keys, or of queries, that
    are fewer serve as many of the others as follow each other.
    """
    batch, heads, width = shape
    turned = n.transposed(query, 0, 1, 3, 2)  # [batch, queries, 1, size]
    if queries > heads:
        each = queries // heads
        rows = n.op("Reshape", turned, n.ints(batch, heads, each, -1))
        found = n.op("MatMul", rows, state)
    elif queries < heads:
        rows = n.unsqueezed(turned, 2)
        size = n.op("Reshape", rows, n.ints(batch, queries, 1, 1, -1))
        each = heads // queries
        expanded = n.op("Expand", size, n.ints(1, 1, each, 1, 1))
        found = n.op("MatMul", n.op("Reshape", expanded, n.ints(batch, heads, 1, -1)), state)
    else:
        found = n.op("MatMul", turned, state)
    return n.scaled(n.reshaped(found, batch, 1, max(queries, heads) * width), scale, "float32")
