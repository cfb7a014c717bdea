"""Weights that protobuf does not see: those of the file or the bytes, and nobody else's."""

import os
import random
import sys
import threading
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "support")]

from bad_models import graph_model  # noqa: E402
from fuzz.mutate_models import mutated, with_other_fields  # noqa: E402

import rcompiler  # noqa: E402
from rcompiler.errors import CompilerError, InvalidModel  # noqa: E402
from rcompiler.frontend import load  # noqa: E402
from rcompiler.frontend.weights_outside import LARGE, is_outside  # noqa: E402

COUNT = LARGE + 1  # elements: of whatever type a weight is large
TYPES = [
    *("float32", "float64", "float16", "int8", "uint8", "int32", "int64", "bool"),
    *(ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.int4, ml_dtypes.uint4),
]


def weights():
    """A large one of each type (of which two are in a byte, twice as large), and a small one."""
    numbers = np.random.default_rng(0).integers(0, 2, 2 * COUNT)
    for kind in map(np.dtype, TYPES):
        count = 2 * COUNT if "int4" in kind.name else COUNT
        yield numpy_helper.from_array(numbers[:count].astype(kind), kind.name)
    yield numpy_helper.from_array(np.arange(3, dtype=np.float32), "small")


def model():
    node = helper.make_node("Relu", ["x"], ["y"], "act")
    return graph_model([node], weights=weights())


def network(seed=0):
    """y = x w + b, with a w that is large."""
    chosen = np.random.default_rng(seed)
    w = numpy_helper.from_array(chosen.standard_normal((64, 512), np.float32), "w")
    b = numpy_helper.from_array(chosen.standard_normal(512, np.float32), "b")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["t"]), helper.make_node("Add", "tb", "y")]
    return graph_model(nodes, [("x", (2, 64))], [("y", (2, 512))], [w, b])


@pytest.fixture(params=["file", "external", "bytes"])
def kept(request, tmp_path):
    """A function that keeps a model somewhere, and returns what it is opened by."""

    def keep(proto):
        path = tmp_path / "m.onnx"
        if request.param == "bytes":
            return proto.SerializeToString()
        external = request.param == "external"
        options = {"location": "w.bin", "size_threshold": 0} if external else {}
        onnx.save(proto, path, save_as_external_data=external, **options)
        return path

    return keep


def test_weights_are_those_that_protobuf_reads(kept):
    given = kept(model())
    whole = load.load(given).graph.initializer
    with load.opened(given) as light:
        assert [is_outside(t) for t in light.graph.initializer] == [True] * len(TYPES) + [False]
        assert light.ByteSize() < LARGE
        for tensor, expected in zip(light.graph.initializer, whole, strict=True):
            found, array = load.array_of(tensor), load.array_of(expected)
            assert found.dtype == array.dtype
            assert np.array_equal(found, array)
            assert found.flags.writeable <= array.flags.writeable


def test_what_is_compiled_is_the_same(kept):
    proto = network()
    whole = rcompiler.compile_onnx(proto, cache=False)
    light = rcompiler.compile_onnx(kept(proto), cache=False)
    for stage in ("linalg", "vdevice", "llvm"):
        assert light.stage(stage) == whole.stage(stage)
    expected = whole.constants()
    assert light.constants().keys() == expected.keys()
    for key, array in light.constants().items():
        assert np.array_equal(array, expected[key])


def test_behind_the_context_there_are_no_weights(kept):
    with load.opened(kept(model())) as light:
        pass
    with pytest.raises(InvalidModel, match="not loaded"):
        load.array_of(light.graph.initializer[0])


def test_a_model_cannot_name_the_weights_of_another(tmp_path):
    (tmp_path / "m.onnx").write_bytes(network().SerializeToString())
    with load.opened(tmp_path / "m.onnx") as light:
        names = {entry.value for entry in light.graph.initializer[0].external_data}
    with load.opened(tmp_path / "m.onnx") as light:
        again = {entry.value for entry in light.graph.initializer[0].external_data}
        assert len(names - again) == 1  # the name; not the place
        stranger = network(1)
        stranger.graph.initializer[0].CopyFrom(light.graph.initializer[0])
    with pytest.raises(InvalidModel, match="not loaded"):
        rcompiler.compile_onnx(stranger, cache=False)


def test_a_file_that_is_written_to_while_it_is_read(tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(network().SerializeToString())
    with load.opened(path) as light:
        load.array_of(light.graph.initializer[0])
        path.write_bytes(network(1).SerializeToString() + b" ")
        with pytest.raises(InvalidModel, match="'w' .* written to while it was read"):
            load.array_of(light.graph.initializer[0])


def test_a_pipe_is_read_once(tmp_path):
    path, data = tmp_path / "pipe", network().SerializeToString()
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(data,))
    writer.start()
    with load.opened(path) as whole:
        assert whole.SerializeToString() == data
    writer.join()


@pytest.mark.parametrize("seed", range(4))
def test_damaged_bytes_are_read_as_protobuf_reads_them(seed):
    """The same model, or refused."""
    data, chosen = network().SerializeToString(), random.Random(seed)
    for number in range(60):
        mutant = data if not number else chosen.choice([mutated, with_other_fields])(data, chosen)
        try:
            whole = load.load(mutant)
        except CompilerError:
            with pytest.raises(CompilerError), load.opened(mutant):
                pass
            continue
        with load.opened(mutant) as light:
            for tensor in light.graph.initializer:
                if is_outside(tensor):
                    tensor.raw_data = load.raw_bytes(tensor).tobytes()
                    tensor.ClearField("data_location")
                    del tensor.external_data[:]
            assert light.SerializeToString() == whole.SerializeToString()


def test_a_tensor_whose_bytes_do_not_fit_is_named(kept):
    proto = network()
    del proto.graph.initializer[0].dims[:]
    proto.graph.initializer[0].dims.extend([64, 513])
    proto.graph.initializer[0].data_type = TensorProto.FLOAT
    with load.opened(kept(proto)) as light, pytest.raises(InvalidModel, match="'w' of dims"):
        load.array_of(light.graph.initializer[0])


def test_what_is_no_model_is_named():
    with pytest.raises(InvalidModel, match="not NoneType"):
        rcompiler.compile_onnx(None, cache=False)
