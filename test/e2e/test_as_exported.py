"""Where exporters and onnxruntime agree on another reading than the letter of the standard, what
exported models mean counts."""

import numpy as np
import pytest
from onnx import TensorProto, helper

import rcompiler


def model(node, opset=17, **arrays):
    kind = TensorProto.FLOAT
    infos = [helper.make_tensor_value_info(n, kind, a.shape) for n, a in arrays.items()]
    outputs = [helper.make_tensor_value_info(n, kind, None) for n in node.output]
    graph = helper.make_graph([node], "g", infos, outputs)
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
