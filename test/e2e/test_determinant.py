"""Det: of single matrices and of batches, against numpy; rows are subtracted as vectors."""

import numpy as np
import pytest
from onnx import TensorProto, helper

import rcompiler


def model(shape):
    ports = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    outs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph([helper.make_node("Det", ["x"], ["y"])], "g", ports, outs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)


@pytest.mark.parametrize(
    "shape", [(1, 1), (2, 2), (7, 3, 3), (40, 8, 8), (3, 17, 17), (2, 2, 33, 33), (100, 100)]
)
@pytest.mark.parametrize("eus", [1, 2])
def test_against_numpy(shape, eus):
    x = np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)
    x /= np.sqrt(shape[-1])
    [got] = rcompiler.compile_onnx(model(shape), eus=eus, cache=False)(x)
    expected = np.linalg.det(x.astype(np.float64))
    scale = np.abs(expected).max()
    np.testing.assert_allclose(got, expected, rtol=1e-3, atol=2e-5 * scale)


def test_pivots_and_singular_matrices():
    x = np.array([[[0, 1], [1, 0]], [[1, 2], [2, 4]], [[0, 0], [0, 3]]], np.float32)
    [got] = rcompiler.compile_onnx(model(x.shape), eus=1, cache=False)(x)
    np.testing.assert_array_equal(got, [-1, 0, 0])


def test_rows_are_subtracted_as_vectors():
    compiled = rcompiler.compile_onnx(model((64, 64)), target="cpu:v3", eus=1, cache=False)
    assert "optimised-loops" in compiled.stage("llvm")
    assert "vsubps" in compiled.stage("asm")
