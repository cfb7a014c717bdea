"""Axes that become one: right, also where nothing is gained, and with equal bits for any tile."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.backend.test.loader import load_model_tests

import rcompiler
from rcompiler.passes import rtask_fuse_axes
from rcompiler.support.random_inputs import random_inputs
from rcompiler.tools import models
from rcompiler.tools._reference import compare, reference

NODE = helper.make_node
SHAPE = (5, 7, 6, 3)
AXES = numpy_helper.from_array(np.array([2, 3]), "axes")
ROW = numpy_helper.from_array(np.arange(5, dtype=np.float32).reshape(5, 1, 1, 1), "row")
WEIGHTS = numpy_helper.from_array(np.ones((3, 4), np.float32) / 3, "w")
CASES = {
    "chain": ([NODE("Relu", ["x"], ["a"]), NODE("Mul", ["a", "x"], ["y"])], SHAPE),
    "broadcast": ([NODE("Add", ["x", "row"], ["y"])], SHAPE),
    "sum of pixels": ([NODE("ReduceSum", ["x", "axes"], ["y"], keepdims=0)], SHAPE[:2]),
    "softmax": ([NODE("Softmax", ["x"], ["y"], axis=-1)], SHAPE),
    "transpose": ([NODE("Transpose", ["x"], ["y"], perm=[2, 3, 0, 1])], (6, 3, 5, 7)),
    "rows times matrix": ([NODE("MatMul", ["x", "w"], ["y"])], (5, 7, 6, 4)),
    "normalised": (
        [NODE("ReduceMean", ["x"], ["m"], axes=[2, 3]), NODE("Sub", ["x", "m"], ["y"])],
        SHAPE,
    ),
}


def model(name):
    nodes, shape = CASES[name]
    used = {i for node in nodes for i in node.input}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        initializer=[w for w in (AXES, ROW, WEIGHTS) if w.name in used],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture
def always(monkeypatch):
    """Axes become one wherever they can."""
    monkeypatch.setattr(rtask_fuse_axes, "_LEAST_GAIN", 0.0)


@pytest.mark.parametrize("name", CASES)
def test_results_are_right(name, always):
    proto = model(name)
    found = rcompiler.compile_onnx(proto, eus=2, cache=False)
    assert "collapse_shape" in found.stage("rtask")
    x = {"x": np.random.default_rng(4).standard_normal(SHAPE).astype(np.float32)}
    [got], [expected] = found(**x), reference(proto, x)[1]
    assert compare(got, expected).right
    found.close()


NETWORKS = {
    "unet": {"image": 16, "width": 8, "depth": 1},
    "tiny_llama": {
        "sequence": 6,
        "layers": 1,
        "hidden": 32,
        "heads": 4,
        "kv_heads": 2,
        "inner": 48,
    },
    "bert_base": {"layers": 1, "sequence": 12},
    "lstm2": {"sequence": 3, "features": 24, "hidden": 32, "layers": 1},
}


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_compute_the_same(name, monkeypatch):
    proto = models.build(name, **NETWORKS[name])
    outputs = []
    for gain in (np.inf, 0.0):
        monkeypatch.setattr(rtask_fuse_axes, "_LEAST_GAIN", gain)
        run = rcompiler.compile_onnx(proto, eus=2, cache=False)
        outputs.append(run(**random_inputs(run.inputs)))
        run.close()
    for apart, fused in zip(*outputs, strict=True):
        np.testing.assert_allclose(fused, apart, rtol=1e-4, atol=1e-5)


def test_short_rows_are_worth_it_and_the_report_shows_it():
    nodes = [NODE("Relu", ["x"], ["y"])]
    shape = (64, 64, 3)
    ports = [[helper.make_tensor_value_info(n, TensorProto.FLOAT, shape)] for n in "xy"]
    graph = helper.make_graph(nodes, "g", *ports)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    run = rcompiler.compile_onnx(proto, cache=False)
    [operator] = run.report().operators
    assert len(operator.tile) == 1
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    assert np.array_equal(run(x)[0], np.maximum(x, 0))


@pytest.mark.parametrize(
    "name", ["test_matmulinteger", "test_attention_4d_attn_mask_causal_bf16"], ids=str
)
def test_reshapes_of_constants_are_folded(name):
    """Scalars in the shape of a tensor of one element; bf16 numbers whose axes are fused."""
    [case] = [c for c in load_model_tests(kind="node") if c.name == name]
    inputs, outputs = case.data_sets[0]
    found = rcompiler.compile_onnx(case.model, cache=False)(*inputs)
    for got, wanted in zip(found, outputs, strict=True):
        left, right = (np.asarray(x).astype(np.float64) for x in (got, wanted))
        np.testing.assert_allclose(left, right, rtol=2e-2, atol=2e-2)
