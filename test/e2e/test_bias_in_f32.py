"""A node that adds a bias to sums of products of 16-bit floats rounds once, with the bias."""

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import rcompiler

KINDS = {
    "f16": (TensorProto.FLOAT16, np.dtype(np.float16)),
    "bf16": (TensorProto.BFLOAT16, np.dtype(ml_dtypes.bfloat16)),
}
CASES = {
    # op, shapes of the operands, the bias last, and attributes
    "convolution": ("Conv", [(1, 8, 9, 7), (16, 8, 3, 3), (16,)], {"pads": [1, 1, 1, 1]}),
    "grouped": ("Conv", [(1, 8, 9, 7), (16, 4, 3, 3), (16,)], {"group": 2}),
    "depthwise": ("Conv", [(1, 8, 9, 7), (8, 1, 3, 3), (8,)], {"group": 8}),
    "transposed": ("ConvTranspose", [(1, 8, 5, 4), (8, 6, 3, 3), (6,)], {"strides": [2, 2]}),
    "product": ("Gemm", [(9, 33), (33, 20), (20,)], {}),
    "scaled": ("Gemm", [(9, 33), (20, 33), (9, 1)], {"alpha": 0.3, "beta": 0.7, "transB": 1}),
    "deformed": ("DeformConv", [(1, 4, 6, 6), (6, 4, 3, 3), (1, 18, 4, 4), (6,)], {}),
}


def model(name, kind):
    op, shapes, attributes = CASES[name]
    inputs = [helper.make_tensor_value_info(f"x{i}", kind, shape) for i, shape in enumerate(shapes)]
    output = helper.make_tensor_value_info("y", kind, None)
    node = helper.make_node(op, [value.name for value in inputs], ["y"], **attributes)
    graph = helper.make_graph([node], "g", inputs, [output])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)


@pytest.mark.parametrize("target", ["cpu", "cpu:x86-64", "cuda:emulated"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CASES)
def test_a_bias_is_added_before_it_is_rounded(name, kind, target):
    """A bias of about 10 times what the products sum up to: rounded before, a third of the elements
    were one unit in the last place off. Sums of f32 leave one in a hundred at the most."""
    onnx_type, dtype = KINDS[kind]
    rng = np.random.default_rng(5)
    feeds = {f"x{i}": rng.standard_normal(shape) for i, shape in enumerate(CASES[name][1])}
    if name == "deformed":
        feeds["x2"] = rng.integers(-1, 2, feeds["x2"].shape)  # whole pixels, which nothing rounds
    feeds[f"x{len(feeds) - 1}"] *= 10
    feeds = {name: array.astype(dtype) for name, array in feeds.items()}

    [found] = rcompiler.compile_onnx(model(name, onnx_type), target=target, cache=False)(**feeds)
    reference = ReferenceEvaluator(model(name, TensorProto.DOUBLE))
    [exact] = reference.run(None, {name: a.astype(np.float64) for name, a in feeds.items()})

    assert found.dtype == dtype
    assert np.mean(found != exact.astype(dtype)) <= 0.01
