"""A small Llama-style decoder (Touvron et al. 2023): RMSNorm, rotary positions, grouped-query
attention, SwiGLU."""

import numpy as np
from onnx import ModelProto

from .attention import LOWEST, Heads
from .graph import ModelGraph

MODELS = ("tiny_llama",)


def tiny_llama(
    seed: int = 0,
    batch: int = 1,
    sequence: int = 64,
    layers: int = 4,
    hidden: int = 256,
    heads: int = 8,
    kv_heads: int = 4,
    inner: int = 688,
    vocabulary: int = 1000,
) -> ModelProto:
    """Inputs input_ids (batch, sequence) and position_ids (1, sequence), int64.

    Output logits (batch, sequence, vocabulary). A token reads the tokens whose position is not
    after its own; sines and cosines of the rotation are computed from position_ids.
    """
    g = ModelGraph("tiny_llama", seed)
    ids = g.input("input_ids", (batch, sequence), "int64")
    positions = g.input("position_ids", (1, sequence), "int64")
    q_shape = Heads(batch, sequence, heads, hidden // heads)
    kv_shape = Heads(batch, sequence, kv_heads, hidden // heads)
    x = g.op(
        "Gather", g.weight("embed.weight", g.normal((vocabulary, hidden), 1.0)), ids, width=hidden
    )
    with g.scope("rotary"):
        rotary = _rotary_tables(g, positions, hidden // heads)
    mask = _causal(g, positions)
    for layer in range(layers):
        with g.scope(f"layers.{layer}"):
            x = _attention(g, x, rotary, mask, q_shape, kv_shape, layers)
            x = _swiglu(g, x, inner, layers)
    x = g.matmul(rms_norm(g, x, "norm"), vocabulary, bias=False, name="lm_head")
    return g.model(logits=(x, (batch, sequence, vocabulary)))


def _rotary_tables(g: ModelGraph, positions: str, size: int) -> tuple[str, str]:
    """cos, sin of position * 10000^(-2i/size), once per half: (1, 1, length, size)."""
    rates = 1.0 / 10000.0 ** (np.arange(0, size, 2, dtype=np.float32) / size)
    angle = g.op(
        "Mul",
        g.op("Cast", g.op("Unsqueeze", positions, [1, 3]), to=1),
        g.weight("inv_freq", rates.astype(np.float32)),
    )
    both = g.op("Concat", angle, angle, axis=-1)
    return g.op("Cos", both), g.op("Sin", both)


def _causal(g: ModelGraph, positions: str) -> str:
    """bool (1, 1, length, length): may row i read column j."""
    return g.op(
        "LessOrEqual", g.op("Unsqueeze", positions, [1, 2]), g.op("Unsqueeze", positions, [1, 3])
    )


def rms_norm(g: ModelGraph, x: str, name: str) -> str:
    """Rows by the root of their mean square, times a weight."""
    with g.scope(name):
        mean = g.op("ReduceMean", g.op("Pow", x, 2.0), [-1], keepdims=1)
        scale = g.op("Div", 1.0, g.op("Sqrt", g.op("Add", mean, 1e-5)))
        weight = g.weight("weight", g.uniform((g.width(x),), 0.8, 1.2))
        return g.op("Mul", weight, g.op("Mul", x, scale), width=g.width(x))


def _rotate(g: ModelGraph, x: str, rotary: tuple[str, str], size: int) -> str:
    """x * cos + (-second half, first half) * sin."""
    first = g.op("Slice", x, [0], [size // 2], [3], [1])
    second = g.op("Slice", x, [size // 2], [2**63 - 1], [3], [1])
    turned = g.op("Concat", g.op("Neg", second), first, axis=-1)
    return g.op("Add", g.op("Mul", x, rotary[0]), g.op("Mul", turned, rotary[1]))


def _repeat(g: ModelGraph, x: str, kv: Heads, times: int) -> str:
    """Each key or value head serves ``times`` query heads."""
    x = g.op("Expand", g.op("Unsqueeze", x, [2]), [kv.batch, kv.heads, times, kv.length, kv.size])
    return g.op("Reshape", x, [kv.batch, kv.heads * times, kv.length, kv.size])


def _attention(
    g: ModelGraph, x: str, rotary: tuple[str, str], mask: str, qs: Heads, kv: Heads, layers: int
) -> str:
    y, hidden, times = rms_norm(g, x, "input_norm"), g.width(x), qs.heads // kv.heads
    with g.scope("attn"):
        q = qs.split(g, g.matmul(y, hidden, bias=False, name="q"))
        k = kv.split(g, g.matmul(y, kv.heads * kv.size, bias=False, name="k"))
        v = kv.split(g, g.matmul(y, kv.heads * kv.size, bias=False, name="v"))
        q, k = _rotate(g, q, rotary, qs.size), _rotate(g, k, rotary, qs.size)
        k, v = _repeat(g, k, kv, times), _repeat(g, v, kv, times)
        scores = qs.scores(g, q, g.op("Transpose", k, perm=[0, 1, 3, 2]))
        y = qs.mix(g, g.op("Where", mask, scores, LOWEST), v)
        y = g.matmul(y, hidden, bias=False, gain=1.0 / layers, name="o")
    return g.op("Add", x, y)


def _swiglu(g: ModelGraph, x: str, inner: int, layers: int) -> str:
    y = rms_norm(g, x, "post_norm")
    with g.scope("mlp"):
        gate = g.matmul(y, inner, bias=False, name="gate")
        gate = g.op("Mul", gate, g.op("Sigmoid", gate))
        y = g.op("Mul", gate, g.matmul(y, inner, bias=False, name="up"))
        return g.op("Add", x, g.matmul(y, g.width(x), bias=False, gain=2.0 / layers, name="down"))
