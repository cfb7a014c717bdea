"""Recurrent networks as written: right, equal bits on any EUs, and batched where that pays."""

import sys
from pathlib import Path

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

import rcompiler
from rcompiler.device.cpu import cpu_device
from rcompiler.device.target import find_device
from rcompiler.passes.products.merging import Profit
from rcompiler.passes.rtask_batch_products import RTaskBatchProducts
from rcompiler.passes.vdevice_attach_device import VdeviceAttachDevice
from rcompiler.rammer.schedule import POLICIES
from rcompiler.tools import models

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from s1 import batched, run_passes  # noqa: E402

# Options, how many products are batches, and whether weights are cut for that. An LSTM-TC cell has
# eight products; a cell of the others joins input and state, and those of the first layer only, or
# those behind the convolutions, know their inputs ahead.
CASES = {
    "lstm_tc": ({"steps": 4, "hidden": 16, "layers": 2}, 8, False),
    "seq2seq": (
        {"steps": 4, "hidden": 48, "layers": 2, "decoder_steps": 2, "decoder_layers": 1},
        2,
        True,
    ),
    "deepspeech2": (
        {"frames": 12, "frequencies": 16, "channels": 4, "hidden": 64, "layers": 2},
        2,
        True,
    ),
}


DEVICE = cpu_device("v3", eus=2)


def compiled(model, **options):
    return rcompiler.compile_onnx(model, target="cpu:v3", device=DEVICE, cache=False, **options)


def batches_on(device, model):
    """What the pass makes of a compiled model's S1 for a device, as `s1.batched` counts it."""
    on = find_device(device) if isinstance(device, str) else device
    passes = [VdeviceAttachDevice(on), "cse", RTaskBatchProducts()]
    return batched(run_passes(model.stage("linalg"), passes))


@pytest.mark.parametrize("name", CASES)
def test_networks_as_written(name, monkeypatch):
    options, count, cut = CASES[name]
    model = models.build(name, **options)
    one, two = (compiled(model, eus=eus) for eus in (1, 2))
    found, cuts = batches_on(DEVICE, one)
    assert (found, cuts > 0) == (count, cut)
    with monkeypatch.context() as patch:
        patch.setattr(Profit, "stacking_pays", lambda self, products: False)
        plain = compiled(model, eus=2)
    assert plain.stage("rtask") != two.stage("rtask") == one.stage("rtask")
    rng = np.random.default_rng(3)
    inputs = [rng.standard_normal(t.shape).astype(np.float32) for t in one.inputs]
    feed = {t.name: x for t, x in zip(one.inputs, inputs, strict=True)}
    expected = ReferenceEvaluator(model).run(None, feed)
    for first, second, apart, right in zip(
        one(*inputs), two(*inputs), plain(*inputs), expected, strict=True
    ):
        np.testing.assert_allclose(first, right, rtol=2e-5, atol=2e-6)
        np.testing.assert_array_equal(second, first)
        if not cut:
            np.testing.assert_array_equal(apart, first)


@pytest.mark.parametrize("name", ["lstm_tc", "seq2seq"])
def test_every_policy_gives_the_same_bits(name):
    model = models.build(name, **CASES[name][0])
    programs = [compiled(model, eus=2, policy=policy) for policy in POLICIES]
    programs.append(compiled(model, eus=3))
    rng = np.random.default_rng(4)
    inputs = [rng.standard_normal(t.shape).astype(np.float32) for t in programs[0].inputs]
    first, *others = ([y.tobytes() for y in program(*inputs)] for program in programs)
    assert all(other == first for other in others)


def test_many_eus_go_along_the_diagonals():
    """A deep, narrow network: a batch would let a layer wait for all of the one below.

    One EU takes all batches, eight take those of the lower layers, and a large GPU takes none.
    """
    options = {"steps": 6, "hidden": 32, "layers": 4}
    model = compiled(models.build("lstm_tc", **options), eus=1)
    assert batches_on(cpu_device("v3", eus=1), model) == (16, 0)
    lower, _ = batches_on(cpu_device("v3", eus=8), model)
    assert 0 < lower < 16
    assert batches_on(cpu_device("v3", eus=64), model) == (0, 0)
    assert batches_on("h200", model) == (0, 0)
