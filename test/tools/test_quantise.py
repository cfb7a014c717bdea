"""Networks in 8 and 16 bits, and what is measured of them."""

import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from small_networks import SMALL

sys.path.insert(0, str(Path(__file__).parents[2] / "tools" / "bench"))

from measurements import _same_levels  # noqa: E402
from measurements import quantised as bench

import rcompiler  # noqa: E402
from rcompiler.support.random_inputs import random_inputs  # noqa: E402
from rcompiler.tools import quantise  # noqa: E402
from rcompiler.tools._reference import session  # noqa: E402
from rcompiler.tools.models import build  # noqa: E402

pytest.importorskip("onnxruntime")


def small(name):
    return build(name, **SMALL[name])


@pytest.mark.parametrize("name", ["efficientnet_b0", "mobilenet_v2", "resnet50"])
def test_convolutions_that_are_quantised_as_they_run_take_unsigned_weights(name):
    """Of onnxruntime, which has no others."""
    made = quantise.dynamic(small(name))
    weights = {w.name: w.data_type for w in made.graph.initializer}
    found = [n for n in made.graph.node if n.op_type == "ConvInteger"]
    assert found and {weights[n.input[1]] for n in found} == {TensorProto.UINT8}
    with rcompiler.compile_onnx(made, eus=1) as model:
        feeds = random_inputs(model.inputs, 0)
        [ours] = model(feeds)
    [theirs] = session(made, 1).run(None, feeds)
    assert np.abs(ours - theirs).max() < 0.05 * np.abs(theirs).max()


@pytest.mark.parametrize("name", ["bert_block", "mobilenet_v3", "gpt2_small"])
def test_f16_is_half_of_the_weights_and_near_f32(name):
    plain = small(name)
    made = quantise.half(plain)
    assert all(v.type.tensor_type.elem_type != TensorProto.FLOAT for v in made.graph.input)
    kinds = {w.data_type for w in made.graph.initializer}
    assert TensorProto.FLOAT16 in kinds and TensorProto.FLOAT not in kinds
    with rcompiler.compile_onnx(made, eus=1) as half, rcompiler.compile_onnx(plain, eus=1) as f32:
        ours = half(random_inputs(half.inputs, 0))[0]
        right = f32(random_inputs(f32.inputs, 0))[0]
    assert ours.dtype == np.float16
    assert np.abs(ours - right).max() < 0.05 * np.abs(right).max()


def test_the_command_writes_each_form(tmp_path):
    source, target = tmp_path / "m.onnx", tmp_path / "q.onnx"
    onnx.save(small("mlp"), source)
    for option, op in (("", "QuantizeLinear"), ("--dynamic", "DynamicQuantizeLinear")):
        assert quantise.main([str(source), "-o", str(target), *option.split()]) == 0
        assert op in {n.op_type for n in onnx.load(target).graph.node}
    assert quantise.main([str(source), "-o", str(target), "--f16"]) == 0
    assert onnx.load(target).graph.input[0].type.tensor_type.elem_type == TensorProto.FLOAT16


@pytest.mark.parametrize("form", ["", ":dynamic", ":f16"])
def test_levels_are_compared(form, tmp_path, capsys):
    onnx.save(small("mlp"), tmp_path / "m.onnx")
    assert bench.main([f"{tmp_path}/m.onnx{form}", "--same"]) == 0
    assert "m.onnx" + form + ": the same" in capsys.readouterr().out


def test_levels_that_differ_are_told(monkeypatch, capsys):
    made = {level: np.arange(4.0) for level in _same_levels.levels()}
    made["cpu:x86-64"] = np.array([0, 1, 2.5, 3])
    monkeypatch.setattr(_same_levels, "_outputs", lambda model, level: [made[level]])
    told = []
    found = _same_levels.unlike(small("mlp"), told.append)
    assert told == _same_levels.levels()
    assert found == ["cpu:x86-64 differs in 1 of 4 numbers, by 0.167 at most"]


def test_another_form_is_refused(capsys):
    assert bench.main(["resnet50:int4"]) == 1
    assert (
        "write resnet50, or behind it a colon and dynamic, f16, bf16, w8, w4"
        in capsys.readouterr().err
    )


def test_what_is_measured(tmp_path, capsys):
    onnx.save(small("mlp"), tmp_path / "m.onnx")
    given = [f"{tmp_path}/m.onnx:f16", "--rounds=1", "--seconds=0.01"]
    assert bench.main(given) == 0
    assert "m.onnx:f16" in capsys.readouterr().out
