"""Networks in 8 bits on GPUs: right on the emulated ones, and code that ptxas takes."""

import sys
from pathlib import Path

import numpy as np
import pytest

import rcompiler
from rcompiler.tools import models, quantise

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from toolkit import needs_ptxas  # noqa: E402

onnxruntime = pytest.importorskip("onnxruntime", reason="its tools quantise the networks")

WORDS = 50


def resnet50():
    """One block in each stage: every form of its convolutions, calibrated."""
    small = models.build("resnet50", image=16, width=8, blocks=(1, 1, 1, 1), classes=10)
    return quantise.calibrated(small)


def bert():
    """One layer, whose activations are quantised while it runs."""
    sizes = {"layers": 1, "hidden": 32, "heads": 2, "sequence": 8, "vocabulary": WORDS}
    return quantise.dynamic(models.build("bert_base", **sizes))


def drawn(network):
    random = np.random.default_rng(2)
    if len(network.graph.input) == 1:
        return {"input": random.standard_normal((1, 3, 16, 16), np.float32)}
    return {
        "input_ids": random.integers(0, WORDS, (1, 8)),
        "token_type_ids": random.integers(0, 2, (1, 8)),
        "attention_mask": np.int64([[1] * 6 + [0] * 2]),
    }


@pytest.fixture(scope="module", params=[resnet50, bert], ids=lambda make: make.__name__)
def network(request):
    """With inputs, and what onnxruntime makes of them."""
    made = request.param()
    feeds = drawn(made)
    session = onnxruntime.InferenceSession(made.SerializeToString())
    return made, feeds, session.run(None, feeds)


@pytest.mark.parametrize("target", ["cuda:emulated", "cuda:emulated-sm_90a"])
def test_networks_are_right(network, target):
    made, feeds, expected = network
    model = rcompiler.compile_onnx(made, target=target)
    assert model.stage("linalg").count("arith.muli") >= 7, "not quantised"
    for got, wanted in zip(model(**feeds), expected, strict=True):
        # a sum near the middle of two steps of 1/255 may be rounded to either
        np.testing.assert_allclose(got, wanted, atol=0.02)
        assert np.abs(got - wanted).mean() < 1e-3


@needs_ptxas
@pytest.mark.parametrize("target", ["cuda:h200", "cuda:sm_80"])
def test_an_assembler_takes_them(network, target):
    model = rcompiler.compile_onnx(network[0], target=target)
    assert model.artifact.image.cubin.startswith(b"\x7fELF")
    assert model.report().note == ""
    assert {op.spilled_bytes for op in model.report().operators} == {0}
