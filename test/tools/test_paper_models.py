"""The networks of Rammer's evaluation: of the size that its tables have, equal in all forms."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx_work import work_of
from small_networks import FORMS, SMALL

from rcompiler.tools import models


def evaluate(model, feeds):
    return onnxruntime.InferenceSession(model.SerializeToString()).run(None, feeds)


@pytest.mark.parametrize(
    "name, megabytes, gflop",
    [  # of the evaluation; NASNet: of its paper, 3.3 and 5.3 million weights, 564 million products
        ("alexnet", 247, 1.7),
        ("deepspeech2", 25.9, 4.4),
        ("lstm_tc", 21.0, 1.05),
        ("nasnet_a", 13.2, 1.1),
        ("nasnet_mobile", 21.0, 1.13),
        ("resnext101_64x4d", 333, 29),
        ("resnext29_16x64d", 31.5, 6.1),
        ("seq2seq", 6.3, 0.24),
    ],
)
def test_size(name, megabytes, gflop):
    work = work_of(models.build(name))

    def digits(value, like):
        return round(value, len(str(like).partition(".")[2]))

    assert digits(work.weights / 1e6, megabytes) == megabytes
    assert digits(work.flop / 1e9, gflop) == gflop


@pytest.mark.parametrize(
    "name, form, kind, count",
    [
        ("lstm_tc", "written", "MatMul", 8 * 10 * 100),
        ("lstm_tc", "normalised", "MatMul", 10 * 100 + 10),
        ("lstm_tc", "operator", "LSTM", 10),
        ("seq2seq", "written", "MatMul", 8 * 100 + 4 * 30),
        ("seq2seq", "operator", "LSTM", 8 + 4 * 30),
        ("deepspeech2", "written", "MatMul", 7 * 75 + 1),
        ("resnext29_16x64d", "written", "Conv", 1 + 9 * (2 * 16 + 1)),
        ("resnext29_16x64d", "normalised", "Conv", 1 + 9 * 3),
    ],
)
def test_nodes(name, form, kind, count):
    work, written = (work_of(models.build(name, form=f)) for f in (form, "written"))
    assert work.nodes[kind] == count
    assert work.flop == written.flop


def test_convolutions_of_nasnet():
    nodes = models.build("nasnet_a").graph.node
    groups = [
        onnx.helper.get_node_attr_value(node, "group") for node in nodes if node.op_type == "Conv"
    ]
    assert (groups.count(1), len(groups) - groups.count(1)) == (246, 200)


@pytest.mark.parametrize("name, form", [(name, form) for name in FORMS for form in FORMS[name]])
@pytest.mark.parametrize("batch", [1, 2])
def test_forms_compute_the_same(name, form, batch):
    written, other = (
        models.build(name, **SMALL[name], batch=batch, form=f) for f in ("written", form)
    )
    shape = [dim.dim_value for dim in written.graph.input[0].type.tensor_type.shape.dim]
    feeds = {"input": np.random.default_rng(1).standard_normal(shape, dtype=np.float32)}
    (expected,), (result,) = evaluate(written, feeds), evaluate(other, feeds)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["deepspeech2", "lstm_tc", "seq2seq"])
def test_the_first_step_reaches_the_end(name):
    model = models.build(name, form="operator")
    shape = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    rng = np.random.default_rng(1)
    results = [
        evaluate(model, {"input": rng.standard_normal(shape, dtype=np.float32)})[0]
        for _ in range(2)
    ]
    assert np.abs(results[0] - results[1]).mean() > 0.1


def test_cells_differ_by_seed_and_stay_in_their_space():
    kinds = set()
    for seed in range(60):
        model = models.build("nas_cells", **{**SMALL["nas_cells"], "stacks": 1}, seed=seed)
        onnx.checker.check_model(model, full_check=True)
        vertices = {n.name.split("/")[2] for n in model.graph.node if "/vertex" in n.name}
        assert 1 <= len(vertices) <= 5
        kinds.add(tuple(node.op_type for node in model.graph.node))
    assert len(kinds) > 30
