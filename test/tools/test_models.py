"""The built-in networks: valid, deterministic, of the published size, activations near 1."""

import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
from small_networks import SMALL

from rcompiler.errors import InvalidModel
from rcompiler.tools import models


def run(model: onnx.ModelProto) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(model.SerializeToString())
    rng = np.random.default_rng(0)
    feeds = {}
    for x in session.get_inputs():
        if "int64" in x.type:
            feeds[x.name] = rng.integers(0, 2, x.shape)
        else:
            feeds[x.name] = rng.standard_normal(x.shape, dtype=np.float32)
    return session.run(None, feeds)


def test_every_model_has_a_small_form():
    assert set(SMALL) == set(models.names())


@pytest.mark.parametrize("name", models.names())
def test_valid_and_scaled(name):
    model = models.build(name, **SMALL[name])
    onnx.checker.check_model(model, full_check=True)
    for output in run(model):
        assert np.isfinite(output).all()
        assert 0.02 < output.std() < 20


@pytest.mark.parametrize("name", models.names())
def test_deterministic_by_seed(name):
    def bytes_of(seed):
        return models.build(name, **{**SMALL[name], "seed": seed}).SerializeToString()

    assert bytes_of(3) == bytes_of(3)
    assert bytes_of(3) != bytes_of(4)


@pytest.mark.parametrize(
    "name, parameters, convolutions",
    [  # parameters without running statistics as published, in thousands
        ("efficientnet_b0", 5289, 81),
        ("inception_v3", 23835, 94),
        ("mobilenet_v2", 3505, 52),
        ("mobilenet_v3", 5483, 62),
        ("nasnet_mobile", 5290, 356),
        ("resnet50", 25557, 53),
        ("resnext29", 34427, 31),
        ("shufflenet", 1866, 49),
        ("squeezenet1_1", 1235, 26),
        ("densenet121", 7979, 120),
    ],
)
def test_published_sizes(name, parameters, convolutions):
    graph = models.build(name).graph
    count = sum(int(np.prod(w.dims)) for w in graph.initializer if "running_" not in w.name)
    assert count // 1000 in (parameters - 1, parameters)
    assert sum(node.op_type == "Conv" for node in graph.node) == convolutions


def test_chains_have_as_many_nodes_as_asked_for(tmp_path):
    assert len(models.build("tiny_matmul_chain").graph.node) == 100
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    options.log_severity_level = 3
    onnxruntime.InferenceSession(models.build("tiny_chain").SerializeToString(), options)
    assert len(onnx.load(tmp_path / "optimized.onnx").graph.node) == 100


def test_every_operator_of_tiny_chain_counts():
    model = models.build("tiny_chain")
    for node in model.graph.node[:-1]:
        model.graph.output.append(onnx.helper.make_empty_tensor_value_info(node.output[0]))
    session = onnxruntime.InferenceSession(model.SerializeToString())
    rng = np.random.default_rng(0)
    steps = []
    for _ in range(64):
        x = rng.standard_normal((1, 64), dtype=np.float32)
        last, *inner = session.run(None, {"input": x})
        steps.append(np.concatenate([x, *inner, last]))
    values = np.array(steps)  # (inputs, operators + 1, width)
    assert (values[:, 1:] != values[:, :-1]).any(axis=(0, 2)).all()
    assert min(len(np.unique(column)) for column in values[:, -1].T) > 8


@pytest.mark.parametrize(
    "name, options, message",
    [
        ("resnet51", {}, "no model 'resnet51'"),
        ("resnet50", {"size": 3}, "has no option 'size'; it has: seed, batch, image"),
        ("resnet50", {"image": "big"}, "image='big' does not do"),
        ("resnet50", {"image": 0}, "image=0 does not do"),
        ("shufflenet", {"groups": 5}, "groups=5 is none of the paper's: 1, 2, 3, 4, 8"),
        ("lstm_tc", {"form": "good"}, "give one of 'written', 'normalised', 'operator'"),
        (
            "convnet_training",
            {"image": 30},
            "image=30 cannot be halved 2 times",
        ),
        ("nas_cells", {"vertices": 2}, "3 vertices and 2 edges or more"),
        ("mlp", {"layers": (3, "x")}, "layers=.3, 'x'. does not do"),
    ],
)
def test_bad_options_are_named(name, options, message):
    with pytest.raises(InvalidModel, match=message):
        models.build(name, **options)


def command(*arguments, cwd):
    return subprocess.run(
        [sys.executable, "-m", "rcompiler.tools.models", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )


def test_command_writes_a_file(tmp_path):
    done = command("mlp", "--set", "layers=(8,4)", "-o", "m.onnx", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert list(onnx.load(tmp_path / "m.onnx").graph.initializer[0].dims) == [4, 8]


@pytest.mark.parametrize(
    "arguments",
    [
        ["nothing"],
        ["mlp", "--set", "layers=x"],
        ["mlp", "--set", "layers"],
        ["mlp", "-o", "no/such/folder/m.onnx"],
        ["unet", "--set", "image=7", "-o", "u.onnx"],
    ],
)
def test_command_reports_one_line(arguments, tmp_path):
    done = command(*arguments, cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("models: error: ") and done.stderr.count("\n") == 1
