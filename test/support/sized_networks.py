"""Small networks with symbolic dimensions, as exporters write them: shapes are computed."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper


class Graph:
    """Nodes that are added by calls: `g.MatMul(x, w)` is the name of its result."""

    def __init__(self, seed=0):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.weights = [], []

    def __getattr__(self, op):
        def add(*inputs, outputs=1, **attributes):
            names = [f"{op.lower()}_{len(self.nodes)}_{i}" for i in range(outputs)]
            self.nodes.append(helper.make_node(op, list(inputs), names, **attributes))
            return names[0] if outputs == 1 else names

        return add

    def const(self, array):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def ints(self, *numbers):
        return self.const(np.array(numbers, np.int64))

    def weight(self, *shape):
        scale = shape[0] ** -0.5 if len(shape) > 1 else 0.1
        return self.const((self.rng.standard_normal(shape) * scale).astype(np.float32))

    def dim(self, x, axis):
        """A dimension as exporters read it, for Concat."""
        size = self.Gather(self.Shape(x), self.const(np.array(axis, np.int64)))
        return self.Unsqueeze(size, self.ints(0))

    def linear(self, x, inner, outer):
        return self.Add(self.MatMul(x, self.weight(inner, outer)), self.weight(outer))

    def norm(self, x, hidden):
        ones = self.const(np.ones(hidden, np.float32))
        return self.LayerNormalization(x, ones, self.weight(hidden), axis=-1)

    def model(self, inputs, outputs, opset=21):
        kinds = {"f": TensorProto.FLOAT, "i": TensorProto.INT64}
        given = [helper.make_tensor_value_info(n, kinds[k], s) for n, k, s in inputs]
        made = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs]
        graph = helper.make_graph(self.nodes, "g", given, made, self.weights)
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10
        )


def attention(g, x, hidden, heads, mask):
    """Of the heads of a layer; the mask is added to the scores."""
    split = g.Concat(g.dim(x, 0), g.dim(x, 1), g.ints(heads), g.ints(hidden // heads), axis=0)
    q, k, v = (
        g.Transpose(g.Reshape(g.linear(x, hidden, hidden), split), perm=[0, 2, 1, 3])
        for _ in range(3)
    )
    scores = g.MatMul(q, g.Transpose(k, perm=[0, 1, 3, 2]))
    scores = g.Div(scores, g.const(np.float32((hidden // heads) ** 0.5)))
    context = g.MatMul(g.Softmax(mask(scores), axis=-1), v)
    context = g.Transpose(context, perm=[0, 2, 1, 3])
    joined = g.Concat(g.dim(context, 0), g.dim(context, 1), g.ints(hidden), axis=0)
    return g.linear(g.Reshape(context, joined), hidden, hidden)


def layer(g, x, hidden, heads, mask):
    x = g.norm(g.Add(x, attention(g, x, hidden, heads, mask)), hidden)
    inner = g.Gelu(g.linear(x, hidden, 2 * hidden))
    return g.norm(g.Add(x, g.linear(inner, 2 * hidden, hidden)), hidden)


def bert(layers=2, hidden=32, heads=4, longest=16):
    """input_ids and attention_mask of [batch, seq]; all states, and those of the first token."""
    g = Graph()
    mask = g.Unsqueeze(g.Cast("mask", to=TensorProto.FLOAT), g.ints(1, 2))
    mask = g.Mul(g.Sub(g.const(np.float32(1)), mask), g.const(np.float32(-1e9)))
    places = g.Slice(
        g.const(np.arange(longest)[None]), g.ints(0), g.dim("ids", 1), g.ints(1), g.ints(1)
    )
    x = g.Gather(g.weight(50, hidden), "ids")
    x = g.norm(g.Add(x, g.Gather(g.weight(longest, hidden), places)), hidden)
    for _ in range(layers):
        x = layer(g, x, hidden, heads, lambda scores: g.Add(scores, mask))
    first = g.Gather(x, g.const(np.array(0)), axis=1)
    pooled = g.Tanh(g.linear(first, hidden, hidden))
    both = ["batch", "seq"]
    return g.model([("ids", "i", both), ("mask", "i", both)], [x, pooled])


def gpt(layers=2, hidden=32, heads=4, longest=16):
    """input_ids of [batch, seq]; the logits of the last token."""
    g = Graph()
    size = g.Gather(g.Shape("ids"), g.const(np.array(1)))
    places = g.Range(g.const(np.array(0)), size, g.const(np.array(1)))
    table = g.weight(50, hidden)
    x = g.Add(g.Gather(table, "ids"), g.Gather(g.weight(longest, hidden), places))
    causal = g.const(np.tril(np.ones((1, 1, longest, longest), bool)))

    def masked(scores):
        rows, columns = g.dim(scores, 2), g.dim(scores, 3)
        first = g.Sub(columns, rows)
        part = g.Slice(causal, first, columns, g.ints(2), g.ints(1))
        part = g.Slice(part, g.ints(0), columns, g.ints(3), g.ints(1))
        return g.Where(part, scores, g.const(np.float32(-3e38)))

    for _ in range(layers):
        x = layer(g, x, hidden, heads, masked)
    last = g.Gather(x, g.const(np.array(-1)), axis=1)
    logits = g.MatMul(last, g.Transpose(table, perm=[1, 0]))
    return g.model([("ids", "i", ["batch", "seq"])], [x, logits])


def cnn():
    """Images of [batch, 3, 8, 8]; one vector each."""
    g = Graph()
    x = "images"
    for inner, outer in ((3, 8), (8, 16)):
        y = g.Conv(x, g.weight(outer, inner, 3, 3), g.weight(outer), pads=[1] * 4)
        scale, shift, mean = (g.weight(outer) for _ in range(3))
        y = g.BatchNormalization(y, scale, shift, mean, g.const(np.ones(outer, np.float32)))
        x = g.MaxPool(g.Relu(y), kernel_shape=[2, 2], strides=[2, 2])
    rows = g.Concat(g.dim(x, 0), g.ints(-1), axis=0)
    flat = g.Reshape(x, rows)
    return g.model([("images", "f", ["batch", 3, 8, 8])], [g.Softmax(g.linear(flat, 64, 10))])


def lstm(hidden=8, width=6):
    """Sequences of [seq, batch, width]; all states, and the mean of them."""
    g = Graph()
    weights = g.weight(2, 4 * hidden, width), g.weight(2, 4 * hidden, hidden)
    y, h, _ = g.LSTM("x", *weights, outputs=3, hidden_size=hidden, direction="bidirectional")
    y = g.Transpose(y, perm=[2, 0, 1, 3])
    y = g.Reshape(y, g.ints(0, 0, 2 * hidden))
    mean = g.ReduceMean(y, g.ints(1), keepdims=0)
    return g.model([("x", "f", ["seq", "batch", width])], [y, mean, h])
