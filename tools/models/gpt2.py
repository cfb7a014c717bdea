"""GPT-2 small decoder stack (Radford et al. 2019), prefill of a prompt, as exporters write it."""

import numpy as np
from onnx import ModelProto

from .attention import LOWEST, Heads
from .graph import ModelGraph

MODELS = ("gpt2_small",)


def gpt2_small(
    seed: int = 0,
    batch: int = 1,
    sequence: int = 64,
    layers: int = 12,
    hidden: int = 768,
    heads: int = 12,
    vocabulary: int = 50257,
) -> ModelProto:
    """Input input_ids int64 (batch, sequence); logits (batch, sequence, vocabulary)."""
    g = ModelGraph("gpt2_small", seed)
    ids = g.input("input_ids", (batch, sequence), "int64")
    words = g.weight("wte.weight", g.normal((vocabulary, hidden), 0.8))
    places = g.weight("wpe.weight", g.normal((1, sequence, hidden), 0.4))
    x = g.op("Add", g.op("Gather", words, ids), places, width=hidden)
    causal = np.tril(np.ones((1, 1, sequence, sequence), bool))
    mask = g.weight("causal_mask", causal)
    shape = Heads(batch, sequence, heads, hidden // heads)
    for layer in range(layers):
        with g.scope(f"h.{layer}"):
            x = _block(g, x, mask, shape, layers)
    x = g.layer_norm(x, name="ln_f")
    # the output layer shares the embedding table, 1/sqrt(hidden) keeps the logits near 1
    x = g.op("Mul", x, hidden**-0.5)
    logits = g.op("MatMul", x, g.op("Transpose", words, perm=[1, 0]), width=vocabulary)
    return g.model(logits=(logits, (batch, sequence, vocabulary)))


def _block(g: ModelGraph, x: str, mask: str, shape: Heads, layers: int) -> str:
    hidden = g.width(x)
    gain = 1.0 / (2 * layers)  # GPT-2 scales what is added to the residual stream
    y = g.layer_norm(x, name="ln_1")
    y = _conv1d(g, y, 3 * hidden, shape, "attn.c_attn")
    q, k, v = g.ops("Split", y, [hidden] * 3, outputs=3, axis=2, width=hidden)
    scores = shape.scores(g, shape.split(g, q), shape.split(g, k, keys=True))
    scores = g.op("Where", mask, scores, LOWEST)
    y = shape.mix(g, scores, shape.split(g, v))
    x = g.op("Add", _conv1d(g, y, hidden, shape, "attn.c_proj", gain), x)
    y = _conv1d(g, g.layer_norm(x, name="ln_2"), 4 * hidden, shape, "mlp.c_fc")
    y = _conv1d(g, _gelu_tanh(g, y), hidden, shape, "mlp.c_proj", 2 * gain)
    return g.op("Add", x, y)


def _conv1d(g: ModelGraph, x: str, out: int, shape: Heads, name: str, gain: float = 1.0) -> str:
    """GPT-2's "Conv1D": a Gemm on the flattened tokens between two Reshapes."""
    with g.scope(name):
        n = g.width(x)
        w = g.weight("weight", g.normal((n, out), (gain / n) ** 0.5))
        b = g.weight("bias", g.normal((out,), 0.1))
        y = g.op("Gemm", g.op("Reshape", x, [-1, n]), w, b, width=out)
        return g.op("Reshape", y, [shape.batch, shape.length, out])


def _gelu_tanh(g: ModelGraph, x: str) -> str:
    """x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))), node by node."""
    y = g.op("Add", x, g.op("Mul", g.op("Pow", x, 3.0), 0.044715))
    y = g.op("Tanh", g.op("Mul", y, (2.0 / np.pi) ** 0.5))
    return g.op("Mul", g.op("Mul", x, 0.5), g.op("Add", y, 1.0))
