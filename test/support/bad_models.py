"""Small models without any check, right ones and wrong ones."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

F = TensorProto.FLOAT


def graph_model(nodes, inputs=(("x", (2, 3)),), outputs=(("y", (2, 3)),), weights=(), domain=""):
    """A model without any check."""
    ports = [
        [helper.make_tensor_value_info(name, F, shape) for name, shape in side]
        for side in (inputs, outputs)
    ]
    graph = helper.make_graph(nodes, "g", *ports, initializer=list(weights))
    opsets = [helper.make_opsetid("", 17)]
    if domain:
        opsets.append(helper.make_opsetid(domain, 1))
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def relu(shape=(2, 3)):
    return graph_model(
        [helper.make_node("Relu", ["x"], ["y"], "act")], [("x", shape)], [("y", shape)]
    )


def external(folder, location="weights.bin"):
    """y = x + w, with w in a file that may be missing."""
    weight = numpy_helper.from_array(np.ones((2, 3), np.float32), "w")
    proto = graph_model([helper.make_node("Add", ["x", "w"], ["y"], "sum")], weights=[weight])
    path = folder / "m.onnx"
    onnx.save(proto, path, save_as_external_data=True, location=location, size_threshold=0)
    return path
