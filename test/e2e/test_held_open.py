"""Sessions of large models have their weights once: the file stays open for what is compiled later,
and all programs read one block."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import rcompiler
from rcompiler.driver import left_in_files, model_source
from rcompiler.driver.finished_models import FinishedModels
from rcompiler.driver.model_source import ModelSource
from rcompiler.errors import InvalidModel
from rcompiler.fallback import Fallback
from rcompiler.frontend import load

SIZE = 160
WEIGHTS = SIZE * SIZE * 4


def numbers(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def network(*between):
    """Two products, for any number of rows. between: operators in the middle."""
    nodes = [helper.make_node("MatMul", ["x", "a"], ["h0"])]
    for number, op in enumerate(("Relu", *between)):
        domain = "own" if op == "Ours" else ""
        nodes.append(helper.make_node(op, [f"h{number}"], [f"h{number + 1}"], domain=domain))
    nodes.append(helper.make_node("MatMul", [f"h{len(between) + 1}", "b"], ["y"]))
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ("n", SIZE)) for n in "xy"]
    inits = [numpy_helper.from_array(numbers(s, SIZE, SIZE), n) for s, n in enumerate("ab")]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    graph = helper.make_graph(nodes, "g", infos[:1], infos[1:], inits)
    return helper.make_model(graph, ir_version=9, opset_imports=opsets)


@pytest.fixture(params=["file", "external"])
def path(request, tmp_path, monkeypatch):
    monkeypatch.setattr(model_source, "_HELD_OPEN", WEIGHTS)
    monkeypatch.setattr(left_in_files, "_MODEL", WEIGHTS)
    path = tmp_path / "m.onnx"
    external = {"save_as_external_data": True, "location": "w"} if request.param != "file" else {}
    onnx.save(network(), path, **external)
    return path


def weights_file(path):
    beside = path.with_name("w")
    return beside if beside.exists() else path


def answers(session, rows):
    return session.run(None, {"x": numbers(rows, rows, SIZE)})[0]


def test_what_is_compiled_later_needs_no_name_of_the_file(path):
    """Also what another process builds."""
    with (
        rcompiler.InferenceSession(network(), cache=False) as whole,
        rcompiler.InferenceSession(path, cache=False) as session,
    ):
        for each in {path, weights_file(path)}:
            each.unlink()
        for rows in (1, 4, 8, 6):
            assert answers(session, rows).tobytes() == answers(whole, rows).tobytes()
        source, growth = session._by_shape._model, session._by_shape.ranges.model.growth
        growth.add([(17, 24)])
        growth.wait(120)
        assert not growth.failed
        assert answers(session, 20).tobytes() == answers(whole, 20).tobytes()
        assert source._proto is source._data is None
        blocks = {each.artifact.constants.ctypes.data for each in session.programs}
        assert len(session.programs) > 2
        assert len(blocks) == 1


def test_what_was_written_to_is_refused(path):
    with rcompiler.InferenceSession(path, cache=False) as session:
        answers(session, 1)
        file = weights_file(path)
        file.write_bytes(file.read_bytes() + b" ")
        answers(session, 1)
        with pytest.raises(InvalidModel, match="was written to"):
            answers(session, 4)


def test_a_small_model_is_read_when_the_session_is_made(path, monkeypatch):
    monkeypatch.setattr(model_source, "_HELD_OPEN", 1 << 30)
    with rcompiler.InferenceSession(path, cache=False) as session:
        for each in {path, weights_file(path)}:
            each.write_bytes(b"another")
        assert answers(session, 4).shape == (4, SIZE)


def test_a_model_without_its_weights_has_the_digest_of_the_whole_one(path, tmp_path):
    cache = FinishedModels(tmp_path / "cache")
    with load.opened(path) as light:
        assert light.ByteSize() < WEIGHTS
        assert load.whole(light) == network()
        digests = {ModelSource(each).digest(cache) for each in (light, network())}
    assert len(digests) == 1
    assert load.whole(network()) == network()


def test_the_largest_program_of_a_file(path):
    """And those that are built later, when the file is gone."""
    given = {"cache": False, "shapes": {"n": range(1, 33)}, "build": "largest"}
    with rcompiler.compile_onnx(path, **given) as model:
        for each in {path, weights_file(path)}:
            each.unlink()
        model.build()
        with rcompiler.compile_onnx(network(), **given) as whole:
            x = numbers(3, 3, SIZE)
            assert model(x)[0].tobytes() == whole(x)[0].tobytes()
        assert all(each.state == "built" for each in model.wait(120))


def test_parts_around_a_function_read_the_file(tmp_path, path):
    proto = network("Ours", "Tanh")
    onnx.save(proto, path)
    fallback = {"own::Ours": Fallback(lambda x: x + 1, shapes=lambda x: [x])}
    given = {"cache": False, "shapes": {"n": 4}, "fallback": fallback}
    with rcompiler.compile_onnx(path, **given) as model:
        path.unlink()
        x = numbers(4, 4, SIZE)
        with rcompiler.compile_onnx(proto, **given) as whole:
            assert model(x)[0].tobytes() == whole(x)[0].tobytes()
