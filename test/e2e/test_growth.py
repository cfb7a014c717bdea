"""The work of a compilation grows with the model, and not with its square: calls, counted."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import rcompiler
from rcompiler.driver import kernel_code
from rcompiler.kernelgen import task
from rcompiler.kernelgen.task import TaskEvaluator
from rcompiler.model import Model
from rcompiler.rammer import reuse
from rcompiler.roller.access import TensorAccess

_SIZES = 20, 40


def _float(name: str, shape: list[int]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def _concat(parts: int, shape: list[int]) -> onnx.ModelProto:
    inputs = [_float(f"x{k}", shape) for k in range(parts)]
    node = helper.make_node("Concat", [each.name for each in inputs], ["y"], axis=0)
    result = _float("y", [shape[0] * parts, *shape[1:]])
    graph = helper.make_graph([node], "g", inputs, [result])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _counted(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, model: onnx.ModelProto
) -> tuple[int, Model]:
    """Calls of a function while a model is compiled, all of it in this process; the model."""
    original: Callable[..., Any] = getattr(owner, name)
    calls = 0

    def counting(*given: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        return original(*given, **named)

    with monkeypatch.context() as patch:
        patch.setattr(kernel_code, "can_help", lambda: False)
        patch.setattr(owner, name, counting)
        compiled = rcompiler.compile_onnx(model, cache=False, eus=2)
    return calls, compiled


@pytest.mark.parametrize(
    "owner, name, shape",
    [
        (task, "_before", [4, 8]),
        (TaskEvaluator, "offsets", [1, 1]),
        (TensorAccess, "__eq__", [4, 24]),  # of this shape nothing was asked before
    ],
    ids=["chain of insertions", "same boxes", "accesses"],
)
def test_concat(monkeypatch, owner, name, shape):
    calls = []
    for parts in _SIZES:
        count, model = _counted(monkeypatch, owner, name, _concat(parts, shape))
        calls.append(count)
        values = [np.full(shape, k, np.float32) for k in range(parts)]
        assert (model(*values)[0] == np.concatenate(values)).all()
    assert calls[1] <= 2.2 * calls[0], f"{name}: {calls} calls for {_SIZES} parts"


def _recurrent(steps: int) -> onnx.ModelProto:
    """Two layers, each in both directions."""
    rng, hidden, nodes, weights = np.random.default_rng(0), 64, [], []
    for layer, features in enumerate((8, 2 * hidden)):
        for name, shape in {"w": (4 * hidden, features), "r": (4 * hidden, hidden)}.items():
            array = rng.standard_normal((2, *shape)).astype(np.float32)
            weights.append(numpy_helper.from_array(array, f"{name}{layer}"))
        names = [f"x{layer}", f"w{layer}", f"r{layer}"]
        both = {"hidden_size": hidden, "direction": "bidirectional"}
        nodes += [
            helper.make_node("LSTM", names, [f"y{layer}"], **both),
            helper.make_node("Transpose", [f"y{layer}"], [f"t{layer}"], perm=[0, 2, 1, 3]),
            helper.make_node("Reshape", [f"t{layer}", "shape"], [f"x{layer + 1}"]),
        ]
    weights.append(numpy_helper.from_array(np.array([steps, 1, 2 * hidden]), "shape"))
    ends = _float("x0", [steps, 1, 8]), _float("x2", [steps, 1, 2 * hidden])
    graph = helper.make_graph(nodes, "g", [ends[0]], [ends[1]], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_rows_that_loops_collect(monkeypatch):
    calls = [_counted(monkeypatch, reuse, "_pairs", _recurrent(steps))[0] for steps in _SIZES]
    assert calls[1] <= 2.2 * calls[0], f"{calls} pairs of operands for {_SIZES} steps"
