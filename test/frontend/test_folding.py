"""Constants that are computed while compiling: as exactly as they would be at run time."""

import math

import numpy as np
import pytest
from onnx import helper, numpy_helper

import rcompiler
from rcompiler.frontend import dtypes
from rcompiler.frontend.evaluate import evaluate
from rcompiler.frontend.value import Value


def constant(op, *arrays, opset=22, count=1, kind=None, **attributes):
    """The results of a node on constants, by a model without inputs. kind: their type where it is
    not that of the first operand."""
    given = [numpy_helper.from_array(a, f"i{i}") for i, a in enumerate(arrays)]
    kind = helper.np_dtype_to_tensor_dtype(kind or arrays[0].dtype)
    names = [f"y{i}" for i in range(count)]
    graph = helper.make_graph(
        [helper.make_node(op, [t.name for t in given], names, **attributes)],
        "g",
        [],
        [helper.make_tensor_value_info(n, kind, None) for n in names],
        given,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    return rcompiler.compile_onnx(model, cache=False)()


@pytest.mark.parametrize("op", ["Erf", "Gelu"])
def test_functions_of_f64_are_of_f64(op):
    x = np.array([0.2413116554603949, -0.7639528, 1.5])
    erf = np.array([math.erf(v) for v in (x if op == "Erf" else x / math.sqrt(2))])
    right = erf if op == "Erf" else x * (1 + erf) / 2
    np.testing.assert_allclose(constant(op, x)[0], right, rtol=1e-14)


def test_recurrences_have_their_own_activations():
    """h = z(...): with Relu for Tanh the state of one step is the sum, where that is positive."""
    x, w, r = np.ones((1, 1, 2), np.float32), np.ones((1, 1, 2), np.float32), np.zeros((1, 1, 1))
    y, h = constant("RNN", x, w, r.astype(np.float32), count=2, hidden_size=1,
                    activations=["Relu"])  # fmt: skip
    assert y.reshape(()) == h.reshape(()) == 2


def test_lp_normalisation_takes_absolute_values():
    x = np.float32([[1, -3], [2, 2]])
    (y,) = constant("LpNormalization", x, p=1)
    np.testing.assert_allclose(y, [[0.25, -0.75], [0.5, 0.5]], rtol=1e-6)


def test_a_loss_of_f16_does_not_underflow():
    scores = np.float16([[20, -10, 0]])
    y = constant("SoftmaxCrossEntropyLoss", scores, np.array([1]))[0]
    assert y == 30


@pytest.mark.parametrize("kind", ["float16", "float64", "uint8"])
@pytest.mark.parametrize("axis", [-1, 0, -2])
def test_a_one_hot_holds_its_values_as_they_are(axis, kind):
    """off + (on - off) of f16 is -0.4023 here, and of an infinity no number."""
    values = {"float16": [1.484, -0.4028], "float64": [np.inf, 1e300], "uint8": [3, 1]}[kind]
    values, at = np.array(values, kind), np.array([[1, -1, 5], [0, -3, -4]])
    right = np.where(np.arange(3) == np.where(at < 0, at + 3, at)[..., None], values[1], values[0])
    (y,) = constant("OneHot", at, np.array(3), values, kind=values.dtype, axis=axis)
    np.testing.assert_array_equal(y, np.moveaxis(right, -1, axis), strict=True)


@pytest.mark.parametrize("axis", [0, 1])
def test_elements_are_gathered_of_a_long_column(axis):
    x = np.arange(70, dtype=np.float32).reshape(-1, 1)
    at = np.where(np.arange(70) % 3, 0, -1).reshape(-1, 1)
    if axis:
        x, at = x.T, at.T
    (y,) = constant("GatherElements", x, at, axis=axis)
    np.testing.assert_array_equal(y, np.where(at, 69, 0))


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
@pytest.mark.parametrize("shape", [(4096, 2), (4096,)])
def test_narrow_floats_are_added_up_in_wide_ones(shape, kind):
    """As at run time. In bf16, 256 + 1 is 256."""
    ones, axes = np.ones(shape, dtypes.numpy_dtype(kind)), np.array([0])
    assert (constant("ReduceSum", ones, axes)[0] == 4096).all()
    assert (constant("ReduceMean", ones, axes)[0] == 1).all()
    sums = constant("CumSum", ones, np.array(0))[0]
    assert (sums[-1] == 4096).all() and (sums[256] == ones[0] * 257).all()


def test_a_product_of_f16_may_be_larger_on_its_way():
    x = np.float16([[2, 0.5]] * 20 + [[0.5, 2]] * 20)
    assert (constant("ReduceProd", x, np.array([0]))[0] == 1).all()


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16"])
@pytest.mark.parametrize("least", [np.float32(1e-9), np.float16(1e-4)])
def test_large_quotients_saturate(least, kind):
    """As at run time: 60000 / 1e-4 is beyond f16, and with 1e-9 beyond 32 bits."""
    x, bounds = np.array([60000, -60000, 0], least.dtype), np.iinfo(kind)
    (y,) = constant("QuantizeLinear", x, least, np.array(0, kind), kind=np.dtype(kind))
    np.testing.assert_array_equal(y, np.array([bounds.max, bounds.min, 0], kind), strict=True)


def test_shapes_that_are_computed_are_known():
    """Of a TopK, a Gather and a product: the length of a result."""
    sizes = np.array([3, 7, 5], np.int64)
    nodes = [
        helper.make_node("TopK", ["sizes", "one"], ["largest", "at"]),
        helper.make_node("Gather", ["sizes", "at"], ["again"]),
        helper.make_node("Expand", ["x", "again"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", 1, [1])],
        [helper.make_tensor_value_info("y", 1, None)],
        [numpy_helper.from_array(sizes, "sizes"),
         numpy_helper.from_array(np.array([1], np.int64), "one")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
    (y,) = rcompiler.compile_onnx(model, cache=False)(np.float32([2]))
    assert y.tolist() == [2.0] * 7


@pytest.mark.parametrize("kind", ["int4", "uint4", "int2", "uint2", "int8"])
def test_numbers_that_a_narrow_integer_has_not_are_converted_at_run_time(kind):
    """Releases of ml_dtypes make different numbers of them: what is folded would be one of them."""
    node = helper.make_node("Cast", ["x"], ["y"], to=dtypes.to_onnx(kind))
    least, most = dtypes.limits(kind)
    for number, known in ((most, True), (least, True), (most + 1, False), (least - 1, False)):
        x = Value("", (1,), "float32", const=np.array([number], np.float32))
        found = evaluate(node, [x], {"": 25})
        assert (found is not None) == known
        assert not known or int(found[0][0]) == number
