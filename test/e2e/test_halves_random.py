"""Random graphs of f16 on integers that f32 holds and f16 does not: each result has the bits of the
rule in docs/quantised.md, "Models in f16 and bf16", evaluated in numpy.
"""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.levels import HERE

import rcompiler

SIDE = 6
MOST = 2.0**22  # of a number: f32 holds all integers of four times this
LARGEST = 65504.0
FUNCTIONS = {
    "Add": np.add,
    "Max": np.maximum,
    "Mul": np.multiply,
    "MatMul": np.matmul,
    "ReduceSum": lambda a, axis: a.sum(1, keepdims=True),
    "Sub": np.subtract,
    "Transpose": np.transpose,
    "Where": np.where,
}
MOVES = "Transpose", "Where"  # which choose elements


def rounded(array):
    return array.astype(np.float16).astype(np.float32)


class RandomGraph:
    """Nodes on tensors of one shape, and what they would give if nothing were rounded."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.x = self.integers(SIDE, SIDE) * 111
        self.values = {"x": self.x}  # of f16 in the model, and of one shape
        self.weights = {"axis": np.array([1])}
        self.nodes = []
        while len(self.values) < 16:
            self.grow(self.random.choice(KINDS), *self.random.choice(list(self.values), 2))
        self.outputs = self.chosen_outputs()

    def integers(self, *shape):
        return self.random.integers(-9, 10, shape).astype(np.float32)

    def weight(self, array):
        self.weights[f"w{len(self.weights)}"] = array
        return list(self.weights)[-1]

    def grow(self, kind, a, b):
        """Add a node, or what a Cast takes from a number; the result of large numbers is their
        maximum.
        """
        if kind == "Cast":
            if np.max(np.abs(self.values[a])) <= LARGEST:
                near = self.add("Narrow", self.add("Widen", a))
                self.values[near] = rounded(self.values[a])
                self.values[self.add("Sub", a, near)] = self.values[a] - self.values[near]
            return
        inputs = {
            "MatMul": [a, self.weight(self.integers(SIDE, SIDE))],
            "Transpose": [a],
            "Where": [self.weight(self.random.random((SIDE, SIDE)) < 0.5), a, b],
            "Weighted": [a, self.weight(self.integers(SIDE))],
        }.get(kind, [a, b])
        if kind == "ReduceSum":
            total = self.values[a].sum(1, keepdims=True)
            if np.max(np.abs(total)) <= MOST / 2:
                sums = self.add("ReduceSum", a, "axis")
                self.values[self.add("Sub", b, sums)] = self.values[b] - total
            return
        op = "Mul" if kind == "Weighted" else kind
        known = self.weights | self.values
        result = FUNCTIONS[op](*(known[name] for name in inputs))
        if np.max(np.abs(result)) > MOST:
            op, inputs, result = "Max", [a, b], np.maximum(self.values[a], self.values[b])
        self.values[self.add(op, *inputs)] = result

    def add(self, op, *inputs):
        name = f"r{len(self.nodes)}"
        self.nodes.append((op, [str(one) for one in inputs], name))
        return name

    def chosen_outputs(self):
        """What nothing reads, and some others; nothing that f16 does not hold."""
        read = {one for _, inputs, _ in self.nodes for one in inputs}
        others = [name for name in self.values if name in read and name != "x"]
        picked = [str(name) for name in self.random.choice(others, 3, replace=False)]
        fits = {n for n, value in self.values.items() if np.max(np.abs(value)) <= LARGEST}
        leaves = [name for name in self.values if name not in read]
        return [name for name in picked + leaves if self.stored([name]) <= fits]

    def stored(self, outputs):
        """What is rounded, by the rule: outputs, and what is moved to be one."""
        found = set(outputs)
        for op, inputs, name in reversed(self.nodes):
            if op in MOVES and name in found:
                found.update(set(inputs) - set(self.weights))
        return found

    def expected(self):
        values, stored = self.weights | {"x": self.x}, self.stored(self.outputs)
        for op, inputs, name in self.nodes:
            operands = [values[one] for one in inputs]
            result = FUNCTIONS[op](*operands) if op in FUNCTIONS else operands[0]
            values[name] = rounded(result) if name in stored or op == "Narrow" else result
        return [values[name].astype(np.float16) for name in self.outputs]

    def model(self):
        casts = {"Widen": TensorProto.FLOAT, "Narrow": TensorProto.FLOAT16}
        nodes = [
            helper.make_node("Cast", inputs, [name], to=casts[op])
            if op in casts
            else helper.make_node(op, inputs, [name])
            for op, inputs, name in self.nodes
        ]
        halves = {
            n: a.astype(np.float16) if a.dtype == np.float32 else a for n, a in self.weights.items()
        }
        weights = [numpy_helper.from_array(array, name) for name, array in halves.items()]
        kind, shape = TensorProto.FLOAT16, [SIDE, SIDE]
        x, *outputs = (
            helper.make_tensor_value_info(name, kind, shape) for name in ("x", *self.outputs)
        )
        graph = helper.make_graph(nodes, "random", [x], outputs, weights)
        opsets = [helper.make_opsetid("", 18)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


KINDS = "Add Cast Cast MatMul Max Mul ReduceSum Sub Transpose Weighted Where".split()


@pytest.mark.parametrize("seed", range(40))
def test_a_random_graph_rounds_where_the_rule_says(seed):
    graph = RandomGraph(seed)
    options = {"target": f"cpu:{HERE[seed % len(HERE)]}", "fusion": seed % 3 > 0, "cache": False}
    found = rcompiler.compile_onnx(graph.model(), **options)(graph.x.astype(np.float16))
    for name, one, right in zip(graph.outputs, found, graph.expected(), strict=True):
        np.testing.assert_array_equal(one, right, err_msg=name)


def test_most_graphs_would_differ_if_each_operator_rounded():
    """So a rounding too many is found, as one too few is."""
    differ = 0
    for seed in range(40):
        graph = RandomGraph(seed)
        right = graph.expected()
        graph.stored = lambda outputs, graph=graph: {name for *_, name in graph.nodes}
        with np.errstate(invalid="ignore", over="ignore"):
            each = graph.expected()
        differ += any(not np.array_equal(a, b) for a, b in zip(right, each, strict=True))
    assert differ > 20
