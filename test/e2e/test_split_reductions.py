"""Long reductions in parts: right, in parts where it pays, with equal bits on any number of EUs."""

import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import rcompiler
from rcompiler.device.cpu import detect_cpu
from rcompiler.passes import rtask_split_reductions

WIDE = replace(detect_cpu(), name="wide", eus=64)
ARG = ("ArgMax", "ArgMin")
SUMS = ("ReduceSum", "ReduceMean", "ReduceSumSquare", "ReduceL1", "ReduceL2", "ReduceLogSum")
EXTREMES = ("ReduceMax", "ReduceMin")


def model(op, x, axes, **attributes):
    """One reduction of an array like `x`; the ONNX model."""
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    inputs, weights = ["x"], []
    if op in ARG:
        attributes["axis"] = axes[0]
    elif axes is not None:
        inputs.append("axes")
        weights.append(numpy_helper.from_array(np.array(axes, np.int64), "axes"))
    node = helper.make_node(op, inputs, ["y"], **attributes)
    ports = [helper.make_tensor_value_info("x", kind, x.shape)]
    out = [helper.make_tensor_value_info("y", TensorProto.INT64 if op in ARG else kind, None)]
    graph = helper.make_graph([node], "g", ports, out, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def check(proto, x, **options):
    """Run it, against the definition in f64."""
    [got] = rcompiler.compile_onnx(proto, cache=False, **options)(x)
    wide = x.astype(np.float64) if x.dtype == np.float32 else x
    [node] = proto.graph.node
    if node.op_type in ARG or x.dtype != np.float32:
        wide = x
    exact = helper.make_model(proto.graph, opset_imports=proto.opset_import, ir_version=9)
    [expected] = ReferenceEvaluator(exact).run(None, {"x": wide})
    assert got.shape == np.shape(expected)
    if node.op_type in (*ARG, *EXTREMES) or x.dtype != np.float32:
        np.testing.assert_array_equal(got, expected)
    else:
        np.testing.assert_allclose(got, expected, rtol=2e-6, atol=1e-6)
    return got


def values(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    if dtype == np.float32:
        return (rng.integers(1, 4096, shape) / 1024).astype(dtype)
    return rng.integers(-100, 100, shape).astype(dtype)


CASES = {
    "all axes": ("ReduceSum", (1024, 1024), None, np.float32),
    "rows": ("ReduceMean", (65536, 16), [0], np.float32),
    "columns of few rows": ("ReduceL2", (2, 1 << 19), [1], np.float32),
    "a middle axis": ("ReduceMax", (2, 65536, 8), [1], np.float32),
    "apart axes": ("ReduceSum", (24, 3, 1024), [0, 2], np.float32),
    "apart axes of a square": ("ReduceMax", (6, 5, 4, 40), [0, 3], np.float32),
    "bytes": ("ReduceMin", (1 << 20,), [0], np.int8),
    "words": ("ReduceSum", (1 << 19,), [0], np.int64),
    "first places": ("ArgMax", (1 << 20,), [0], np.float32),
    "first places of rows": ("ArgMin", (4, 1 << 18), [1], np.int32),
}


@pytest.mark.parametrize("name", CASES)
def test_a_wide_device_takes_two_steps_and_bits_do_not_depend_on_eus(name):
    op, shape, axes, dtype = CASES[name]
    x = values(shape, dtype)
    proto = model(op, x, axes, keepdims=0)
    text = rcompiler.compile_onnx(proto, device=WIDE, eus=2, cache=False).stage("rtask")
    assert text.count("rtask.operator") >= 2 * (2 if op in ARG else 1)
    found = [check(proto, x, device=WIDE, eus=eus) for eus in (1, 2, 5)]
    found.append(check(proto, x, device=WIDE, eus=2, policy="list"))
    for a, b in pairwise(found):
        np.testing.assert_array_equal(a, b)


def test_without_parts_it_is_one_operator(monkeypatch):
    monkeypatch.setattr(rtask_split_reductions, "parts_of", lambda *_: 1)
    x = values((1024, 1024), np.float32)
    run = rcompiler.compile_onnx(model("ReduceSum", x, None), device=WIDE, eus=2, cache=False)
    assert run.stage("rtask").count('"rtask.operator"') == 1


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("op", ARG)
def test_places_of_nans_ties_zeros_and_infinities(op, last):
    rows = [
        [1, 3, 3, 2], [np.nan, 1, np.nan, 5], [-0.0, 0.0, 0.0, -0.0], [-np.inf] * 4,
        [np.inf, 1, np.inf, 1], [2, np.nan, 1, 1],
    ]  # fmt: skip
    x = np.tile(np.array(rows, np.float32), (1, 9))[:, :33]
    proto = model(op, x, [1], keepdims=0, select_last_index=last)
    [got] = rcompiler.compile_onnx(proto, cache=False)(x)
    extreme = (np.max if op == "ArgMax" else np.min)(x, axis=1, keepdims=True)
    same = (x == extreme) | np.isnan(x)
    first = same.argmax(1)
    expected = x.shape[1] - 1 - same[:, ::-1].argmax(1) if last else first
    np.testing.assert_array_equal(got, expected)


@given(
    op=st.sampled_from([*SUMS[:4], *EXTREMES, *ARG]),
    shape=st.lists(st.integers(1, 12), min_size=1, max_size=4),
    dtype=st.sampled_from([np.float32, np.int32, np.uint8, np.int64]),
    data=st.data(),
)
@settings(max_examples=25)
def test_any_reduction_in_any_number_of_parts(op, shape, dtype, data):
    """Whatever the model says of them: parts of every divisor of the outermost dim."""
    axes = data.draw(st.lists(st.integers(0, len(shape) - 1), min_size=1, unique=True))
    keep = data.draw(st.integers(0, 1))
    if op in ("ReduceMean", "ReduceSumSquare", "ReduceL1") and dtype == np.uint8:
        dtype = np.float32
    x = values(tuple(shape), dtype, seed=sum(shape))
    with pytest.MonkeyPatch.context() as patch:

        def largest_divisor(expr, axis, device):
            return max(
                d for d in range(1, expr.axes[axis].size + 1) if not expr.axes[axis].size % d
            )

        patch.setattr(rtask_split_reductions, "parts_of", largest_divisor)
        check(model(op, x, axes, keepdims=keep), x, eus=1)


@pytest.mark.parametrize("name", ["all axes", "first places of rows", "words"])
def test_on_an_emulated_gpu(name):
    op, shape, axes, dtype = CASES[name]
    small = tuple(n // 32 if n >= 1024 else n for n in shape)
    x = values(small, dtype)
    check(model(op, x, axes, keepdims=0), x, target="cuda:emulated")


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
def test_the_place_of_an_extreme_is_found_by_vectors(op):
    """Its row is compared with one number, which must not keep vectors from running along it."""
    graph = helper.make_graph(
        [helper.make_node(op, ["x"], ["y"], axis=1, keepdims=0)],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (5, 131))],
        [helper.make_tensor_value_info("y", TensorProto.INT64, (5,))],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    compiled = rcompiler.compile_onnx(proto, target="cpu:x86-64", eus=1)
    assert re.search(r"intr.smin.*\(vector<4xi32>", compiled.stage("llvm"))
    x = np.random.default_rng(3).integers(0, 9, (5, 131)).astype(np.float32)
    x[2, 100] = np.nan
    np.testing.assert_array_equal(
        compiled(x)[0], (np.argmax if op == "ArgMax" else np.argmin)(x, 1)
    )
