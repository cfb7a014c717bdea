"""C++ of the onnx package that ends its process: nothing of it reaches the process of the user."""

import random
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "support")]

from bad_models import graph_model, relu  # noqa: E402
from dying_worker import KINDS, dying_workers  # noqa: E402
from fuzz.mutate_models import mutated, with_other_fields  # noqa: E402

import rcompiler  # noqa: E402
from rcompiler.codegen import emit  # noqa: E402
from rcompiler.errors import CompilerError, InvalidModel, UnsupportedOp  # noqa: E402
from rcompiler.frontend import check, import_onnx  # noqa: E402
from rcompiler.frontend.declared import declared  # noqa: E402
from rcompiler.support import onnx_worker  # noqa: E402
from rcompiler.support.workers import Workers  # noqa: E402


@pytest.fixture
def dying(monkeypatch: pytest.MonkeyPatch):
    """A function of the kinds of questions at which the worker ends."""

    def dies_at(kinds: bytes) -> list[str]:
        """How it ended, each time."""
        ends: list[str] = []

        class Died(onnx_worker.OnnxDied):
            def __init__(self, died):
                super().__init__(died)
                ends.append(self.how)

        monkeypatch.setenv(KINDS, kinds.decode())
        monkeypatch.setattr(onnx_worker, "_WORKERS", dying_workers())
        monkeypatch.setattr(onnx_worker, "OnnxDied", Died)
        return ends

    return dies_at


def _of_a_function():
    """A node that is compiled as the function that the standard's C++ writes for it."""
    node = helper.make_node("CenterCropPad", ["x", "s"], ["y"], axes=[1])
    size = helper.make_tensor("s", TensorProto.INT64, [1], [1])
    model = graph_model([node], outputs=[("y", (2, 1))], weights=[size])
    model.opset_import[0].version = 18
    return model


def _checked():
    with pytest.raises(InvalidModel, match=r"onnx\.checker .* \(signal SIGSEGV\)"):
        import_onnx(relu())


def _typed():
    model = relu()
    model.graph.output[0].type.tensor_type.ClearField("shape")
    [y] = declared(model).outputs
    assert y.shape is None


def _typed_after_a_gap():
    node = helper.make_node("StringNormalizer", ["x"], ["y"])
    model = graph_model([node])
    [gap, *_] = check(model)
    assert gap.op == "StringNormalizer"


def _expanded():
    with pytest.raises(UnsupportedOp, match=r"'CenterCropPad_0'.* \(signal SIGSEGV\)"):
        import_onnx(_of_a_function())


# For each kind of question what asks it, and what becomes of whoever does.
ASKED = {
    onnx_worker.CHECK: _checked,
    onnx_worker.GRAPH_TYPES: _typed,
    onnx_worker.NODE_TYPES: _typed_after_a_gap,
    onnx_worker.BODY: _expanded,
}


@pytest.mark.parametrize("kind", onnx_worker._ANSWERS)
def test_a_worker_that_dies_ends_nobody_else(kind: bytes, dying):
    ends = dying(kind)
    ASKED[kind]()
    assert set(ends) == {"signal SIGSEGV"}


def test_the_worker_answers_what_the_package_says():
    assert import_onnx(_of_a_function()).outputs[0].shape == (2, 1)
    wrong = graph_model([helper.make_node("Relu", ["x", "x"], ["y"])])
    with pytest.raises(InvalidModel, match="Relu"):
        import_onnx(wrong)


@pytest.mark.parametrize("why", ["no process", "no package"])
def test_where_no_process_can_be_started_the_model_is_checked_here(why, monkeypatch):
    def refuse(*_):
        raise OSError(why)

    if why == "no process":
        monkeypatch.setattr(Workers, "borrow", refuse)
    monkeypatch.setattr(onnx_worker, "_WORKERS", Workers("a_module_that_is_not_there"))
    assert import_onnx(_of_a_function()).outputs[0].shape == (2, 1)
    with pytest.raises(InvalidModel, match="Relu"):
        import_onnx(graph_model([helper.make_node("Relu", ["x", "x"], ["y"])]))


def test_llvm_that_dies_ends_nobody_else(dying, monkeypatch):
    monkeypatch.setenv(KINDS, "{")  # how a question to LLVM begins
    monkeypatch.setattr(emit, "_WORKERS", dying_workers())
    with pytest.raises(CompilerError, match=f"LLVM ended with status -{int(signal.SIGSEGV)}"):
        rcompiler.compile_onnx(relu(), cache=False)


@pytest.mark.parametrize("seed", range(3))
def test_damaged_models_and_a_worker_that_dies_at_some(seed: int, dying):
    ends = dying(b"?")
    data, chosen = _of_a_function().SerializeToString(), random.Random(seed)
    for _ in range(15):
        mutant = chosen.choice([mutated, with_other_fields])(data, chosen)
        try:
            import_onnx(mutant)
        except CompilerError as error:
            assert "defect of the compiler" not in str(error)
    assert set(ends) == {"signal SIGSEGV"}


def test_a_value_of_the_right_numbers_comes_through():
    model = rcompiler.compile_onnx(_of_a_function(), cache=False)
    given = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert np.array_equal(model(given)[0], given[:, 1:2])
