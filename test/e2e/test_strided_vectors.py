"""Vectors of elements that lie some steps apart: read as whole vectors, never beyond the last."""

import numpy as np
import onnx
import pytest
from onnx import helper

import rcompiler

RNG = np.random.default_rng(0)
OPSET = [helper.make_opsetid("", 17)]


def model(op, x, *constants, **attributes):
    names = [f"c{k}" for k in range(len(constants))]
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    graph = helper.make_graph(
        [helper.make_node(op, ["x", *names], ["y"], **attributes)], "g",
        [helper.make_tensor_value_info("x", kind, x.shape)],
        [helper.make_tensor_value_info("y", kind, None)],
        [onnx.numpy_helper.from_array(c, n) for c, n in zip(constants, names, strict=True)],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=OPSET, ir_version=8)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "int64", "bool"])
@pytest.mark.parametrize("step", [2, 3, 4, 5])
@pytest.mark.parametrize("spare", [1, 0])
def test_every_few_elements(step, dtype, spare):
    """Without spare ones, the last element is the last of the tensor."""
    x = (RNG.standard_normal((3, 61 * step + spare * step - step + 1)) * 50).astype(dtype)
    at = (np.array(c, np.int64) for c in ([0], [x.shape[1]], [1], [step]))
    [got] = rcompiler.compile_onnx(model("Slice", x, *at))(x)
    np.testing.assert_array_equal(got, x[:, ::step])


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
@pytest.mark.parametrize("stride", [2, 3, 4, 5])
@pytest.mark.parametrize("pads", [0, 1])
def test_maxima_of_windows(stride, pads, dtype):
    x = (RNG.standard_normal((1, 5, 3 + 4 * stride, 3 + 40 * stride)) * 50).astype(dtype)
    if dtype == "float32":
        x[0, 2, 7, 20:25] = np.nan, np.inf, -np.inf, -0.0, 0.0
    made = model("MaxPool", x, kernel_shape=[3, 3], strides=[stride] * 2, pads=[pads] * 4)
    [got] = rcompiler.compile_onnx(made)(x)
    low = -np.inf if x.dtype.kind == "f" else -128
    wide = np.pad(x, [(0, 0)] * 2 + [(pads, pads)] * 2, constant_values=low)
    taps = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), (2, 3))
    want = taps.max((-2, -1))[:, :, ::stride, ::stride]
    np.testing.assert_array_equal(got, want)
