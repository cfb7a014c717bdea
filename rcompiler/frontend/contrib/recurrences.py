"""Convolutions that carry a state from one call to the next, and gates of such attention."""

from __future__ import annotations

import math

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
