"""Models that are copied, and that travel to other processes by pickle."""

import copy
import pickle
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from bad_models import graph_model
from onnx import helper

import rcompiler
from rcompiler.errors import ArtifactError, CompilerError, DeviceError
from rcompiler.loading import load_bytes

X = np.arange(12, dtype=np.float32).reshape(3, 4)
WEIGHTS = np.linspace(-1, 1, 20, dtype=np.float32).reshape(4, 5)
WAYS = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    **{
        f"pickle{protocol}": lambda model, protocol=protocol: pickle.loads(
            pickle.dumps(model, protocol)
        )
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1)
    },
}


@pytest.fixture(scope="module", params=["cpu", "cuda:emulated"])
def model(request):
    weights = helper.make_tensor("w", 1, WEIGHTS.shape, WEIGHTS.ravel())
    node = helper.make_node("MatMul", ["x", "w"], ["y"], "product")
    proto = graph_model([node], [("x", X.shape)], [("y", (3, 5))], [weights])
    return rcompiler.compile_onnx(proto, target=request.param, eus=2, cache=False)


@pytest.fixture
def saved(model, tmp_path):
    model.save(tmp_path / "m.rcx")
    return tmp_path / "m.rcx"


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_copy_is_a_model_of_its_own(model, way):
    with way(model) as other:
        assert type(other) is type(model) and other is not model
        assert np.array_equal(other(X)[0], model(X)[0])
        assert other.artifact.certificate == model.artifact.certificate
        assert other.report() == model.report() and repr(other) == repr(model)
    assert other.closed and not model.closed
    model(X)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_copy_is_loaded_with_the_same_options(saved, way):
    with rcompiler.load(saved) as plain:
        asked = {"wait_limit_s": 7.0}
        if plain.artifact.target != "cuda:emulated":
            asked |= {"eus": 1, "timed": True, "pin": True}
    with rcompiler.load(saved, **asked) as model, way(model) as other:
        assert other._options == model._options and other._options.items() >= asked.items()
        assert other.eus == model.eus
        other(X)
        if "timed" in asked:
            assert other.times()["eu"]


def test_copies_share_the_weights(model):
    with copy.copy(model) as other:
        assert np.shares_memory(other.artifact.constants, model.artifact.constants)


def test_a_model_travels_to_a_process_without_the_compiler(model, tmp_path):
    (tmp_path / "model.pickle").write_bytes(pickle.dumps(model))
    np.save(tmp_path / "x.npy", X)
    code = """
import pickle, sys
import numpy as np
model = pickle.load(open("model.pickle", "rb"))
assert not {"torch_mlir", "llvmlite", "onnx"} & set(sys.modules)
np.save("y.npy", model(np.load("x.npy"))[0])
"""
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, timeout=120)
    assert np.array_equal(np.load(tmp_path / "y.npy"), model(X)[0])


def test_the_bytes_of_a_model_are_those_of_its_file(model, saved):
    data = saved.read_bytes()
    assert model.artifact.to_bytes() == data
    with load_bytes(data) as other:
        assert np.array_equal(other(X)[0], model(X)[0])


def test_damaged_bytes_are_refused_wherever_the_damage_is(saved):
    data = saved.read_bytes()
    for place in [*range(0, len(data), max(1, len(data) // 97)), len(data) - 1]:
        wrong = bytearray(data)
        wrong[place] ^= 1
        with pytest.raises(ArtifactError, match="^the bytes of a model: "):
            load_bytes(bytes(wrong))
    for wrong in (b"", data[:-1], data + b"\0"):
        with pytest.raises(ArtifactError, match="^the bytes of a model: "):
            load_bytes(wrong)


@pytest.mark.parametrize("wrong", [None, 3, "m.rcx", bytearray(8)])
def test_what_is_not_bytes_is_refused(wrong):
    with pytest.raises(ArtifactError, match="not bytes; give those of a model"):
        load_bytes(wrong)


def test_bytes_are_proved_before_they_run(model):
    """As of a file: a model that carries no proof is refused."""
    unproved = replace(model.artifact, proof={})
    with pytest.raises(ArtifactError, match="^the bytes of a model: .*carries no proof"):
        load_bytes(unproved.to_bytes())


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_closed_model_is_not_copied(saved, way):
    model = rcompiler.load(saved)
    model.close()
    with pytest.raises(DeviceError, match="the model is closed; load it again"):
        way(model)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_memory_of_this_process_is_not_copied(model, way):
    with pytest.raises(CompilerError, match="Binding is memory of this process.*bind that"):
        way(model.bind())
    if hasattr(model, "on_device"):
        with pytest.raises(CompilerError, match="DeviceArray is memory .*numpy"):
            way(model.on_device(X)[0])
