"""A product whose elements are divided by one scale for each block of them."""

import numpy as np
import pytest
from onnx import TensorProto, helper

import rcompiler

F = TensorProto.FLOAT


@pytest.mark.parametrize("target", ["cpu", "cuda:emulated", "cuda:emulated-sm_90a"])
def test_a_product_with_a_scale_for_each_two_rows(target: str):
    """An epilogue reads its scales at a quotient: where the product is looked for, there is no
    thread yet whose coordinates could be divided."""
    nodes = [
        helper.make_node("MatMul", ["a", "b"], ["c"]),
        helper.make_node("QuantizeLinear", ["c", "s", "z"], ["q"], axis=0, block_size=2),
    ]
    shapes = {"a": (5, 8), "b": (8, 6), "s": (3, 6)}
    inputs = [helper.make_tensor_value_info(n, F, shape) for n, shape in shapes.items()]
    zero = helper.make_tensor("z", TensorProto.INT8, (3, 6), [0] * 18)
    output = helper.make_tensor_value_info("q", TensorProto.INT8, (5, 6))
    graph = helper.make_graph(nodes, "g", inputs, [output], [zero])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, shapes[n]).astype(np.float32) for n in "ab")
    s = np.exp2(rng.integers(-2, 2, shapes["s"])).astype(np.float32)  # quotients are exact
    [found] = rcompiler.compile_onnx(model, target=target)(a=a, b=b, s=s)
    scales = np.repeat(s, 2, axis=0)[:5]
    np.testing.assert_array_equal(found, np.clip(np.round(a @ b / scales), -128, 127))
