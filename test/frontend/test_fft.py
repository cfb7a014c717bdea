"""Fast transforms against numpy, for lengths with every radix, and lengths that have none."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import rcompiler
from rcompiler.frontend.fft import factors


def test_factors():
    assert factors(10) == [2, 5]
    assert factors(48) == [4, 4, 3]
    assert factors(30) == [2, 3, 5]
    assert factors(14) is None
    assert factors(1) is None


@pytest.mark.parametrize("length", [2, 3, 4, 5, 10, 24, 30, 7])
@pytest.mark.parametrize("inverse", [0, 1])
def test_transform_equals_numpy(length, inverse):
    shape = [2, length, 3, 2]
    node = helper.make_node("DFT", ["x", "", "axis"], ["y"], inverse=inverse)
    graph = helper.make_graph(
        [node],
        "dft",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(np.array(1, np.int64), "axis")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    x = np.random.default_rng(length).standard_normal(shape).astype(np.float32)
    [got] = rcompiler.compile_onnx(model, cache=False, eus=1)(x)
    wanted = (np.fft.ifft if inverse else np.fft.fft)(x[..., 0] + 1j * x[..., 1], axis=1)
    np.testing.assert_allclose(got[..., 0] + 1j * got[..., 1], wanted, rtol=1e-5, atol=1e-5)
