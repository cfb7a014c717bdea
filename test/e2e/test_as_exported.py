"""Where exporters and onnxruntime agree on another reading than the letter of the standard, what
exported models mean counts."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import rcompiler


def model(node, opset=17, **arrays):
    return of_nodes([node], list(node.output), opset, {}, **arrays)


def of_nodes(nodes, results, opset, constants, **arrays):
    """A model of some nodes. constants: by name, known to the compiler."""
    kind = TensorProto.FLOAT
    infos = [helper.make_tensor_value_info(n, kind, a.shape) for n, a in arrays.items()]
    outputs = [helper.make_tensor_value_info(n, kind, None) for n in results]
    weights = [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()]
    graph = helper.make_graph(nodes, "g", infos, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def results(proto, **arrays):
    """Ours, which onnxruntime agrees with where it is installed."""
    ours = rcompiler.compile_onnx(proto, eus=1)(**arrays)
    try:
        import onnxruntime
    except ImportError:
        return ours
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    for got, want in zip(ours, session.run(None, arrays), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    return ours


def cubic(x, a=-0.75):
    x = abs(x)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    return np.where(x <= 1, near, (((x - 5) * x + 8) * x - 4) * a)


@pytest.mark.parametrize("corners", [0, 1])
def test_bicubic_samples_at_the_border_repeat_each_place(corners):
    """Every place that is read is moved to the border, not the coordinate."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, 1, 4, 5)).astype(np.float32)
    grid = rng.uniform(-1.6, 1.6, (1, 6, 7, 2)).astype(np.float32)
    node = helper.make_node(
        "GridSample", ["x", "grid"], ["y"], mode="bicubic", padding_mode="border",
        align_corners=corners,
    )  # fmt: skip
    (got,) = results(model(node, 16, x=x, grid=grid), x=x, grid=grid)
    want = np.zeros((6, 7))
    for place in np.ndindex(want.shape):
        axes = []
        for size, g in zip(x.shape[2:], grid[0][place][::-1].astype(np.float64), strict=True):
            at = (g + 1) / 2 * (size - 1) if corners else ((g + 1) * size - 1) / 2
            taps = np.floor(at) + np.arange(-1, 3)
            axes.append((np.clip(taps, 0, size - 1).astype(int), cubic(at - taps)))
        (rows, down), (columns, across) = axes
        want[place] = down @ x[0, 0][np.ix_(rows, columns)] @ across
    np.testing.assert_allclose(got[0, 0], want, rtol=1e-4, atol=1e-5)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_the_clip_of_an_lstm_is_of_its_gates(direction):
    """The cell may leave the bounds, and goes on to the hidden state as it is."""
    count = 2 if direction == "bidirectional" else 1
    x = np.ones((4, 1, 1), np.float32)
    w, r = np.full((count, 4, 1), 3, np.float32), np.zeros((count, 4, 1), np.float32)
    node = helper.make_node(
        "LSTM", ["x", "w", "r"], ["y", "h", "c"], hidden_size=1, clip=1.0, direction=direction
    )
    y, _, cell = results(model(node, x=x, w=w, r=r), x=x, w=w, r=r)
    c, want = 0.0, []
    for _ in range(4):
        c = sigmoid(1.0) * c + sigmoid(1.0) * np.tanh(1.0)
        want.append(sigmoid(1.0) * np.tanh(c))
    assert c > 1.0
    np.testing.assert_allclose(y[:, 0, 0, 0], want, rtol=1e-5)
    np.testing.assert_allclose(cell.ravel(), [c] * count, rtol=1e-5)


def test_the_clip_of_a_gru_is_of_all_its_gates():
    rng = np.random.default_rng(1)
    x = rng.standard_normal((3, 2, 4)).astype(np.float32) * 3
    w = rng.standard_normal((1, 15, 4)).astype(np.float32)
    r = rng.standard_normal((1, 15, 5)).astype(np.float32)
    node = helper.make_node("GRU", ["x", "w", "r"], ["y"], hidden_size=5, clip=0.5)
    (y,) = results(model(node, x=x, w=w, r=r), x=x, w=w, r=r)
    h = np.zeros((2, 5))
    for t in range(3):
        z, reset, new = np.split(x[t] @ w[0].T, 3, axis=1)
        rz, rr, rh = np.split(r[0], 3)
        bound = lambda v: np.clip(v, -0.5, 0.5)  # noqa: E731
        z, reset = sigmoid(bound(z + h @ rz.T)), sigmoid(bound(reset + h @ rr.T))
        new = np.tanh(bound(new + (reset * h) @ rh.T))
        h = (1 - z) * new + z * h
        np.testing.assert_allclose(y[t, 0], h, rtol=1e-4, atol=1e-5)


def parts_of(x, split, axis, keepdims, joined):
    """The parts of a split, stacked where they have lost their axis, or joined along it."""
    nodes = [
        helper.make_node("SplitToSequence", ["x", "split"], ["s"], axis=axis, keepdims=keepdims),
        helper.make_node("ConcatFromSequence", ["s"], ["y"], axis=axis, new_axis=int(not joined)),
    ]
    return results(of_nodes(nodes, ["y"], 17, {"split": np.array(split)}, x=x), x=x)[0]


@pytest.mark.parametrize(("shape", "axis"), [((4, 5, 6), 0), ((2, 3, 4), 1), ((3, 1), -1)])
def test_what_is_unbound_loses_its_axis(shape, axis):
    """PyTorch's exporter writes `unbind` as a split of 1 without `keepdims`, which the standard
    ignores beside a split."""
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    split = helper.make_node("SplitToSequence", ["x", "one"], ["s"], axis=axis, keepdims=0)
    first = helper.make_node("SequenceAt", ["s", "zero"], ["y"])
    known = {"one": np.array(1), "zero": np.array(0)}
    (y,) = results(of_nodes([split, first], ["y"], 17, known, x=x), x=x)
    np.testing.assert_array_equal(y, x.take(0, axis))
    np.testing.assert_array_equal(parts_of(x, 1, axis, 0, joined=False), x)


@pytest.mark.parametrize(("split", "keepdims"), [(1, 1), ([1, 1, 1, 1], 0), ([1, 3], 0), (2, 1)])
def test_other_parts_keep_the_axis_that_they_are_cut_along(split, keepdims):
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    np.testing.assert_array_equal(parts_of(x, split, 0, keepdims, joined=True), x)


def unpooled(nodes, shape, **arrays):
    """What MaxUnpool makes of `p` and `i`, for an output of this shape."""
    unpool = helper.make_node(
        "MaxUnpool", ["p", "i", "shape"], ["y"], kernel_shape=[2, 2], strides=[2, 2]
    )
    known = {"shape": np.array(shape), "one": np.array(1)}
    return results(of_nodes([*nodes, unpool], ["y"], 11, known, **arrays), **arrays)[0]


@pytest.mark.parametrize("shape", [(1, 1, 5, 5), (2, 3, 5, 4), (2, 2, 4, 7), (1, 2, 4, 4)])
def test_maxima_go_back_to_where_they_were(shape):
    """Also into a size that is odd, which is more than MaxUnpool infers from its operand's."""
    x = np.random.default_rng(0).permutation(np.prod(shape)).reshape(shape).astype(np.float32) + 1
    pool = helper.make_node("MaxPool", ["x"], ["p", "i"], kernel_shape=[2, 2], strides=[2, 2])
    y = unpooled([pool], shape, x=x)
    n, c, rows, columns = (*shape[:2], shape[2] // 2, shape[3] // 2)
    windows = x[:, :, : 2 * rows, : 2 * columns].reshape(n, c, rows, 2, columns, 2)
    right = np.zeros_like(x)
    kept = np.where(windows == windows.max((3, 5), keepdims=True), windows, 0)
    right[:, :, : 2 * rows, : 2 * columns] = kept.reshape(n, c, 2 * rows, 2 * columns)
    np.testing.assert_array_equal(y, right)


def test_computed_and_constant_places_are_those_of_the_output():
    p = np.float32([[[[5, 6], [7, 8]]]])
    for op in "Sub", "Identity":
        given = ["near", "one"] if op == "Sub" else ["far"]
        near = np.array([[[[7, 9], [17, 19]]]])
        nodes = [
            helper.make_node("Constant", [], ["near"], value=numpy_helper.from_array(near)),
            helper.make_node("Constant", [], ["far"], value=numpy_helper.from_array(near - 1)),
            helper.make_node(op, given, ["i"]),
        ]
        y = unpooled(nodes, (1, 1, 5, 5), p=p)
        assert np.argwhere(y[0, 0]).tolist() == [[1, 1], [1, 3], [3, 1], [3, 3]]


def test_places_that_a_call_brings_are_read_as_in_the_standards_test():
    """Of those nobody knows where they were counted, and the standard's test has them in the size
    that kernel and strides imply; onnxruntime reads them in that of the output."""
    unpool = helper.make_node(
        "MaxUnpool", ["p", "i", "shape"], ["y"], kernel_shape=[2, 2], strides=[2, 2]
    )
    known = {"shape": np.array([1, 1, 5, 5])}
    p = np.float32([[[[5, 6], [7, 8]]]])
    proto = of_nodes([unpool], ["y"], 11, known, p=p)
    proto.graph.input.append(helper.make_tensor_value_info("i", TensorProto.INT64, p.shape))
    (y,) = rcompiler.compile_onnx(proto, eus=1)(p, np.array([[[[5, 7], [13, 15]]]]))
    assert np.argwhere(y[0, 0]).tolist() == [[1, 1], [1, 3], [3, 1], [3, 3]]
