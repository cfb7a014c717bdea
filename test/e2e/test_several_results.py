"""Results of several shapes that one fused group would compute: an operator for each shape."""

import json

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import rcompiler
from rcompiler.model import REPORT

node = helper.make_node
EARLY = [node("ReduceSum", ["y", "a"], ["s"], keepdims=0), node("Tanh", ["y"], ["z"])]


def compiled_and_right(nodes, outputs, shape, axes, eus=3):
    """Kind of each operator, when all outputs are those of the reference."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [helper.make_tensor("a", TensorProto.INT64, [len(axes)], axes)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    x = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    compiled = rcompiler.compile_onnx(model, eus=eus, cache=False)
    for got, want in zip(compiled(x), ReferenceEvaluator(model).run(None, {"x": x}), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
    report = json.loads(compiled.artifact.stages[REPORT])
    return [op["kind"] for op in report["operators"]]


@pytest.mark.parametrize("order", [EARLY, EARLY[::-1]], ids=["sum first", "sum last"])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ([4, 4, 8, 8], [0, 2, 3]),  # as many images as channels
        ([16, 32, 16, 16], [0, 2, 3]),
        ([8, 16, 32, 32], [1]),
        ([64, 256], [0]),
        ([256, 1024], [1]),
    ],
)
def test_a_tensor_and_sums_of_it(order, shape, axes):
    kinds = compiled_and_right([node("Sigmoid", ["x"], ["y"]), *order], ["z", "s"], shape, axes)
    assert sorted(kinds) == ["elementwise", "reduction"]


def test_later_operators_read_what_the_first_ones_computed():
    """A softmax, whose numerators, sums and logarithms of sums are wanted as well."""
    nodes = [
        node("ReduceMax", ["x", "a"], ["m"], keepdims=1),
        node("Sub", ["x", "m"], ["z"]),
        node("Exp", ["z"], ["e"]),
        node("ReduceSum", ["e", "a"], ["s"], keepdims=1),
        node("Div", ["e", "s"], ["p"]),
        node("Squeeze", ["m", "a"], ["q"]),
        node("Log", ["s"], ["l"]),
    ]
    outputs = ["p", "l", "q", "z", "e", "s"]
    assert "reduction" in compiled_and_right(nodes, outputs, [32, 48], [1])


def test_sums_beside_a_product_of_what_is_summed():
    """The product does not fuse; what it reads is a result beside the sums."""
    nodes = [
        node("Sigmoid", ["x"], ["y"]),
        node("ReduceSum", ["y", "a"], ["s"], keepdims=0),
        node("Transpose", ["y"], ["t"], perm=[1, 0]),
        node("MatMul", ["y", "t"], ["z"]),
    ]
    kinds = compiled_and_right(nodes, ["z", "s"], [32, 48], [0])
    assert {"contraction", "reduction"} <= set(kinds)
