"""Odd graphs that the back end must carry through: nothing to compute, nothing to read, sharing."""

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper

import rcompiler

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def model(nodes, inputs, outputs, **constants):
    """A compiled model; inputs and outputs: name -> (type, shape)."""

    def infos(tensors):
        return [helper.make_tensor_value_info(n, t, s) for n, (t, s) in tensors.items()]

    weights = [
        helper.make_tensor(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape, a.ravel())
        for n, a in constants.items()
    ]
    graph = helper.make_graph(nodes, "g", infos(inputs), infos(outputs), weights)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    return rcompiler.compile_onnx(proto, eus=1, cache=False)


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)


X = np.arange(12, dtype=np.float32).reshape(3, 4) - 5


def test_an_output_that_is_an_input_a_constant_or_another_output():
    weight = np.float32([1, 2, 3])
    run = model(
        [node("Identity", "x", "a"), node("Identity", "w", "b"), node("Relu", "x", "c"),
         node("Identity", "c", "d"), node("Reshape", "c flat", "e")],
        {"x": (FLOAT, [3, 4])},
        {"a": (FLOAT, [3, 4]), "b": (FLOAT, [3]), "c": (FLOAT, [3, 4]), "d": (FLOAT, [3, 4]),
         "e": (FLOAT, [12])},
        w=weight, flat=np.array([12]),
    )  # fmt: skip
    a, b, c, d, e = run(X)
    relu = np.maximum(X, 0)
    for found, expected in zip((a, b, c, d, e), (X, weight, relu, relu, relu.ravel()), strict=True):
        np.testing.assert_array_equal(found, expected)
    assert len({array.ctypes.data for array in (a, b, c, d, e)}) == 5
    a[:] = 0  # the caller's own
    np.testing.assert_array_equal(run(X)[0], X)


def test_an_input_that_nobody_reads():
    run = model(
        [node("Relu", "x", "y")],
        {"unused": (FLOAT, [7]), "x": (FLOAT, [3, 4])},
        {"y": (FLOAT, [3, 4])},
    )
    np.testing.assert_array_equal(run(np.zeros(7, np.float32), X)[0], np.maximum(X, 0))


def test_tensors_without_elements():
    nothing = np.zeros((0, 4), np.float32)
    run = model(
        [node("Relu", "n", "y"), node("Concat", "n x", "z", axis=0),
         node("ReduceSum", "n axes", "s", keepdims=0)],
        {"n": (FLOAT, [0, 4]), "x": (FLOAT, [3, 4])},
        {"y": (FLOAT, [0, 4]), "z": (FLOAT, [3, 4]), "s": (FLOAT, [4])},
        axes=np.array([0]),
    )  # fmt: skip
    y, z, s = run(nothing, X)
    assert y.shape == (0, 4)
    np.testing.assert_array_equal(z, X)
    np.testing.assert_array_equal(s, np.zeros(4))


def test_nothing_at_all_to_compute():
    run = model([node("Relu", "n", "y")], {"n": (FLOAT, [2, 0])}, {"y": (FLOAT, [2, 0])})
    assert run(np.zeros((2, 0), np.float32))[0].shape == (2, 0)


def test_two_results_of_different_types():
    run = model(
        [node("TopK", "x k", "v i", axis=1)],
        {"x": (FLOAT, [3, 4])},
        {"v": (FLOAT, [3, 2]), "i": (INT64, [3, 2])},
        k=np.array([2]),
    )
    values, indices = run(X)
    np.testing.assert_array_equal(values, X[:, :1:-1])
    np.testing.assert_array_equal(indices, [[3, 2]] * 3)


@pytest.mark.parametrize("name", ["int4", "uint4"])
def test_the_unused_bits_of_a_4_bit_input_may_be_anything(name: str):
    raw = np.arange(256, dtype=np.uint8)
    x = raw.view(getattr(ml_dtypes, name))
    run = model(
        [node("Cast", "x", "y", to=TensorProto.INT32)],
        {"x": (getattr(TensorProto, name.upper()), [256])},
        {"y": (TensorProto.INT32, [256])},
    )
    expected = (raw & 15).astype(np.int32)
    expected = np.where(expected > 7, expected - 16, expected) if name == "int4" else expected
    np.testing.assert_array_equal(run(x)[0], expected)


def test_a_slice_that_is_reshaped_and_returned():
    run = model(
        [node("Slice", "x start end axes", "s"), node("Reshape", "s flat", "r"),
         node("Relu", "s", "y")],
        {"x": (FLOAT, [3, 4])},
        {"r": (FLOAT, [6]), "y": (FLOAT, [3, 2]), "s": (FLOAT, [3, 2])},
        start=np.array([1]), end=np.array([3]), axes=np.array([1]), flat=np.array([6]),
    )  # fmt: skip
    r, y, s = run(X)
    np.testing.assert_array_equal(s, X[:, 1:3])
    np.testing.assert_array_equal(r, X[:, 1:3].ravel())
    np.testing.assert_array_equal(y, np.maximum(X[:, 1:3], 0))


def test_two_pads_of_one_value():
    run = model(
        [node("Relu", "x", "c"), node("Pad", "c one", "p"), node("Pad", "c two", "q"),
         node("Neg", "c", "n")],
        {"x": (FLOAT, [3, 4])},
        {"p": (FLOAT, [5, 6]), "q": (FLOAT, [7, 8]), "n": (FLOAT, [3, 4])},
        one=np.array([1, 1, 1, 1]), two=np.array([2, 2, 2, 2]),
    )  # fmt: skip
    p, q, n = run(X)
    np.testing.assert_array_equal(p, np.pad(np.maximum(X, 0), 1))
    np.testing.assert_array_equal(q, np.pad(np.maximum(X, 0), 2))
    np.testing.assert_array_equal(n, -np.maximum(X, 0))


def test_a_padded_value_of_which_a_view_is_returned():
    """An output has bytes of its own: it cannot be the inside of the padded tensor."""
    rng = np.random.default_rng(4)
    w, r = (rng.standard_normal((1, 2, 2)).astype(np.float32) for _ in range(2))
    run = model(
        [node("RNN", "x w r", "y h", hidden_size=2), node("Pad", "h behind", "p")],
        {"x": (FLOAT, [1, 1, 2])},
        {"y": (FLOAT, [1, 1, 1, 2]), "p": (FLOAT, [2, 1, 2])},
        w=w, r=r, behind=np.array([0, 0, 0, 1, 0, 0]),
    )  # fmt: skip
    x = rng.standard_normal((1, 1, 2)).astype(np.float32)
    y, p = run(x)
    expected = np.tanh(x[0] @ w[0].T)
    np.testing.assert_allclose(y[0, 0], expected, rtol=1e-6)
    np.testing.assert_array_equal(p, [y[0, 0], np.zeros_like(expected)])


def test_a_long_chain():
    """Longer than one rOperator may nest."""
    chain = [node("Neg", f"v{k}", f"v{k + 1}") for k in range(150)]
    run = model(chain, {"v0": (FLOAT, [3, 4])}, {"v150": (FLOAT, [3, 4])})
    np.testing.assert_array_equal(run(X)[0], X)


def test_a_graph_with_very_many_paths():
    """v(k+1) = v(k) + v(k-1): as many paths from end to start as the Fibonacci number."""
    nodes = [node("Add", f"v{k} v{max(k - 1, 0)}", f"v{k + 1}") for k in range(60)]
    run = model(nodes, {"v0": (FLOAT, [4])}, {"v60": (FLOAT, [4])})
    a, b = np.float32(1), np.float32(1)
    for _ in range(60):
        a, b = b, np.float32(a + b)
    np.testing.assert_allclose(run(np.ones(4, np.float32))[0], b, rtol=1e-5)


def test_many_parts():
    """A concatenation of many small parts, some read twice, and what follows it."""
    nodes = [node("Concat", " ".join(["x", "n"] * 40), "c", axis=1), node("Relu", "c", "y")]
    nodes.insert(0, node("Neg", "x", "n"))
    run = model(nodes, {"x": (FLOAT, [3, 4])}, {"y": (FLOAT, [3, 320])})
    expected = np.maximum(np.concatenate([X, -X] * 40, 1), 0)
    np.testing.assert_array_equal(run(X)[0], expected)


def test_parts_of_a_concatenation_are_written_in_place():
    """Also through a reshape, and with the padding around what is concatenated."""
    nodes = [node("Neg", "x", "a"), node("Reshape", "a rows", "r"), node("Abs", "x", "b")]
    nodes += [node("Reshape", "b rows", "s"), node("Concat", "r s", "c", axis=0)]
    nodes += [node("Pad", "c around", "p"), node("Exp", "p", "y"), node("Sqrt", "b", "z")]
    run = model(
        nodes,
        {"x": (FLOAT, [2, 16])},
        {"y": (FLOAT, [8, 11]), "z": (FLOAT, [2, 16])},
        rows=np.array([4, 8]),
        around=np.array([0, 1, 0, 2]),
    )
    x = np.arange(32, dtype=np.float32).reshape(2, 16) / 8 - 2
    joined = np.concatenate([-x.reshape(4, 8), abs(x).reshape(4, 8)])
    y, z = run(x)
    np.testing.assert_allclose(y, np.exp(np.pad(joined, ((0, 0), (1, 2)))), rtol=1e-6)
    np.testing.assert_allclose(z, np.sqrt(abs(x)), rtol=1e-6)
    assert not [o.name for o in run.report().operators if "Concat" in o.name]


@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 3)])
@pytest.mark.parametrize("also", [False, True], ids=["alone", "read-twice"])
def test_a_scalar_operator_whose_result_is_spread(shape, also):
    nodes = [node("Tan", "x", "a"), node("Expand", "a shape", "y")]
    outputs = {"y": (FLOAT, shape)}
    if also:
        nodes.append(node("Floor", "a", "z"))
        outputs["z"] = (FLOAT, [])
    x = np.float32(0.7)
    run = model(nodes, {"x": (FLOAT, [])}, outputs, shape=np.array(shape))
    y, *rest = run(x)
    np.testing.assert_allclose(y, np.full(shape, np.tan(x)), rtol=1e-6)
    assert [z.item() for z in rest] == [0.0] * also


@pytest.mark.parametrize("shape", [(12,), (4, 3), (1, 4, 8, 4), (200, 300)])
def test_the_range_of_all_elements(shape):
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    run = model(
        [node("ReduceMax", "x", "high", keepdims=0), node("ReduceMin", "x", "low", keepdims=0),
         node("Sub", "high low", "span"), node("Div", "x span", "y")],
        {"x": (FLOAT, shape)},
        {"span": (FLOAT, []), "y": (FLOAT, shape)},
    )  # fmt: skip
    span, y = run(x)
    assert span == x.max() - x.min()
    np.testing.assert_array_equal(y, x / span)


def test_a_constant_that_is_the_matrix_of_one_product_and_the_data_of_another():
    """Both Gemms are small products of constants; the first is read from either side."""
    left, right = np.array([[1.0, 2, -3], [4, 5, -6]]), np.array([[1.5, 2, 3]])
    run = model(
        [node("Gemm", "a b c", "p", transB=1), node("Gemm", "p p x", "y", transA=1)],
        {"x": (TensorProto.DOUBLE, [1, 1])},
        {"y": (TensorProto.DOUBLE, [1, 1])},
        a=left, b=right, c=np.array([[0.5], [-2]]),
    )  # fmt: skip
    product = left @ right.T + [[0.5], [-2]]
    np.testing.assert_allclose(run(np.array([[7.0]]))[0], product.T @ product + 7)


@pytest.mark.parametrize("inner", ["a", "b", ""])
@pytest.mark.parametrize("transposed", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_a_product_over_nothing_is_what_is_added(transposed, inner):
    """Sums of no terms, of constants without elements; inner: the operand that is none."""
    shapes = {"a": [0, 3] if transposed[0] else [3, 0], "b": [5, 0] if transposed[1] else [0, 5]}
    c = np.arange(15, dtype=np.float32).reshape(3, 5)
    constants = {n: np.zeros(s, np.float32) for n, s in shapes.items() if n != inner}
    inputs = {inner: (FLOAT, shapes[inner])} if inner else {}
    gemm = node("Gemm", "a b c", "y", transA=transposed[0], transB=transposed[1])
    run = model([gemm], inputs, {"y": (FLOAT, [3, 5])}, c=c, **constants)
    given = [np.zeros(shapes[inner], np.float32)] if inner else []
    np.testing.assert_array_equal(run(*given)[0], c)
