"""Products of bytes on GPUs: exact, with weights that are constants as quantised models have them.

What CPUs multiply in groups of a word, the threads of a GPU take step by step.
"""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import rcompiler

EMULATED = ("cuda:emulated", "cuda:emulated-sm_90a")
BYTES = {"int8": TensorProto.INT8, "uint8": TensorProto.UINT8}
DEPTH = 12


def drawn(rng, shape, dtype):
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max + 1, shape).astype(dtype)


def model_of(nodes, inputs, outputs, weights):
    infos = [
        [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in side]
        for side in (inputs, outputs)
    ]
    constants = [numpy_helper.from_array(np.asarray(a), name) for name, a in weights.items()]
    graph = helper.make_graph(nodes, "g", *infos, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def products(left, right):
    """MatMulInteger, ConvInteger, QLinearMatMul and QLinearConv of one pair of types."""
    rng = np.random.default_rng(7)
    weights = {
        "w": drawn(rng, (DEPTH, 20), right),
        "odd": drawn(rng, (7, 20), right),
        "filters": drawn(rng, (8, 4, 3, 3), right),
        "row": drawn(rng, (8, 4, 1, 4), right),
        "xz": drawn(rng, (), left),
        "wz": drawn(rng, (), right),
        "scale": np.float32(0.0625),
        "yz": np.array(3, left),
    }
    nodes = [
        helper.make_node("MatMulInteger", ["x", "w", "xz", "wz"], ["y0"]),
        helper.make_node("MatMulInteger", ["u", "odd"], ["y1"]),
        helper.make_node("ConvInteger", ["image", "filters", "xz"], ["y2"], pads=[1] * 4),
        helper.make_node("ConvInteger", ["line", "row"], ["y3"]),
        helper.make_node(
            "QLinearMatMul", ["x", "scale", "xz", "w", "scale", "wz", "scale", "yz"], ["y4"]
        ),
        helper.make_node(
            "QLinearConv",
            ["image", "scale", "xz", "filters", "scale", "wz", "scale", "yz"],
            ["y5"],
        ),
    ]
    shapes = {"x": (6, DEPTH), "u": (5, 7), "image": (1, 4, 6, 6), "line": (2, 4, 1, 4)}
    kinds = [TensorProto.INT32] * 4 + [BYTES[left]] * 2
    outputs = [(f"y{k}", kind, None) for k, kind in enumerate(kinds)]
    inputs = [(name, BYTES[left], shape) for name, shape in shapes.items()]
    feeds = {name: drawn(rng, shape, left) for name, shape in shapes.items()}
    return model_of(nodes, inputs, outputs, weights), feeds


@pytest.mark.parametrize("target", EMULATED)
@pytest.mark.parametrize(("left", "right"), [("uint8", "int8"), ("int8", "int8")])
def test_products_with_constant_weights(target, left, right):
    model, feeds = products(left, right)
    expected = ReferenceEvaluator(model).run(None, feeds)
    found = rcompiler.compile_onnx(model, target=target, cache=False)(**feeds)
    for node, one, other in zip(model.graph.node, found, expected, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other, err_msg=str(node))
