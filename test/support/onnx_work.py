"""How large an ONNX model is and how much it computes, from its graph alone."""

from collections import Counter
from typing import NamedTuple

import numpy as np
import onnx


class Work(NamedTuple):
    """weights: bytes of the operands of products. flop: multiplications and additions of them."""

    weights: int
    flop: int
    nodes: Counter[str]


def work_of(model: onnx.ModelProto) -> Work:
    """Of Conv, MatMul, Gemm and LSTM; all else is left out."""
    graph = onnx.shape_inference.infer_shapes(model).graph
    shapes = {
        value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in (*graph.input, *graph.value_info, *graph.output)
    }
    constants = {weight.name: list(weight.dims) for weight in graph.initializer}
    shapes.update(constants)
    operands, products = set(), 0
    for node in graph.node:
        shape = [shapes.get(name) for name in (*node.input[:3], node.output[0])]
        match node.op_type:
            case "Conv":
                count = np.prod(shape[-1]) * np.prod(shape[1][1:])
            case "MatMul":
                count = np.prod(shape[-1]) * shape[0][-1]
            case "Gemm":
                count = np.prod(shape[1]) * shape[-1][0]
            case "LSTM":
                count = np.prod(shape[0][:2]) * (np.prod(shape[1]) + np.prod(shape[2]))
            case _:
                continue
        products += int(count)
        operands.update(node.input[1:3] if node.op_type == "LSTM" else node.input[1:2])
    weights = sum(int(np.prod(constants[name])) for name in operands if name in constants)
    return Work(4 * weights, 2 * products, Counter(node.op_type for node in graph.node))
