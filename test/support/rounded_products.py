"""Small products for precisions: how much rounded factors lose, models, operands, and what
onnxruntime computes.
"""

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

# Of the largest value of a result: what is lost where factors keep 24, 11, 11 and 8 bits.
ALLOWED = {"f32": 2e-6, "tf32": 2e-3, "f16": 2e-3, "bf16": 1.5e-2}


def run(model, arrays):
    session = onnxruntime.InferenceSession(model.SerializeToString())
    names = [value.name for value in session.get_inputs()]
    return session.run(None, dict(zip(names, arrays, strict=True)))


def product(rows, steps, columns, kind=TensorProto.FLOAT):
    """y = x w + b, then relu."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Add", ["p", "b"], ["s"]),
        helper.make_node("Relu", ["s"], ["y"]),
    ]
    shapes = {"x": (rows, steps), "w": (steps, columns), "b": (columns,)}
    inputs = [helper.make_tensor_value_info(n, kind, s) for n, s in shapes.items()]
    result = helper.make_tensor_value_info("y", kind, (rows, columns))
    graph = helper.make_graph(nodes, "product", inputs, [result])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def operands(rows, steps, columns, dtype=np.float32):
    rng = np.random.default_rng(rows * steps + columns)
    shapes = (rows, steps), (steps, columns), (columns,)
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]
