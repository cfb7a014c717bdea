"""Weights of a model that is compiled from a file stay there: no bit of it is another, and what is
saved is, too."""

import gc
import os

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import rcompiler
from rcompiler.driver import left_in_files
from rcompiler.errors import LargerFileWarning
from rcompiler.frontend import weights_outside
from rcompiler.loading import load_bytes
from rcompiler.runtime.stored import Stored

SIZE = 96
WEIGHTS = 9 * SIZE * SIZE * 4


def numbers(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def network():
    """Convolutions that Winograd's minimal filtering enlarges, and one that is turned before."""
    nodes = [
        helper.make_node("Conv", ["x", "a"], ["h"], pads=[1] * 4),
        helper.make_node("Transpose", ["turned"], ["b"], perm=[1, 0, 2, 3]),
        helper.make_node("Conv", ["h", "b"], ["y"], pads=[1] * 4),
    ]
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, (1, SIZE, 20, 20)) for n in "xy"]
    weights = {name: numbers(seed, SIZE, SIZE, 3, 3) for seed, name in enumerate(("a", "turned"))}
    inits = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "g", infos[:1], infos[1:], inits)
    return helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 17)])


@pytest.fixture(params=["file", "external"])
def path(request, tmp_path, monkeypatch):
    monkeypatch.setattr(left_in_files, "_MODEL", WEIGHTS)
    path = tmp_path / "m.onnx"
    external = {"save_as_external_data": True, "location": "w"} if request.param != "file" else {}
    onnx.save(network(), path, **external)
    return path


def compiled(model, **options):
    return rcompiler.compile_onnx(model, eus=1, cache=False, roots="winograd4", **options)


def weights_file(path):
    beside = path.with_name("w")
    return beside if beside.exists() else path


def test_the_file_of_the_model_is_the_same(path):
    with compiled(network()) as whole, compiled(path) as model:
        assert model.artifact.storage.recipes
        assert model.artifact.to_bytes() == whole.artifact.to_bytes()
        for other in (path, weights_file(path)):
            other.unlink(missing_ok=True)  # it is open
        assert model.artifact.to_bytes() == whole.artifact.to_bytes()


def test_nothing_of_the_sources_is_in_memory(path):
    with compiled(path) as model:
        sources = [getattr(each, "source", each) for each in model.artifact.storage.aside._sources]
        assert sources
        assert all(isinstance(source, Stored) for source in sources)
        gc.collect()
        assert not weights_outside._READ


def test_what_was_written_to_is_not_needed_to_save(path):
    with compiled(path) as model:
        kept = model.artifact.to_bytes()
        os.utime(weights_file(path), ns=(1, 1))
        with pytest.warns(LargerFileWarning, match="was written to"):
            plain = model.artifact.to_bytes()
        assert len(plain) > len(kept) + WEIGHTS
        x = numbers(5, 1, SIZE, 20, 20)
        with load_bytes(plain) as loaded:
            assert loaded.artifact.certificate == model.artifact.certificate
            assert loaded(x)[0].tobytes() == model(x)[0].tobytes()


def test_programs_of_several_sizes_share_what_is_in_the_file(path):
    proto = network()
    for each in (*proto.graph.input, *proto.graph.output):
        each.type.tensor_type.shape.dim[0].dim_param = "n"
    onnx.save(proto, path)
    with (
        compiled(proto, shapes={"n": (1, 2)}) as whole,
        compiled(path, shapes={"n": (1, 2)}) as family,
    ):
        assert family.family.to_bytes() == whole.family.to_bytes()
        os.utime(path, ns=(1, 1))
        with pytest.warns(LargerFileWarning):
            plain = family.family.to_bytes()
        x = numbers(5, 2, SIZE, 20, 20)
        with load_bytes(plain) as loaded:
            assert loaded(x)[0].tobytes() == family(x)[0].tobytes()


def test_a_small_model_keeps_no_file_open(tmp_path):
    path = tmp_path / "m.onnx"
    onnx.save(network(), path)
    with compiled(path) as model:
        assert not any(isinstance(each, Stored) for each in model.artifact.storage.aside._sources)
