"""What a decoder does for one token: a product with one row, and a layer of Llama's form."""

from onnx import ModelProto

from rcompiler.tools.models.graph import ModelGraph


def one_product(depth: int, columns: int) -> ModelProto:
    """x [1, depth] times weights [depth, columns]."""
    g = ModelGraph("one_row", 0)
    x = g.input("x", (1, depth))
    y = g.op("MatMul", x, g.weight("weight", g.normal((depth, columns), depth**-0.5)))
    return g.model(y=(y, (1, columns)))


def decoder_step(hidden: int, inner: int, heads: int, cached: int) -> ModelProto:
    """One token x [1, 1, hidden] behind `cached` others, whose keys and values are inputs: norm,
    query, key and value, attention, norm and SwiGLU. Outputs: the token, its key and its value.
    """
    g, size = ModelGraph("decoder_step", 0), hidden // heads
    x = g.input("x", (1, 1, hidden))
    shape = (1, heads, cached, size)
    keys, values = g.input("keys", shape), g.input("values", shape)
    y = _rms_norm(g, x, hidden, "input_norm")
    with g.scope("attn"):
        query, key, value = (
            g.op("Reshape", _times(g, y, hidden, hidden, name), [1, heads, 1, size])
            for name in ("q", "k", "v")
        )
        all_keys = g.op("Transpose", g.op("Concat", keys, key, axis=2), perm=[0, 1, 3, 2])
        scores = g.op("Mul", g.op("MatMul", query, all_keys), size**-0.5)
        mixed = g.op(
            "MatMul", g.op("Softmax", scores, axis=-1), g.op("Concat", values, value, axis=2)
        )
        mixed = g.op("Reshape", mixed, [1, 1, hidden])
        x = g.op("Add", x, _times(g, mixed, hidden, hidden, "o"))
    y = _rms_norm(g, x, hidden, "post_norm")
    with g.scope("mlp"):
        gate = _times(g, y, hidden, inner, "gate")
        gate = g.op("Mul", gate, g.op("Sigmoid", gate))
        y = g.op("Mul", gate, _times(g, y, hidden, inner, "up"))
        x = g.op("Add", x, _times(g, y, inner, hidden, "down"))
    own = (1, heads, 1, size)
    return g.model(y=(x, (1, 1, hidden)), key=(key, own), value=(value, own))


def _times(g: ModelGraph, x: str, depth: int, columns: int, name: str) -> str:
    with g.scope(name):
        return g.op("MatMul", x, g.weight("weight", g.normal((depth, columns), depth**-0.5)))


def _rms_norm(g: ModelGraph, x: str, hidden: int, name: str) -> str:
    with g.scope(name):
        mean = g.op("ReduceMean", g.op("Mul", x, x), [-1], keepdims=1)
        scale = g.op("Div", 1.0, g.op("Sqrt", g.op("Add", mean, 1e-5)))
        return g.op(
            "Mul", g.weight("weight", g.uniform((hidden,), 0.8, 1.2)), g.op("Mul", x, scale)
        )
