"""Types that C++ of others infers: nothing of it reaches the process of the user."""

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

from rcompiler.frontend import inferred_types
from rcompiler.frontend.declared import declared


def model(*nodes, weights=()) -> ModelProto:
    """From x [2, 3] to an output "y" without a type."""
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])]
    outputs = [helper.make_empty_tensor_value_info("y")]
    graph = helper.make_graph([*nodes], "g", inputs, outputs, [*weights])
    opsets = [helper.make_opsetid(*each) for each in (("", 17), ("ai.onnx.ml", 2), ("own", 1))]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def encoded() -> ModelProto:
    """A LabelEncoder whose input has no type yet, at which infer_shapes ends its process."""
    labels = {"keys_int64s": [0, 1], "values_int64s": [5, 6]}
    return model(
        helper.make_node("Unknown", ["x"], ["t"], domain="own"),
        helper.make_node("LabelEncoder", ["t"], ["y"], domain="ai.onnx.ml", **labels),
    )


def test_outputs_have_the_types_that_follow():
    shape = numpy_helper.from_array(np.array([3, -1], np.int64), "shape")
    large = numpy_helper.from_array(np.ones((2, 300), np.float32), "large")
    reshaped = model(
        helper.make_node("Reshape", ["x", "shape"], ["t"]),
        helper.make_node("MatMul", ["t", "large"], ["y"]),
        weights=[shape, large],
    )
    [y] = declared(reshaped).outputs
    assert (y.shape, y.dtype) == ((3, 300), "float32")


def test_a_model_at_which_inference_dies_has_outputs_of_unknown_shape():
    [y] = declared(encoded()).outputs
    assert y.shape is None


def test_a_node_has_the_types_that_follow():
    node = helper.make_node("Reshape", ["x", "shape"], ["y"])
    types = {
        "x": helper.make_tensor_type_proto(TensorProto.FLOAT, [2, 3]),
        "shape": helper.make_tensor_type_proto(TensorProto.INT64, [1]),
    }
    found = inferred_types.node_outputs(node, 17, types, {"shape": np.array([-1], np.int64)})
    assert [d.dim_value for d in found["y"].tensor_type.shape.dim] == [6]
    assert inferred_types.node_outputs(node, 17, {}, {}) == {}
