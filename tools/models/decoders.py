"""Decoders with caches of static capacity, as tools of onnxruntime write them: operators of
com.microsoft where there are some, of which GroupQueryAttention writes the new keys and values to
the caches.

A call is given `steps` tokens and their positions, which follow each other; the caches have the
keys and values of the positions before.
"""

from __future__ import annotations

import numpy as np
from onnx import ModelProto

from .graph import ModelGraph
from .llama import rms_norm

MODELS = ("gpt2_decoder", "llama_decoder")
_MICROSOFT = "com.microsoft"


class _Caches:
    """The caches of all layers, and how many of their keys count in this call."""

    def __init__(self, g: ModelGraph, positions: str, shape: tuple[int, int, int, int]) -> None:
        """shape: batch, heads, capacity and size of a head."""
        self.g, self.shape = g, shape
        last = g.op("Cast", g.op("ReduceMax", positions, [1], keepdims=0), to=6)
        self._last = last  # int32 (batch): of each sequence
        self._total = g.op("Add", g.op("ReduceMax", last, [0], keepdims=0), np.array(1, np.int32))
        self.results: dict[str, tuple[str, tuple[int, int, int, int]]] = {}

    def attention(self, qkv: str, heads: int, layer: int, *tables: str) -> str:
        """Of queries, keys and values side by side. tables: cosines and sines of positions."""
        g, (_, kv_heads, _, size) = self.g, self.shape
        past = [g.input(f"past_key_values.{layer}.{part}", self.shape) for part in ("key", "value")]
        y, *present = g.ops(
            "GroupQueryAttention",
            *(qkv, "", "", *past, self._last, self._total, *tables),
            outputs=3,
            width=heads * size,
            domain=_MICROSOFT,
            num_heads=heads,
            kv_num_heads=kv_heads,
            do_rotary=int(bool(tables)),
        )
        for part, value in zip(("key", "value"), present, strict=True):
            self.results[f"present.{layer}.{part}"] = (value, self.shape)
        return y


def gpt2_decoder(
    seed: int = 0,
    batch: int = 1,
    steps: int = 1,
    room: int = 1024,
    layers: int = 12,
    hidden: int = 768,
    heads: int = 12,
    vocabulary: int = 50257,
) -> ModelProto:
    """GPT-2 small (Radford et al. 2019). room: positions, and the capacity of the caches.

    Inputs input_ids and position_ids, int64 (batch, steps), and `past_key_values.*`; outputs
    logits (batch, steps, vocabulary) and `present.*`, each (batch, heads, room, size). The output
    layer has weights of its own: with those of the embedding and random layers, each token would
    be followed by itself.
    """
    g = ModelGraph("gpt2_decoder", seed)
    ids, positions = (g.input(n, (batch, steps), "int64") for n in ("input_ids", "position_ids"))
    caches = _Caches(g, positions, (batch, heads, room, hidden // heads))
    words = g.op("Gather", g.weight("wte.weight", g.normal((vocabulary, hidden), 0.8)), ids)
    places = g.op("Gather", g.weight("wpe.weight", g.normal((room, hidden), 0.4)), positions)
    x = g.op("Add", words, places, width=hidden)
    y, gain = g.layer_norm(x, name="h.0.ln_1"), 1.0 / (2 * layers)
    for layer in range(layers):
        with g.scope(f"h.{layer}"):
            y = caches.attention(g.matmul(y, 3 * hidden, name="attn.c_attn"), heads, layer)
            y, x = _projected_to(g, y, x, hidden, gain, "attn.c_proj", "ln_2")
            y = g.matmul(y, 4 * hidden, bias=False, name="mlp.c_fc")
            y = g.op("FastGelu", y, _bias(g, 4 * hidden, "mlp.c_fc"), domain=_MICROSOFT)
            following = "ln_f" if layer == layers - 1 else "next_ln_1"
            y, x = _projected_to(g, y, x, hidden, 2 * gain, "mlp.c_proj", following)
    logits = g.matmul(y, vocabulary, bias=False, gain=25.0, name="lm_head")
    return g.model(logits=(logits, (batch, steps, vocabulary)), **caches.results)


def _bias(g: ModelGraph, n: int, name: str) -> str:
    with g.scope(name):
        return g.weight("bias", g.normal((n,), 0.1))


def _projected_to(
    g: ModelGraph, y: str, x: str, hidden: int, gain: float, name: str, norm: str
) -> tuple[str, str]:
    """The normalised sum of x and a layer of y, and that sum."""
    y = g.matmul(y, hidden, bias=False, gain=gain, name=name)
    bias = _bias(g, hidden, name)
    with g.scope(norm):
        parameters = [
            g.weight("weight", g.uniform((hidden,), 0.8, 1.2)),
            g.weight("bias", g.normal((hidden,), 0.1)),
        ]
    return _skipped(g, "SkipLayerNormalization", y, x, *parameters, bias)


def _skipped(g: ModelGraph, kind: str, *operands: str) -> tuple[str, str]:
    """A normalised sum, and the sum itself, which is result 3."""
    y, _, _, total = g.ops(kind, *operands, outputs=4, domain=_MICROSOFT, epsilon=1e-5)
    return y, total


def llama_decoder(
    seed: int = 0,
    batch: int = 1,
    steps: int = 1,
    room: int = 1024,
    layers: int = 4,
    hidden: int = 1024,
    heads: int = 16,
    kv_heads: int = 4,
    inner: int = 2816,
    vocabulary: int = 32000,
) -> ModelProto:
    """A decoder of Llama's form (Touvron et al. 2023): RMSNorm, rotary positions, heads of queries
    that share keys, SwiGLU. Inputs and outputs are those of `gpt2_decoder`.
    """
    g, size = ModelGraph("llama_decoder", seed), hidden // heads
    ids, positions = (g.input(n, (batch, steps), "int64") for n in ("input_ids", "position_ids"))
    caches = _Caches(g, positions, (batch, kv_heads, room, size))
    tables = _rotary_tables(g, room, size)
    table = g.weight("embed.weight", g.normal((vocabulary, hidden), 1.0))
    x = g.op("Gather", table, ids, width=hidden)
    y = rms_norm(g, x, "layers.0.input_norm")
    for layer in range(layers):
        with g.scope(f"layers.{layer}"):
            y = g.matmul(y, (heads + 2 * kv_heads) * size, bias=False, name="attn.qkv")
            y = caches.attention(y, heads, layer, *tables)
            y = g.matmul(y, hidden, bias=False, gain=1.0 / layers, name="attn.o")
            y, x = _rms_of_sum(g, y, x, "post_norm")
            gate = g.matmul(y, inner, bias=False, name="mlp.gate")
            gate = g.op("Mul", gate, g.op("Sigmoid", gate))
            y = g.op("Mul", gate, g.matmul(y, inner, bias=False, name="mlp.up"))
            y = g.matmul(y, hidden, bias=False, gain=2.0 / layers, name="mlp.down")
            y, x = _rms_of_sum(g, y, x, "next_norm")
    logits = g.matmul(y, vocabulary, bias=False, gain=25.0, name="lm_head")
    return g.model(logits=(logits, (batch, steps, vocabulary)), **caches.results)


def _rms_of_sum(g: ModelGraph, y: str, x: str, name: str) -> tuple[str, str]:
    with g.scope(name):
        weight = g.weight("weight", g.uniform((g.width(x),), 0.8, 1.2))
    return _skipped(g, "SkipSimplifiedLayerNormalization", y, x, weight)


def _rotary_tables(g: ModelGraph, room: int, size: int) -> tuple[str, str]:
    """Cosines and sines of position * 10000^(-2i/size): (room, size / 2)."""
    rates = 10000.0 ** -(np.arange(0, size, 2) / size)
    angles = np.outer(np.arange(room), rates)
    cos, sin = (f(angles).astype(np.float32) for f in (np.cos, np.sin))
    return g.weight("cos_cache", cos), g.weight("sin_cache", sin)
