"""ONNX models in PyTorch: what gpu_bench measures beside; where PyTorch is installed."""

import numpy as np
import pytest
from measurements._gpu_bench_group import difference, sample
from measurements._torch_baselines import bound
from onnx import helper
from small_networks import SMALL

from rcompiler.errors import CompilerError, ToolError, UnsupportedOp
from rcompiler.tools import models
from rcompiler.tools._reference import has, reference

needs_torch = pytest.mark.skipif(not has("torch"), reason="torch is not installed")
# What gpu_bench gives to PyTorch: where there is a choice, the form with whole operators.
FORMS = {
    "alexnet": {},
    "bert_base": {},
    "deepspeech2": {"form": "operator"},
    "lstm_tc": {"form": "operator"},
    "nasnet_a": {},
    "resnet50": {},
    "resnext29_16x64d": {"form": "normalised"},
    "seq2seq": {"form": "operator"},
}


def feeds_of(model):
    rng = np.random.default_rng(0)
    found = {}
    for value in model.graph.input:
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        whole = value.type.tensor_type.elem_type == 7
        array = rng.integers(0, 2, shape) if whole else rng.standard_normal(shape, np.float32)
        found[value.name] = array
    return found


@needs_torch
@pytest.mark.parametrize("precision, allowed", [("f32", 1e-4), ("f16", 0.1)])
@pytest.mark.parametrize("name", FORMS)
def test_networks_give_what_the_reference_gives(name, precision, allowed):
    model = models.build(name, **SMALL[name], **FORMS[name])
    feeds = feeds_of(model)
    wanted = {str(k): sample(y) for k, y in enumerate(reference(model, feeds)[1])}
    made = bound("torch", model.SerializeToString(), precision, feeds, 60.0, "cpu")
    difference(made.outputs, wanted, allowed, "torch")


@needs_torch
@pytest.mark.parametrize(
    "name, layers",
    # The two layers of the decoder of seq2seq are called step by step, with the same weights.
    [("lstm_tc", [2]), ("deepspeech2", [2]), ("seq2seq", [2, 1, 1])],
)
def test_stacked_layers_are_one(name, layers):
    import torch
    from measurements._torch_graph import torch_module

    module = torch_module(models.build(name, **SMALL[name], **FORMS[name]), torch.float32)
    found = [m.num_layers for m in module.modules() if isinstance(m, torch.nn.LSTM)]
    assert found == layers


@needs_torch
def test_attention_is_one_function():
    import torch
    from measurements._torch_graph import torch_module

    code = torch_module(models.build("bert_base", **SMALL["bert_base"]), torch.float32).code
    assert code.count("scaled_dot_product_attention(") == 2 and "softmax" not in code


@needs_torch
def test_what_it_does_not_know_is_named():
    model = models.build("two_branch")
    model.graph.node.append(helper.make_node("Det", ["input"], ["more"], "determinant"))
    with pytest.raises(UnsupportedOp, match="'determinant' .Det. for PyTorch: it has no transla"):
        bound("torch", model.SerializeToString(), "f32", feeds_of(model), 60.0, "cpu")


@needs_torch
def test_a_baseline_that_takes_too_long():
    model = models.build("lstm_tc", **{**SMALL["lstm_tc"], "steps": 40})
    with pytest.raises(CompilerError, match="was not ready after 0.001 s"):
        bound("torch", model.SerializeToString(), "f32", feeds_of(model), 1e-3, "cpu")


@pytest.mark.skipif(has("torch"), reason="torch is installed")
def test_without_torch():
    model = models.build("two_branch")
    with pytest.raises(ToolError, match="torch is not installed"):
        bound("torch", model.SerializeToString(), "f32", feeds_of(model), 60.0)
