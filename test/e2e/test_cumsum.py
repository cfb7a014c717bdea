"""CumSum and CumProd: lines along every axis, whole and in parts, with all types and both flags."""

import numpy as np
import onnx
import onnx.reference
import pytest
from onnx import helper

import rcompiler

RNG = np.random.default_rng(0)
OPSETS = {"CumSum": 14, "CumProd": 26}


def model(op, x, axis, **attributes):
    made = helper.make_node(op, ["x", "axis"], ["y"], **attributes)
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    graph = helper.make_graph(
        [made], "g",
        [helper.make_tensor_value_info("x", kind, x.shape)],
        [helper.make_tensor_value_info("y", kind, None)],
        [onnx.numpy_helper.from_array(np.array(axis, np.int64), "axis")],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", OPSETS[op])]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def expected(x, axis, exclusive=0, reverse=0):
    """In f64, or in the integers' own arithmetic, which wraps."""
    wide = x.astype(np.float64) if x.dtype.kind == "f" else x
    wide = np.flip(wide, axis) if reverse else wide
    total = np.cumsum(wide, axis, dtype=wide.dtype)
    if exclusive:
        total = np.roll(total, 1, axis)
        total[(slice(None),) * axis + (0,)] = 0
    return np.flip(total, axis) if reverse else total


@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((7,), 0), ((300,), 0), ((4099,), 0),  # parts that fill the line, and a prime number
        ((40, 77), 0), ((131, 33), 0), ((5, 200), 1), ((3, 130, 19), 1), ((2, 3, 64, 5), 2),
        ((6, 2, 1100), 1), ((1030, 1, 9), 2),
    ],
)  # fmt: skip
def test_every_axis(shape, axis, reverse, exclusive):
    flags = {"exclusive": exclusive, "reverse": reverse}
    x = RNG.standard_normal(shape).astype(np.float32)
    [got] = rcompiler.compile_onnx(model("CumSum", x, axis, **flags))(x)
    np.testing.assert_allclose(got, expected(x, axis, **flags), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float64", "float16", "int32", "int64", "uint32", "uint64"])
@pytest.mark.parametrize(("shape", "axis"), [((150, 45), 0), ((45, 150), 1)])
def test_types(shape, axis, dtype):
    x = (RNG.standard_normal(shape) * 9).astype(dtype)
    [got] = rcompiler.compile_onnx(model("CumSum", x, axis))(x)
    want = expected(x, axis)
    assert got.dtype == x.dtype
    if dtype == "float16":  # sums are kept in f32
        np.testing.assert_allclose(got, want, rtol=2e-3, atol=1e-2)
    elif dtype == "float64":
        np.testing.assert_allclose(got, want, rtol=1e-13, atol=1e-12)
    else:
        np.testing.assert_array_equal(got, want)


def test_a_line_that_is_not_cut_adds_in_the_order_of_the_reference():
    x = RNG.standard_normal((90, 50)).astype(np.float32)
    made = model("CumSum", x, 0)
    [want] = onnx.reference.ReferenceEvaluator(made).run(None, {"x": x})
    np.testing.assert_array_equal(rcompiler.compile_onnx(made)(x)[0], want)


@pytest.mark.parametrize(("shape", "axis"), [((1 << 15,), 0), ((300, 200), 0), ((40, 50, 60), 1)])
def test_equal_bits_on_any_number_of_units_and_with_any_policy(shape, axis):
    x = RNG.standard_normal(shape).astype(np.float32)
    made = model("CumSum", x, axis)
    [first] = rcompiler.compile_onnx(made, eus=1)(x)
    for eus, policy in ((2, "rammer"), (5, "list"), (3, "wave")):
        [other] = rcompiler.compile_onnx(made, eus=eus, policy=policy)(x)
        np.testing.assert_array_equal(first, other)


@pytest.mark.parametrize("axis", [0, 1])
def test_what_is_no_number_stays_in_its_line_and_behind_it(axis):
    x = np.ones((70, 66), np.float32)
    x[30, 20], x[5, 40], x[6, 40] = np.nan, np.inf, -np.inf
    [got] = rcompiler.compile_onnx(model("CumSum", x, axis))(x)
    np.testing.assert_array_equal(got, expected(x, axis).astype(np.float32))


def test_products():
    x = RNG.uniform(0.9, 1.1, (200, 20)).astype(np.float32)
    [got] = rcompiler.compile_onnx(model("CumProd", x, 0))(x)
    np.testing.assert_allclose(got, np.cumprod(x.astype(np.float64), 0), rtol=1e-4)
