"""ArgMax and ArgMin of much data: in parts, so that most of it is read once; as right as in one."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

import rcompiler
from rcompiler.frontend.ops import extreme_places


def model(op, x, axis, last, keep=0):
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    node = helper.make_node(op, ["x"], ["y"], axis=axis, keepdims=keep, select_last_index=last)
    x_port = helper.make_tensor_value_info("x", kind, x.shape)
    y_port = helper.make_tensor_value_info("y", TensorProto.INT64, None)
    graph = helper.make_graph([node], "g", [x_port], [y_port])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def places(op, x, axis, last, keep):
    """As ONNX defines them; a NaN is the extreme."""
    extreme = (np.max if op == "ArgMax" else np.min)(x, axis=axis, keepdims=True)
    same = (x == extreme) | (x != x)
    if last:
        found = x.shape[axis] - 1 - np.flip(same, axis).argmax(axis)
    else:
        found = same.argmax(axis)
    return np.expand_dims(found, axis) if keep else found


def drawn(shape, dtype, seed):
    """Few values, so that parts hold equal extremes; floats with NaNs in some and zeros of both
    signs."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0 if np.dtype(dtype).kind == "u" else -3, 4, shape).astype(dtype)
    if np.dtype(dtype).kind == "f":
        x = np.where(x == 0, np.copysign(x, rng.integers(0, 2, shape) - 0.5), x).astype(dtype)
        if seed % 2:
            x[rng.random(shape) < 0.05] = np.nan
    return x


@given(
    op=st.sampled_from(["ArgMax", "ArgMin"]),
    shape=st.lists(st.integers(1, 6), min_size=0, max_size=3),
    count=st.integers(4, 8),
    size=st.integers(4, 9),
    dtype=st.sampled_from([np.float32, np.float16, np.float64, np.int64, np.int8, np.uint8]),
    last=st.integers(0, 1),
    keep=st.integers(0, 1),
    data=st.data(),
)
@settings(max_examples=40, deadline=None)
def test_any_axis_in_parts(op, shape, count, size, dtype, last, keep, data):
    axis = data.draw(st.integers(0, len(shape)))
    shape.insert(axis, count * size)
    x = drawn(tuple(shape), dtype, data.draw(st.integers(0, 99)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(extreme_places, "_LARGE", 1)
        patch.setattr(extreme_places, "_LONG", 1)
        compiled = rcompiler.compile_onnx(model(op, x, axis, last, keep), cache=False, eus=1)
    assert "tensor.extract" in compiled.stage("linalg")  # the one part
    np.testing.assert_array_equal(compiled(x)[0], places(op, x, axis, last, keep))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("target", ["cpu", "cuda:emulated"])
def test_much_data_is_read_once(axis, target):
    shape = (512, 256) if axis == 0 else (256, 512)
    x = drawn(shape, np.float32, 1)
    compiled = rcompiler.compile_onnx(model("ArgMax", x, axis, 0), target=target, cache=False)
    parts = "16x32" if axis == 0 else "256x16x32"
    read = re.findall(rf"linalg.generic.* ins\(%\S+ : tensor<{parts}", compiled.stage("linalg"))
    assert len(read) == 1
    np.testing.assert_array_equal(compiled(x)[0], places("ArgMax", x, axis, 0, 0))


@pytest.mark.parametrize(
    "n, count",
    [(4194304, 2048), (50257, 29), (128256, 334), (131071, 0), (2 * 65537, 0), (4 * 65537, 4)],
)
def test_parts_are_as_many_as_a_divisor_near_the_root(n, count):
    """131071 and 65537 are primes: without divisors an axis is read twice, and right."""
    assert extreme_places._parts(n) == count


@pytest.mark.parametrize("last", [0, 1])
def test_an_axis_without_parts(last):
    x = drawn((131101,), np.float32, 0)  # a prime
    [got] = rcompiler.compile_onnx(model("ArgMin", x, 0, last), cache=False)(x)
    np.testing.assert_array_equal(got, places("ArgMin", x, 0, last, 0))
