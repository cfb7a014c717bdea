"""Small quantised networks, as onnxruntime's quantiser writes them."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Network:
    """Nodes between QuantizeLinear and DequantizeLinear, as onnxruntime's quantiser writes them."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def constant(self, array: object) -> str:
        name = f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def node(self, op: str, *inputs: str, **attributes: object) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        return name

    def quantised(self, value: str, scale: float, zero: int) -> str:
        numbers = self.constant(np.float32(scale)), self.constant(np.uint8(zero))
        return self.node("DequantizeLinear", self.node("QuantizeLinear", value, *numbers), *numbers)

    def filter(self, *shape: int) -> str:
        """Weights of bytes with a scale for each of the first axis."""
        w = self.rng.integers(-127, 128, shape).astype(np.int8)
        scales = self.rng.uniform(0.001, 0.002, shape[0]).astype(np.float32)
        numbers = (
            self.constant(w),
            self.constant(scales),
            self.constant(np.zeros(shape[0], np.int8)),
        )
        return self.node("DequantizeLinear", *numbers, axis=0)

    def conv(self, value: str, ci: int, co: int, k: int, **attributes: object) -> str:
        bias = self.constant(self.rng.standard_normal(co).astype(np.float32))
        w = self.filter(co, ci, k, k)
        made = self.node("Conv", value, w, bias, pads=[k // 2] * 4, **attributes)
        return self.quantised(self.node("Relu", made), 0.05, 0)

    def model(self, shape: tuple[int, ...], last: str) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes,
            "network",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info(last, TensorProto.FLOAT, None)],
            self.weights,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def convolutions(channels: int, size: int) -> tuple[onnx.ModelProto, tuple[int, ...]]:
    """A stem of three channels, a residual block, a depthwise convolution, a pool, a product."""
    net, shape = Network(channels), (1, 3, size, size)
    stem = net.conv(net.quantised("x", 0.02, 128), 3, channels, 3, strides=[2, 2])
    one = net.conv(stem, channels, channels, 1)
    three = net.conv(one, channels, channels, 3)
    summed = net.quantised(net.node("Add", three, stem), 0.07, 0)
    w = net.filter(channels, 1, 3, 3)
    deep = net.node("Conv", summed, w, group=channels, pads=[1] * 4)
    deep = net.quantised(net.node("HardSwish", net.quantised(deep, 0.03, 90)), 0.04, 10)
    deep = net.quantised(net.node("MaxPool", deep, kernel_shape=[2, 2]), 0.04, 10)
    pooled = net.quantised(net.node("GlobalAveragePool", deep), 0.02, 5)
    flat = net.node("Flatten", pooled)
    return net.model(shape, net.node("Gemm", flat, net.filter(40, channels), transB=1)), shape


def products(rows: int, depth: int) -> tuple[onnx.ModelProto, tuple[int, ...]]:
    net, shape = Network(rows), (rows, depth)
    value = net.quantised("x", 0.02, 121)
    for columns in (96, 64):
        w = net.rng.integers(-127, 128, (depth, columns)).astype(np.int8)
        numbers = (net.constant(w), net.constant(np.float32(0.002)), net.constant(np.int8(0)))
        made = net.node("MatMul", value, net.node("DequantizeLinear", *numbers))
        value, depth = net.quantised(net.node("Tanh", made), 0.008, 128), columns
    return net.model(shape, value), shape
