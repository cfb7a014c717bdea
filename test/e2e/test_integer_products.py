"""Products of bytes on every instruction set, and on the matrix units of a GPU: exact for all
signs, zero points and windows.
"""

import itertools

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from turns import turn_of

import rcompiler

BYTES = ("uint8", "int8")
TARGETS = ("cpu", *turn_of(("cpu:v3", "cpu:x86-64"), 2), "cuda:emulated")
SIGNS = list(itertools.product(BYTES, BYTES))
INT32 = TensorProto.INT32


class Graph:
    """Nodes of one model, each with an output of its own; bytes drawn with many extremes."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(5)
        self.nodes, self.feeds, self.weights, self.outputs = [], {}, {}, []

    def bytes(self, shape, dtype):
        limits = np.iinfo(dtype)
        x = self.rng.integers(limits.min, limits.max + 1, shape)
        edge = self.rng.choice([limits.min, limits.max], shape)
        return np.where(self.rng.random(shape) < 0.3, edge, x).astype(dtype)

    def feed(self, array):
        name = f"x{len(self.feeds)}"
        self.feeds[name] = np.asarray(array)
        return name

    def constant(self, array):
        name = f"w{len(self.weights)}"
        self.weights[name] = np.asarray(array)
        return name

    def add(self, op, *inputs, kind=INT32, **attributes):
        name = f"y{len(self.outputs)}"
        self.outputs.append(helper.make_tensor_value_info(name, kind, None))
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))

    def model(self):
        infos = [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in self.feeds.items()
        ]
        weights = [numpy_helper.from_array(a, n) for n, a in self.weights.items()]
        graph = helper.make_graph(self.nodes, "g", infos, self.outputs, weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])

    def check(self, target, expected=None):
        model = self.model()
        if expected is None:
            expected = ReferenceEvaluator(model).run(None, self.feeds)
        found = rcompiler.compile_onnx(model, target=target, eus=1, cache=False)(
            *self.feeds.values()
        )
        for node, one, other in zip(self.nodes, found, expected, strict=True):
            assert one.dtype == other.dtype, node.name
            np.testing.assert_array_equal(one, other, err_msg=str(node))


@pytest.mark.parametrize("target", TARGETS)
def test_matrix_products(target):
    """Depths that are no multiple of a word, columns that are no multiple of a vector, zero points
    per tensor and per column, that leave the range of int8 or not."""
    g = Graph()
    for (left, right), (m, k, n) in itertools.product(SIGNS, [(5, 33, 40), (3, 8, 7), (1, 3, 20)]):
        a, w = g.bytes((m, k), left), g.bytes((k, n), right)
        middle = w // 2 + (64 if right == "uint8" else 0)  # 64..191 or -64..63
        zeros = [
            (w, None),
            (w, np.array(np.iinfo(right).max, right)),
            (middle, np.array(128 if right == "uint8" else 3, right)),
            (w, g.bytes(n, right)),
        ]
        for number, (weights, zero) in enumerate(zeros[: 4 if n == 40 else 1]):
            own = [] if zero is None else [g.constant(zero)]
            offset = g.constant(g.bytes((), left)) if number % 2 else ""
            g.add("MatMulInteger", g.feed(a), g.constant(weights), offset, *own)
        weights = g.constant(w) if n == 7 else g.feed(w)
        g.add("MatMulInteger", g.feed(a), weights, g.feed(g.bytes((), left)))
    g.add(
        "MatMulInteger", g.feed(g.bytes((2, 3, 9), "int8")), g.constant(g.bytes((2, 9, 37), "int8"))
    )
    g.add("MatMulInteger", g.feed(g.bytes((2, 3, 9), "uint8")), g.constant(g.bytes(9, "uint8")))
    g.add("MatMulInteger", g.feed(g.bytes(9, "int8")), g.constant(g.bytes((9, 37), "uint8")))
    g.check(target)


def test_a_zero_point_for_every_row():
    g, rows = Graph(), np.array([3, 0, 255, 128, 7], np.uint8)
    a, w = g.bytes((5, 18), "uint8"), g.bytes((18, 33), "uint8")
    zero = g.constant(np.array(9, np.uint8))
    g.add("MatMulInteger", g.feed(a), g.constant(w), g.constant(rows), zero)
    g.add("MatMulInteger", g.feed(a), g.constant(w), g.feed(rows), zero)
    total = (a.astype(np.int32) - rows[:, None]) @ (w.astype(np.int32) - 9)
    g.check("cpu", [total, total])


CONVOLUTIONS = [
    # image, weights, attributes
    ((1, 32, 9, 8), (32, 32, 3, 3), {"pads": [1, 1, 1, 1]}),
    ((1, 3, 11, 9), (20, 3, 3, 3), {"pads": [1, 0, 2, 1], "strides": [2, 2]}),
    ((2, 20, 7, 6), (24, 20, 1, 1), {"strides": [2, 1]}),
    ((1, 32, 8, 8), (64, 16, 3, 3), {"group": 2, "dilations": [2, 2], "pads": [2, 2, 2, 2]}),
    ((1, 24, 6, 7), (24, 1, 3, 3), {"group": 24, "pads": [1, 1, 1, 1]}),
    ((1, 6, 6, 6), (4, 3, 2, 2), {"group": 2}),
    ((1, 9, 5, 5), (5, 9, 5, 5), {"auto_pad": "SAME_UPPER"}),
]


@pytest.mark.parametrize("target", TARGETS)
def test_convolutions(target):
    """Without zero points, with constant ones, and with one that is known at run time only."""
    g = Graph()
    cases = itertools.product(SIGNS, CONVOLUTIONS)
    for number, ((left, right), (image, weights, attributes)) in enumerate(cases):
        own = g.constant(g.bytes((), left)), g.constant(g.bytes((), right))
        late = g.feed(g.bytes((), left)), g.constant(g.bytes(weights[0], right))
        zeros = [(), own, late][number % 3]
        x, w = g.feed(g.bytes(image, left)), g.constant(g.bytes(weights, right))
        g.add("ConvInteger", x, w, *zeros, **attributes)
    g.check(target)


@pytest.mark.parametrize("target", ["cpu", "cuda:emulated"])
def test_requantised_products(target):
    """Scales without ties, where the order of rounding and adding the zero point would count."""
    g = Graph()
    for left, right in SIGNS:
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(left))
        scales = [np.float32(np.pi / 100), np.float32(np.e / 50)]
        one, two, zero = (g.constant(s) for s in (*scales, g.bytes((), left)))
        y = [g.constant(np.float32(1.7)), g.constant(g.bytes((), left))]
        columns = [
            g.constant((0.01 + g.rng.random(20) / 50).astype(np.float32)),
            g.constant(g.bytes(20, right)),
        ]
        a, w = g.feed(g.bytes((3, 30), left)), g.constant(g.bytes((30, 20), right))
        g.add("QLinearMatMul", a, one, zero, w, two, g.constant(g.bytes((), right)), *y, kind=kind)
        g.add("QLinearMatMul", a, one, zero, w, *columns, *y, kind=kind)
        x, w = g.feed(g.bytes((1, 16, 7, 7), left)), g.constant(g.bytes((20, 16, 3, 3), right))
        bias = g.constant(g.rng.integers(-9999, 9999, 20).astype(np.int32))
        attributes = {"pads": [1, 1, 1, 1], "strides": [2, 2], "kind": kind}
        g.add("QLinearConv", x, one, zero, w, *columns, *y, bias, **attributes)
    g.check(target)
