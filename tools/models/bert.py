"""BERT-base encoder (Devlin et al. 2019) and a layer of it, the nodes as exporters write them."""

from typing import Literal

from onnx import ModelProto

from .attention import LOWEST, Heads, gelu_erf
from .graph import ModelGraph

MODELS = ("bert_base", "bert_block")


def bert_base(
    seed: int = 0,
    batch: int = 1,
    sequence: int = 128,
    layers: int = 12,
    hidden: int = 768,
    heads: int = 12,
    vocabulary: int = 30522,
    axes: Literal["static", "dynamic"] = "static",
) -> ModelProto:
    """Inputs input_ids, token_type_ids (0 or 1), attention_mask: int64 (batch, sequence).

    Outputs last_hidden_state (batch, sequence, hidden) and pooler_output (batch, hidden).

    axes: dynamic ones are called "batch" and "sequence"; there are embeddings of `sequence` places.
    """
    g = ModelGraph("bert_base", seed)
    dynamic = axes == "dynamic"
    sizes: tuple[int | str, int | str] = ("batch", "sequence") if dynamic else (batch, sequence)
    ids = g.input("input_ids", sizes, "int64")
    types = g.input("token_type_ids", sizes, "int64")
    mask = g.input("attention_mask", sizes, "int64")
    with g.scope("embeddings"):
        x = _embed(g, ids, types, sequence, hidden, vocabulary, dynamic)
    bias = _mask_bias(g, mask)
    # 0: as in the operand
    shape = Heads(*((0, 0) if dynamic else (batch, sequence)), heads, hidden // heads)
    for layer in range(layers):
        with g.scope(f"encoder.layer.{layer}"):
            x = _layer(g, x, bias, shape)
    with g.scope("pooler"):
        first = g.op("Gather", x, 0, axis=1, width=hidden)
        pooled = g.op("Tanh", g.gemm(first, hidden, name="dense"))
    return g.model(
        last_hidden_state=(x, (*sizes, hidden)), pooler_output=(pooled, (sizes[0], hidden))
    )


def bert_block(
    seed: int = 0, batch: int = 1, sequence: int = 128, hidden: int = 768, heads: int = 12
) -> ModelProto:
    """One layer of the encoder, every token read: input and output (batch, sequence, hidden)."""
    g = ModelGraph("bert_block", seed)
    x = g.input("input", (batch, sequence, hidden))
    y = _layer(g, x, None, Heads(batch, sequence, heads, hidden // heads))
    return g.model(output=(y, (batch, sequence, hidden)))


def _embed(
    g: ModelGraph,
    ids: str,
    types: str,
    sequence: int,
    hidden: int,
    vocabulary: int,
    dynamic: bool,
) -> str:
    words = g.weight("word_embeddings.weight", g.normal((vocabulary, hidden), 0.8))
    kinds = g.weight("token_type_embeddings.weight", g.normal((2, hidden), 0.4))
    places = g.weight("position_embeddings.weight", g.normal((1, sequence, hidden), 0.4))
    x = g.op("Add", g.op("Gather", words, ids), g.op("Gather", kinds, types))
    if dynamic:
        length = g.op("Slice", g.op("Shape", ids), [1], [2])
        places = g.op("Slice", places, [0], length, [1], width=hidden)
    x = g.op("Add", x, places, width=hidden)
    return g.layer_norm(x, 1e-12, name="LayerNorm")


def _mask_bias(g: ModelGraph, mask: str) -> str:
    """0 where a token may be read, the lowest float where not: (batch, 1, 1, sequence)."""
    m = g.op("Unsqueeze", g.op("Unsqueeze", mask, [1]), [2])
    m = g.op("Cast", m, to=1)
    return g.op("Mul", g.op("Sub", 1.0, m), LOWEST)


def _layer(g: ModelGraph, x: str, bias: str | None, shape: Heads) -> str:
    """bias: what ``_mask_bias`` gives; None: no mask."""
    hidden = g.width(x)
    with g.scope("attention"):
        q = shape.split(g, g.matmul(x, hidden, name="query"))
        k = shape.split(g, g.matmul(x, hidden, name="key"), keys=True)
        v = shape.split(g, g.matmul(x, hidden, name="value"))
        scores = shape.scores(g, q, k)
        if bias is not None:
            scores = g.op("Add", scores, bias)
        y = g.matmul(shape.mix(g, scores, v), hidden, name="output")
        x = g.layer_norm(g.op("Add", y, x), 1e-12)
    y = gelu_erf(g, g.matmul(x, 4 * hidden, name="intermediate"))
    y = g.matmul(y, hidden, gain=2.0, name="output")
    return g.layer_norm(g.op("Add", y, x), 1e-12, name="output.norm")
