"""Small networks of 8 bits that are quantised while they run, and of f16."""

import numpy as np
import onnx
from onnx import TensorProto, helper, parser
from support.quantised_networks import Network


def dynamic_products(rows: int, depth: int) -> onnx.ModelProto:
    """Two products of what is quantised as they run, each with a bias of f32 and a Relu."""
    net, shape, value = Network(rows), (rows, depth), "x"
    for columns in (96, 64):
        a, scale, zero = (f"{value}_{name}" for name in ("bytes", "scale", "zero"))
        net.nodes.append(helper.make_node("DynamicQuantizeLinear", [value], [a, scale, zero]))
        w = net.constant(net.rng.integers(-127, 128, (depth, columns)).astype(np.int8))
        sums = net.node("MatMulInteger", a, w, zero, net.constant(np.int8(0)))
        scales = net.node("Mul", scale, net.constant(np.float32(0.002)))
        bias = net.constant(net.rng.standard_normal(columns).astype(np.float32))
        real = net.node("Mul", net.node("Cast", sums, to=TensorProto.FLOAT), scales)
        value, depth = net.node("Relu", net.node("Add", real, bias)), columns
    return net.model(shape, value)


def half_block(rows: int, depth: int) -> onnx.ModelProto:
    """Two products of f16 beside what they are added to, and a normalisation."""
    net, shape = Network(rows), (rows, depth)

    def weight(*extents: int) -> str:
        return net.constant((net.rng.standard_normal(extents) / depth**0.5).astype(np.float16))

    wide = net.node("Add", net.node("MatMul", "x", weight(depth, 4 * depth)), weight(4 * depth))
    narrow = net.node("MatMul", net.node("Tanh", wide), weight(4 * depth, depth))
    summed = net.node("Add", narrow, "x")
    model = net.model(shape, net.node("LayerNormalization", summed, weight(depth)))
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = TensorProto.FLOAT16
    return model


def counted(size: int) -> onnx.ModelProto:
    """The numbers of a vector that are above 0, which only a run tells, each times two."""
    return parser.parse_model(
        f"""<ir_version: 10, opset_import: ["": 21]> counted (float[{size}] x) => (float[n] y) {{
          zero = Constant<value_float=0.0>()
          above = Greater(x, zero)
          kept = Compress<axis=0>(x, above)
          y = Add(kept, kept)
        }}"""
    )
