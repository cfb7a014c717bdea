"""Small networks whose numbers between two operators are more than f16 holds, as exporters write
them: norms taken apart, scores before they are scaled, wide layers of 10^5.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

KINDS = {
    "f16": (TensorProto.FLOAT16, np.dtype(np.float16)),
    "bf16": (TensorProto.BFLOAT16, np.dtype(ml_dtypes.bfloat16)),
}
DOUBLE = TensorProto.DOUBLE, np.dtype(np.float64)
WIDTH, ROWS, HEADS = 32, 8, 2


class Network:
    """A graph under construction: each method adds a node and gives the name of its result."""

    def __init__(self, weights: str, as_double: bool) -> None:
        """Weights are rounded to a kind; as_double: and are then of f64, as all the rest is."""
        self._rounded = KINDS[weights][1]
        self._kind, self._stored = DOUBLE if as_double else KINDS[weights]
        self._random = np.random.default_rng(7)
        self._nodes: list[onnx.NodeProto] = []
        self._weights: list[onnx.TensorProto] = []

    def op(self, name: str, *inputs: str, **attributes: object) -> str:
        result = f"r{len(self._nodes)}"
        self._nodes.append(helper.make_node(name, inputs, [result], **attributes))
        return result

    def integers(self, *numbers: int) -> str:
        return self._constant(np.array(numbers, np.int64))

    def numbers(self, array: np.ndarray | float) -> str:
        return self._constant(np.asarray(array).astype(self._rounded).astype(self._stored))

    def random(self, *shape: int, scale: float = 1.0, mean: float = 0.0) -> str:
        return self.numbers(mean + scale * self._random.standard_normal(shape))

    def _constant(self, array: np.ndarray) -> str:
        name = f"c{len(self._weights)}"
        self._weights.append(numpy_helper.from_array(array, name))
        return name

    def dense(self, x: str, width: int, to: int, scale: float = 1.0) -> str:
        product = self.op("MatMul", x, self.random(width, to, scale=scale * width**-0.5))
        return self.op("Add", product, self.random(to))

    def layer_norm(self, x: str) -> str:
        axis = self.integers(-1)
        centred = self.op("Sub", x, self.op("ReduceMean", x, axis))
        square = self.op("Pow", centred, self.numbers(2.0))
        variance = self.op("Add", self.op("ReduceMean", square, axis), self.numbers(1e-5))
        normed = self.op("Div", centred, self.op("Sqrt", variance))
        scaled = self.op("Mul", normed, self.random(WIDTH, scale=0.1, mean=1.0))
        return self.op("Add", scaled, self.random(WIDTH, scale=0.1))

    def rms_norm(self, x: str) -> str:
        square = self.op("ReduceMean", self.op("Pow", x, self.numbers(2.0)), self.integers(-1))
        root = self.op("Sqrt", self.op("Add", square, self.numbers(1e-5)))
        normed = self.op("Mul", x, self.op("Reciprocal", root))
        return self.op("Mul", normed, self.random(WIDTH, scale=0.1, mean=1.0))

    def attention(self, x: str, scale: float) -> str:
        """Queries and keys are so many times larger than the scores that are scaled again."""
        split = self.integers(1, ROWS, HEADS, WIDTH // HEADS)

        def heads(factor: float, order: list[int]) -> str:
            each = self.op("Reshape", self.dense(x, WIDTH, WIDTH, factor), split)
            return self.op("Transpose", each, perm=order)

        scores = self.op("MatMul", heads(scale, [0, 2, 1, 3]), heads(scale, [0, 2, 3, 1]))
        scores = self.op("Div", scores, self.numbers(scale * scale * (WIDTH // HEADS) ** 0.5))
        mixed = self.op("MatMul", self.op("Softmax", scores, axis=-1), heads(1.0, [0, 2, 1, 3]))
        rows = self.op("Transpose", mixed, perm=[0, 2, 1, 3])
        return self.dense(self.op("Reshape", rows, self.integers(1, ROWS, WIDTH)), WIDTH, WIDTH)

    def gelu(self, x: str) -> str:
        erf = self.op("Erf", self.op("Div", x, self.numbers(2**0.5)))
        product = self.op("Mul", x, self.op("Add", erf, self.numbers(1.0)))
        return self.op("Mul", product, self.numbers(0.5))

    def wide(self, x: str) -> str:
        return self.dense(self.gelu(self.dense(x, WIDTH, 4 * WIDTH)), 4 * WIDTH, WIDTH)

    def model(self, result: str, shape: list[int]) -> onnx.ModelProto:
        x = helper.make_tensor_value_info("x", self._kind, shape)
        y = helper.make_tensor_value_info(result, self._kind, None)
        graph = helper.make_graph(self._nodes, "halves", [x], [y], self._weights)
        opsets = [helper.make_opsetid("", 18)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def bert(n: Network) -> onnx.ModelProto:
    """Norms behind each layer, of activations of several hundreds."""
    x = "x"
    for _ in range(2):
        x = n.layer_norm(n.op("Add", x, n.attention(x, scale=20.0)))
        x = n.layer_norm(n.op("Mul", n.op("Add", x, n.wide(x)), n.numbers(300.0)))
    return n.model(x, [1, ROWS, WIDTH])


def t5(n: Network) -> onnx.ModelProto:
    """A gated layer of 10^5, and what is added up of it."""
    x = "x"
    for _ in range(2):
        x = n.op("Add", x, n.attention(n.rms_norm(x), scale=1.0))
        normed = n.rms_norm(x)
        gate, values = (n.dense(normed, WIDTH, 4 * WIDTH, scale=150.0) for _ in range(2))
        gated = n.op("Mul", n.gelu(gate), values)
        x = n.op("Add", x, n.dense(gated, 4 * WIDTH, WIDTH))
    return n.model(n.rms_norm(x), [1, ROWS, WIDTH])


def vit(n: Network) -> onnx.ModelProto:
    """Patches of several hundreds, and norms in front of each layer."""
    weights = n.random(WIDTH, 3, 4, 4, scale=300 * 48**-0.5)
    patches = n.op("Conv", "x", weights, n.random(WIDTH), strides=[4, 4], kernel_shape=[4, 4])
    rows = n.op("Reshape", patches, n.integers(1, WIDTH, ROWS))
    x = n.op("Add", n.op("Transpose", rows, perm=[0, 2, 1]), n.random(1, ROWS, WIDTH))
    for _ in range(2):
        x = n.op("Add", x, n.attention(n.layer_norm(x), scale=40.0))
        x = n.op("Add", x, n.wide(n.layer_norm(x)))
    x = n.op("ReduceMean", n.layer_norm(x), n.integers(1), keepdims=0)
    return n.model(n.dense(x, WIDTH, 10), [1, 3, 8, 16])


def convnext(n: Network) -> onnx.ModelProto:
    """Depthwise convolutions, norms over channels, and scales of several hundreds."""
    weights = n.random(WIDTH, 3, 4, 4, scale=300 * 48**-0.5)
    x = n.op("Conv", "x", weights, n.random(WIDTH), strides=[4, 4], kernel_shape=[4, 4])
    for _ in range(2):
        weights, bias = n.random(WIDTH, 1, 7, 7, scale=1 / 7), n.random(WIDTH)
        y = n.op("Conv", x, weights, bias, group=WIDTH, pads=[3] * 4, kernel_shape=[7, 7])
        y = n.wide(n.layer_norm(n.op("Transpose", y, perm=[0, 2, 3, 1])))
        y = n.op("Mul", y, n.random(WIDTH, mean=300.0))
        x = n.op("Add", x, n.op("Transpose", y, perm=[0, 3, 1, 2]))
    x = n.op("Reshape", n.op("GlobalAveragePool", x), n.integers(1, WIDTH))
    return n.model(n.dense(n.layer_norm(x), WIDTH, 10), [1, 3, 16, 16])


NETWORKS = {"bert": bert, "convnext": convnext, "t5": t5, "vit": vit}
