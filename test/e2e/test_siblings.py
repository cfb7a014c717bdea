"""Products of one tensor, as exporters write them: right, and merged where that pays."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import rcompiler
from rcompiler.passes.products.merging import Profit


class Graph:
    """A model under construction; values are names."""

    def __init__(self):
        self.nodes, self.weights, self.rng = [], [], np.random.default_rng(5)

    def constant(self, array):
        self.weights.append(numpy_helper.from_array(array, f"w{len(self.weights)}"))
        return self.weights[-1].name

    def random(self, *shape):
        scale = np.float32(1 / np.sqrt(shape[0]))
        return self.constant(self.rng.standard_normal(shape).astype(np.float32) * scale)

    def op(self, kind, *inputs, name=None, **attributes):
        result = name or f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [result], **attributes))
        return result

    def affine(self, x, depth, width):
        return self.op("Add", self.op("MatMul", x, self.random(depth, width)), self.random(width))

    def model(self, inputs, outputs):
        def infos(shapes):
            return [
                helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()
            ]

        graph = helper.make_graph(self.nodes, "g", infos(inputs), infos(outputs), self.weights)
        opset = [helper.make_opsetid("", 21)]
        return helper.make_model(graph, opset_imports=opset, ir_version=10)


def lstm_cells(width, steps=2, by_rows=False):
    """LSTM cells in eight products of one row each (Rammer, OSDI'20, figure 9)."""
    g = Graph()
    weights = [[g.random(width, width) for _ in range(4)] for _ in "xh"]
    biases = [g.random(width) for _ in range(4)]

    def product(a, w):
        return g.op("Gemm", a, w, transB=1) if by_rows else g.op("MatMul", a, w)

    h, c = "h", "c"
    for step in range(steps):
        last = step == steps - 1
        gates = [
            g.op("Add", g.op("Add", product(f"x{step}", w), product(h, u)), b)
            for w, u, b in zip(*weights, biases, strict=True)
        ]
        i, f, o = (g.op("Sigmoid", gate) for gate in gates[:3])
        kept, fresh = g.op("Mul", f, c), g.op("Mul", i, g.op("Tanh", gates[3]))
        c = g.op("Add", kept, fresh, name="c_out" if last else None)
        h = g.op("Mul", o, g.op("Tanh", c), name="h_out" if last else None)
    names = [*(f"x{step}" for step in range(steps)), "h", "c"]
    shape = [1, width]
    return g.model(dict.fromkeys(names, shape), {"h_out": shape, "c_out": shape})


def attention(rows, heads, size):
    """Q, K and V of every head, scores, and their mix."""
    g, hidden = Graph(), heads * size
    split = g.constant(np.array([1, rows, heads, size]))
    q, k, v = (
        g.op("Transpose", g.op("Reshape", g.affine("x", hidden, hidden), split), perm=perm)
        for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
    )
    g.op("MatMul", g.op("Softmax", g.op("MatMul", q, k), axis=-1), v, name="y")
    return g.model({"x": [1, rows, hidden]}, {"y": [1, heads, rows, size]})


def gated_mlp(rows, hidden, inner):
    """silu(x G) * (x U), then down."""
    g = Graph()
    gate = g.op("MatMul", "x", g.random(hidden, inner))
    up = g.op("MatMul", "x", g.random(hidden, inner))
    y = g.op("Mul", g.op("Mul", gate, g.op("Sigmoid", gate)), up)
    g.op("MatMul", y, g.random(inner, hidden), name="y")
    return g.model({"x": [rows, hidden]}, {"y": [rows, hidden]})


def heads(rows, depth, widths):
    """Narrow affine heads of different widths, each with a softmax of its own."""
    g = Graph()
    for k, width in enumerate(widths):
        g.op("Softmax", g.op("Relu", g.affine("x", depth, width)), name=f"y{k}", axis=-1)
    return g.model({"x": [rows, depth]}, {f"y{k}": [rows, w] for k, w in enumerate(widths)})


def separately(monkeypatch, model):
    with monkeypatch.context() as patch:
        patch.setattr(Profit, "merging_pays", lambda self, products: False)
        return rcompiler.compile_onnx(model, target="cpu:v3", eus=2, cache=False)


def sums(model):
    """Products, and the sums and maxima of softmaxes, whichever operators they are in."""
    return model.stage("rtask").count('"reduction"]')


CASES = {
    "lstm 16": (lstm_cells(16), True),
    "lstm 24": (lstm_cells(24), False),
    "lstm 8 by rows": (lstm_cells(8, by_rows=True), True),
    "lstm 64": (lstm_cells(64, steps=1), False),
    "qkv": (attention(16, 4, 16), False),
    "qkv of one row": (attention(1, 2, 8), False),
    "gate and up": (gated_mlp(16, 32, 8), True),
    "gate and up of a large model": (gated_mlp(4, 128, 344), False),
    "heads": (heads(12, 64, (4, 10, 6)), True),
}


@pytest.mark.parametrize("name", CASES)
def test_siblings(name, monkeypatch):
    model, merges = CASES[name]
    compiled = rcompiler.compile_onnx(model, target="cpu:v3", eus=2, cache=False)
    plain = separately(monkeypatch, model)
    assert (sums(compiled) < sums(plain)) == merges
    rng = np.random.default_rng(3)
    inputs = [rng.standard_normal(t.shape).astype(np.float32) for t in compiled.inputs]
    feed = {t.name: x for t, x in zip(compiled.inputs, inputs, strict=True)}
    expected = ReferenceEvaluator(model).run(None, feed)
    for found, alone, right in zip(compiled(*inputs), plain(*inputs), expected, strict=True):
        np.testing.assert_allclose(found, right, rtol=2e-5, atol=2e-6)
        if "by rows" not in name:  # summed across lanes alone, one after the other in a panel
            np.testing.assert_array_equal(found, alone)


def test_merged_weights_replace_the_single_ones(monkeypatch):
    """The cells of all steps share one merged copy."""
    model = lstm_cells(16, steps=3)
    merged = rcompiler.compile_onnx(model, target="cpu:v3", eus=1, cache=False)
    plain = separately(monkeypatch, model)
    sizes = [sum(a.nbytes for a in m.constants().values()) for m in (merged, plain)]
    assert sizes[0] <= sizes[1] + 4 * 4 * 16  # biases of up to 64 elements are in the schedule
