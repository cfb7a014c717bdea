"""The cells of Astra's long tail compute what their papers say: in numpy, from their weights."""

import numpy as np
import onnxruntime
import pytest
from onnx import numpy_helper
from onnx_work import work_of
from small_networks import SMALL

from rcompiler.tools import models


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


class Weights:
    """Those of a layer by name, in f64."""

    def __init__(self, model, prefix=""):
        self._prefix = prefix
        self._all = {
            w.name: numpy_helper.to_array(w).astype(np.float64) for w in model.graph.initializer
        }

    def __getitem__(self, name):
        return self._all[self._prefix + name]

    def products(self, x, h, gate):
        return x @ self[f"w_{gate}"], h @ self[f"u_{gate}"]


def milstm_cell(weights, x, c, h):
    def gate(name):
        wx, uh = weights.products(x, h, name)
        alpha, beta1, beta2, b = (weights[f"{k}_{name}"] for k in ("alpha", "beta1", "beta2", "b"))
        return alpha * wx * uh + beta1 * uh + beta2 * wx + b

    c = sigmoid(gate("f")) * c + sigmoid(gate("i")) * np.tanh(gate("j"))
    return c, sigmoid(gate("o")) * np.tanh(c)


def sublstm_cell(weights, x, c, h):
    z, i, o, f = (
        sigmoid(sum(weights.products(x, h, gate)) + weights[f"b_{gate}"]) for gate in "ziof"
    )
    c = f * c + z - i
    return c, sigmoid(c) - o


def stacked(cell):
    def run(model, xs):
        for layer in range(2):
            weights = Weights(model, f"layer{layer}.")
            c = h = np.zeros_like(xs[0])
            outputs = []
            for x in xs:
                c, h = cell(weights, x, c, h)
                outputs.append(h)
            xs = outputs
        return xs[-1]

    return run


def scrnn(model, xs):
    w = Weights(model)
    s, h, outputs = w["context"], w["state"], []
    for x in xs:
        s = 0.05 * (x @ w["B"]) + 0.95 * s
        h = sigmoid(s @ w["P"] + x @ w["A"] + h @ w["R"])
        e = np.exp(h @ w["U"] + s @ w["V"])
        outputs.append(e / e.sum(axis=-1, keepdims=True))
    return np.concatenate(outputs)


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize(
    "name, formula",
    [("milstm", stacked(milstm_cell)), ("sublstm", stacked(sublstm_cell)), ("scrnn", scrnn)],
)
def test_cells_are_those_of_the_papers(name, formula, batch):
    model = models.build(name, **SMALL[name], batch=batch)
    x = np.random.default_rng(0).standard_normal((3, batch, 16), dtype=np.float32)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (result,) = session.run(None, {"input": x})
    np.testing.assert_allclose(result, formula(model, x), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "name, products, megabytes",
    [  # products of each step are nodes of their own, weights are there once
        ("milstm", 20 * 8, 2.1),
        ("sublstm", 20 * 8 * 2, 4.2),
        ("scrnn", 20 * 6, 0.7),
    ],
)
def test_steps_share_their_weights(name, products, megabytes):
    work = work_of(models.build(name))
    assert work.nodes["MatMul"] == products
    assert round(work.weights / 1e6, 1) == megabytes


@pytest.mark.parametrize("name", ["milstm", "scrnn", "sublstm"])
def test_activations_neither_vanish_nor_saturate(name):
    """At the default sizes, in each step."""
    model = models.build(name)
    kept = [n.output[0] for n in model.graph.node if n.op_type in ("Tanh", "Sigmoid")]
    for value in kept:
        model.graph.output.add().name = value
    session = onnxruntime.InferenceSession(model.SerializeToString())
    x = np.random.default_rng(0).standard_normal((20, 1, 256), dtype=np.float32)
    for value, y in zip(kept, session.run(kept, {"input": x}), strict=True):
        assert y.std() > 0.02 and (np.abs(y) > 0.999).mean() < 0.1, value
