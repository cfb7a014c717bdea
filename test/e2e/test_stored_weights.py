"""Files keep weights once: a load makes their other forms, and the model computes the same bits."""

import copy
import pickle

import numpy as np
import pytest
from levels import HERE
from onnx import TensorProto, helper, numpy_helper

import rcompiler
from rcompiler.device.cpu import cpu_device
from rcompiler.device.record import to_option
from rcompiler.driver.compilation import Compilation
from rcompiler.driver.host import target_device
from rcompiler.options import CompileOptions
from rcompiler.runtime.artifact import Artifact
from rcompiler.runtime.recipes import Combine, Pad
from rcompiler.support.random_inputs import random_inputs
from rcompiler.tools import models

OVERHEAD = 300_000  # bytes of code, tables and texts of a small model


def graph(nodes, inputs, outputs, weights):
    def info(name, shape, dtype=TensorProto.FLOAT):
        return helper.make_tensor_value_info(name, dtype, shape)

    made = helper.make_graph(
        nodes,
        "g",
        [info(*each) for each in inputs],
        [info(*each) for each in outputs],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    opset = [helper.make_opsetid("", 17)]
    return helper.make_model(made, ir_version=9, opset_imports=opset)


def numbers(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def convolutions():
    """Two of 3 x 3, which Winograd's minimal filtering makes 1.8 or 4 times as large."""
    nodes = [
        helper.make_node("Conv", ["x", "a"], ["h"], pads=[1] * 4),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("Conv", ["r", "b"], ["y"], pads=[1] * 4),
    ]
    weights = {"a": numbers(64, 32, 3, 3), "b": numbers(48, 64, 3, 3)}
    return graph(nodes, [("x", (1, 32, 20, 20))], [("y", (1, 48, 20, 20))], weights)


def tied():
    """A table of embeddings, which the last product reads as well, in another layout."""
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["h"]),
        helper.make_node("Tanh", ["h"], ["t"]),
        helper.make_node("Transpose", ["table"], ["turned"], perm=[1, 0]),
        helper.make_node("MatMul", ["t", "turned"], ["y"]),
    ]
    weights = {"table": numbers(4001, 64)}
    inputs = [("ids", (24,), TensorProto.INT64)]
    return graph(nodes, inputs, [("y", (24, 4001))], weights)


NETWORKS = {
    "winograd2": (convolutions, {"roots": "winograd2"}, Combine),
    "winograd4": (convolutions, {"roots": "winograd4"}, Combine),
    "tied": (tied, {}, Pad),
}


@pytest.fixture(scope="module", params=NETWORKS)
def network(request, tmp_path_factory):
    """ONNX model, compiled model, its file, and the step that its recipes must have."""
    make, options, step = NETWORKS[request.param]
    proto = make()
    model = rcompiler.compile_onnx(proto, eus=2, cache=False, **options)
    path = tmp_path_factory.mktemp("stored") / "m.rcx"
    model.save(path)
    yield proto, model, path, step
    model.close()


def test_a_file_is_as_large_as_its_model(network):
    proto, model, path, step = network
    assert path.stat().st_size <= 1.1 * proto.ByteSize() + OVERHEAD
    assert model.artifact.constants.size > 1.5 * proto.ByteSize()
    for recipe in model.artifact.storage.recipes:
        assert any(isinstance(each, step) for each in recipe.steps)


WAYS = {
    "load": lambda path, model: rcompiler.load(path, eus=2),
    "full": lambda path, model: rcompiler.load(path, eus=2, full=True),
    "bytes": lambda path, model: rcompiler.loading.load_bytes(path.read_bytes(), eus=2),
    "copy": lambda path, model: copy.copy(model),
    "pickle": lambda path, model: pickle.loads(pickle.dumps(model)),
}


@pytest.mark.parametrize("way", WAYS)
def test_models_of_a_file_compute_the_same_bits(network, way):
    _, model, path, _ = network
    inputs = random_inputs(model.inputs)
    if "ids" in inputs:
        inputs["ids"] = np.arange(24) * 150
    with WAYS[way](path, model) as other:
        assert other.artifact.constants.tobytes() == model.artifact.constants.tobytes()
        assert other.artifact.certificate == model.artifact.certificate
        for found, expected in zip(other(**inputs), model(**inputs), strict=True):
            assert found.tobytes() == expected.tobytes()


def test_a_schedule_gives_the_same_certificate(network):
    """The text of a schedule does not say where its weights come from: its file keeps all."""
    _, model, path, _ = network
    again = rcompiler.compile_schedule(model.stage("vdevice"), model.constants(), cache=False)
    assert again.artifact.certificate == model.artifact.certificate
    assert not again.artifact.storage.recipes
    assert len(again.artifact.to_bytes()) > path.stat().st_size + 50_000


@pytest.mark.parametrize("target", ["cuda:h200", "cuda:sm_80", "rocm:gfx942"])
def test_files_for_gpus_make_their_weights_as_well(target, tmp_path):
    proto = models.build("gpt2_small", sequence=8, layers=1, hidden=64, vocabulary=4001, heads=2)
    model = rcompiler.compile_onnx(proto, target=target, cache=False, machine_code=False)
    model.save(tmp_path / "m.rcx")
    loaded = Artifact.load(tmp_path / "m.rcx")
    assert loaded.constants.tobytes() == model.artifact.constants.tobytes()
    assert loaded.storage.section(loaded.constants).size <= 1.1 * proto.ByteSize()


@pytest.mark.parametrize("level", HERE)
def test_each_level_of_a_cpu_packs_what_its_file_keeps_once(level):
    proto = tied()
    [artifact] = artifacts_for(proto, to_option(cpu_device(level, 2)))
    assert len(artifact.to_bytes()) <= 1.1 * proto.ByteSize() + OVERHEAD
    assert artifact.constants.size > 1.5 * proto.ByteSize()


def artifacts_for(proto, target):
    """Of a CPU that need not be this one, on which nothing is loaded."""
    options = CompileOptions(target)
    run = Compilation(options, target_device(target), None)
    return run.from_onnx(proto, None, None, run.device, [options])
