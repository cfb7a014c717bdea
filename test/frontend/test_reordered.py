"""Transposes before and behind convolutions of channels that come last: those that undo each other
move nothing, whatever elementwise stands between them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import rcompiler
from rcompiler.frontend import import_onnx

FIRST, LAST = [0, 3, 1, 2], [0, 2, 3, 1]
rng = np.random.default_rng(0)


class Graph:
    """As tf2onnx writes it: a Transpose before each convolution, and one behind it."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.weights: list[Any] = []

    def fixed(self, array: np.ndarray) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def weight(self, *shape: int) -> str:
        return self.fixed(rng.standard_normal(shape).astype(np.float32) / 4)

    def op(self, op: str, *inputs: str, **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], f"{op}_{name}", **attributes))
        return name

    def conv(self, x: str, inputs: int, outputs: int, size: int = 3, **how: Any) -> str:
        first = self.op("Transpose", x, perm=FIRST)
        made = self.op("Conv", first, self.weight(outputs, inputs, size, size), **how)
        return self.op("Transpose", made, perm=LAST)

    def model(self, result: str) -> ModelProto:
        infos = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name, shape in (("x", [1, 8, 8, 3]), (result, None))
        ]
        graph = helper.make_graph(self.nodes, "g", infos[:1], infos[1:], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def biased(g: Graph) -> str:
    x = g.op("Relu", g.op("Add", g.conv("x", 3, 16), g.weight(16)))
    return g.op("Sigmoid", g.conv(x, 16, 16))


def padded(g: Graph) -> str:
    x = g.op("Mul", g.conv("x", 3, 16), g.weight(16))
    pads = g.fixed(np.array([0, 1, 1, 0, 0, 1, 1, 0]))
    return g.conv(g.op("Pad", g.op("Relu", x), pads), 16, 16)


def residual(g: Graph) -> str:
    x = g.op("Relu", g.conv("x", 3, 16, 1))
    return g.conv(g.op("Add", x, g.conv(x, 16, 16, 1)), 16, 16, 1)


def joined(g: Graph) -> str:
    x = g.conv("x", 3, 16, 1)
    sides = [g.op("Relu", g.conv(x, 16, 16, 1)) for _ in range(2)]
    return g.conv(g.op("Concat", *sides, axis=3), 32, 16, 1)


def weighed(g: Graph) -> str:
    """Squeeze-and-excitation: channels times what their means say."""
    x = g.op("Relu", g.conv("x", 3, 16, 1))
    means = g.op("ReduceMean", x, axes=[1, 2], keepdims=1)
    factors = g.op("Sigmoid", g.conv(means, 16, 16, 1))
    return g.conv(g.op("Mul", x, factors), 16, 16, 1)


@pytest.mark.parametrize("network", [biased, padded, residual, joined, weighed])
def test_transposes_that_undo_each_other_move_nothing(network):
    """What is left is that of the input and that of the result."""
    g = Graph()
    model = g.model(network(g))
    x = rng.standard_normal((1, 8, 8, 3)).astype(np.float32)
    (want,) = ReferenceEvaluator(model).run(None, {"x": x})
    got = rcompiler.compile_onnx(model, eus=1)(x)[0]
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5 * np.abs(want).max())
    moved = _copies(import_onnx(model).module_text)
    assert len(moved) == 2, moved


def _copies(text: str) -> list[str]:
    """The types of what ops make that yield what they read."""
    lines = text.split("\n")
    return [
        lines[number + 2]
        for number, line in enumerate(lines[:-2])
        if line.startswith("^bb0(") and "linalg.yield %" in lines[number + 1]
        if lines[number + 1].split()[1] == line.split("(")[1].split(":")[0].strip()
    ]


def test_what_asks_for_positions_stays_in_its_order():
    """OneHot and the like write by position; a Transpose behind them is one of the result."""
    g = Graph()
    x = g.op("Transpose", "x", perm=FIRST)
    places = g.op("ArgMax", x, axis=3, keepdims=0)
    lower = g.op("Trilu", g.op("Transpose", g.op("Relu", x), perm=[0, 1, 3, 2]))
    y = g.op("Add", lower, g.op("Cast", g.op("Unsqueeze", places, g.fixed(np.array([3]))), to=1))
    model = g.model(g.op("Transpose", y, perm=LAST))
    x = rng.standard_normal((1, 8, 8, 3)).astype(np.float32)
    (want,) = ReferenceEvaluator(model).run(None, {"x": x})
    np.testing.assert_allclose(rcompiler.compile_onnx(model, eus=1)(x)[0], want, rtol=1e-6)
