"""denormals="zero": on all EUs, in files, sessions, copies and beside models without it."""

import copy

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import rcompiler
from rcompiler.driver.denormal_weights import note_of
from rcompiler.errors import CompilerError
from rcompiler.tools import rc_compile

_TINY = np.float32(1e-39)


def _model(weights: np.ndarray, batch: str = "64"):
    model = parser.parse_model(
        '<ir_version: 10, opset_import: ["": 21]>'
        f"g (float[{batch},64] x) => (float[{batch},64] y) {{ a = MatMul(x, w) y = Add(a, b) }}"
    )
    bias = np.zeros(64, np.float32)
    for name, array in (("w", weights), ("b", bias)):
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    return model


_WEIGHTS = np.linspace(1, 2, 4096, dtype=np.float32).reshape(64, 64) * _TINY
_X = np.ones((64, 64), np.float32)


@pytest.fixture(scope="module")
def models():
    """Of denormal weights: numbers as they are, and zeros in their place."""
    keep, zero = (
        rcompiler.compile_onnx(_model(_WEIGHTS), eus=2, cache=False, **options)
        for options in ({}, {"denormals": "zero"})
    )
    return keep, zero


def test_operands_and_results_are_zeros_on_all_eus(models):
    keep, zero = models
    assert (keep(_X)[0] > 0).all() and not zero(_X)[0].any()
    assert (keep(_X)[0] > 0).all()  # of one thread of the caller, in turns
    products = parser.parse_model(
        '<ir_version: 10, opset_import: ["": 21]> g (float[4096] x, float[4096] w) => '
        "(float[4096] y, float[4096] z) { y = Mul(x, w) big = Mul(y, k) z = Mul(big, k) "
        "k = Constant<value = float {1e20}>() }"
    )
    small = np.full(4096, 1e-20, np.float32)
    wanted = (small.astype(np.float64) ** 2 * 1e40).astype(np.float32)
    found = [
        rcompiler.compile_onnx(_sorted(products), eus=2, cache=False, denormals=which)(small, small)
        for which in ("keep", "zero")
    ]
    assert (found[0][0] > 0).all() and np.allclose(found[0][1], wanted, 1e-4)
    assert not np.any(found[1])


def _sorted(model):
    nodes = [model.graph.node[k] for k in (3, 0, 1, 2)]
    made = onnx.ModelProto()
    made.CopyFrom(model)
    del made.graph.node[:]
    made.graph.node.extend(nodes)
    return made


def test_files_copies_and_bindings_are_alike(models, tmp_path):
    for model, zeros in zip(models, (False, True), strict=True):
        model.save(tmp_path / "m.rcx")
        binding = model.bind([_X])
        binding()
        loaded = rcompiler.load(tmp_path / "m.rcx")
        others = loaded(_X)[0], copy.copy(model)(_X)[0], binding.outputs[0]
        assert [not array.any() for array in others] == [zeros] * 3
        assert loaded.artifact.certificate == model.artifact.certificate
    assert models[0].artifact.certificate != models[1].artifact.certificate


def test_models_that_take_turns_on_one_team():
    """One for each of two sizes, in a process that runs others, too."""
    keep, zero = (
        rcompiler.compile_onnx(
            _model(_WEIGHTS, "N"), shapes={"N": [8, 64]}, eus=2, cache=False, denormals=which
        )
        for which in ("keep", "zero")
    )
    for _ in range(2):
        for rows in (8, 64, 8):
            assert (keep(_X[:rows])[0] > 0).all() and not zero(_X[:rows])[0].any()


def test_a_session_hears_the_entry_of_onnxruntime(tmp_path):
    path = tmp_path / "m.onnx"
    onnx.save(_model(_WEIGHTS), path)
    for value, zeros in (("0", False), ("1", True)):
        options = rcompiler.SessionOptions()
        options.add_session_config_entry("session.set_denormal_as_zero", value)
        session = rcompiler.InferenceSession(path, options)
        assert session.notes == ()
        assert (not session.run(None, {"x": _X})[0].any()) == zeros
    options.add_session_config_entry("session.set_denormal_as_zero", "yes")
    with pytest.raises(CompilerError, match="'session.set_denormal_as_zero' is 'yes': give '0'"):
        rcompiler.InferenceSession(path, options)


def test_options_of_onnxruntime_itself():
    theirs = pytest.importorskip("onnxruntime").SessionOptions()
    theirs.add_session_config_entry("session.set_denormal_as_zero", "1")
    session = rcompiler.InferenceSession(_model(_WEIGHTS).SerializeToString(), theirs)
    assert not session.run(None, {"x": _X})[0].any()


def test_a_compiled_file_is_as_it_was_compiled(models, tmp_path):
    models[0].save(tmp_path / "m.rcx")
    options = rcompiler.SessionOptions()
    options.add_session_config_entry("session.set_denormal_as_zero", "1")
    with pytest.warns(UserWarning, match="set_denormal_as_zero changes nothing: the model is comp"):
        rcompiler.InferenceSession(tmp_path / "m.rcx", options)


def test_the_report_says_which_and_of_denormal_weights_what_helps(models):
    keep, zero = models
    wanted = "about 100.0% of the weights are denormal numbers"
    assert keep.report().note.startswith(wanted) and "denormals='zero'" in keep.report().note
    assert zero.report().note == "denormal numbers are taken for zeros"


def test_few_denormal_weights_are_no_note():
    few = np.ones(10_000, np.float32)
    assert note_of([few]) is None and note_of([]) is None
    few[:3] = _TINY
    assert note_of([few, np.arange(9)]) is None
    few[:1000] = -_TINY
    assert "about 10.0%" in str(note_of([few]))
    few[:1000] = 0
    assert note_of([few]) is None


def test_other_values_and_targets_are_refused():
    with pytest.raises(CompilerError, match="denormals 'flush' is none of keep, zero"):
        rcompiler.compile_onnx(_model(_WEIGHTS), denormals="flush")
    with pytest.raises(CompilerError, match="denormals='zero' is for CPUs"):
        rcompiler.compile_onnx(_model(_WEIGHTS), denormals="zero", target="cuda:emulated")


def test_on_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    onnx.save(_model(_WEIGHTS), "m.onnx")
    assert rc_compile.main(["m.onnx", "--denormals=zero", "-o", "m.rcx"]) == 0
    assert not rcompiler.load("m.rcx")(_X)[0].any()
