"""Operators that are one rTask among those that are many, and waves of many operators."""

import json

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import rcompiler
from rcompiler.compile import compile_policies
from rcompiler.model import REPORT
from rcompiler.options import Scheduler

POLICIES = ["base", "wave", "bsp", "rammer", "list", "dynamic"]
ROWS, WIDTH, KEPT = 32, 640, 8


def model_of(nodes, weights, inputs, outputs):
    def infos(shapes):
        return [
            helper.make_tensor_value_info(name, kind, shape)
            for name, (kind, shape) in shapes.items()
        ]

    stored = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "g", infos(inputs), infos(outputs), stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def picked():
    """Two products; the largest elements of the sum of them, found one by one, are looked at by a
    third product and written back over the first, beside a branch that does not care.
    """
    rng = np.random.default_rng(3)
    node = helper.make_node
    nodes = [
        node("MatMul", ["x", "w0"], ["a"]),
        node("MatMul", ["x", "w1"], ["b"]),
        node("Tanh", ["b"], ["side"]),
        node("Add", ["a", "b"], ["sum"]),
        node("TopK", ["sum", "k"], ["values", "at"], axis=1),
        node("MatMul", ["values", "w2"], ["seen"]),
        node("Softmax", ["seen"], ["weighed"], axis=1),
        node("ScatterElements", ["a", "at", "weighed"], ["back"], axis=1),
        node("Mul", ["back", "side"], ["y"]),
    ]
    weights = {
        "w0": rng.standard_normal((48, WIDTH), dtype=np.float32),
        "w1": rng.standard_normal((48, WIDTH), dtype=np.float32),
        "w2": rng.standard_normal((KEPT, KEPT), dtype=np.float32),
        "k": np.array([KEPT]),
    }
    outputs = {
        "y": (TensorProto.FLOAT, [ROWS, WIDTH]),
        "at": (TensorProto.INT64, [ROWS, KEPT]),
    }
    return model_of(nodes, weights, {"x": (TensorProto.FLOAT, [ROWS, 48])}, outputs)


def operators_of(model):
    """Name -> (kind, rTasks) of the operators of a compiled model."""
    report = json.loads(model.artifact.stages[REPORT])
    return {op["name"]: (op["kind"], op["tasks"]) for op in report["operators"]}


@pytest.mark.parametrize("eus", [1, 2, 5])
def test_sequential_operators_are_scheduled_among_tiled_ones(eus, monkeypatch):
    monkeypatch.setenv("RC_CACHE_DIR", "")
    model = picked()
    x = np.random.default_rng(0).standard_normal((ROWS, 48), dtype=np.float32)
    want = ReferenceEvaluator(model).run(None, {"x": x})
    compiled = compile_policies(model, [*map(Scheduler, POLICIES)], eus=eus)
    bits = set()
    for (policy, _), found in compiled.items():
        y, at = found(x)
        found.close()
        operators = operators_of(found)
        loops = [tasks for kind, tasks in operators.values() if kind == "sequential"]
        assert len(loops) >= 2
        if eus > 1:
            assert max(loops) > 1  # rows apart
            assert max(tasks for kind, tasks in operators.values() if kind == "contraction") > 1
        if policy == "base":
            assert len(found.artifact.programs) == len(operators)
        elif policy in ("bsp", "list", "dynamic"):
            assert len(found.artifact.programs) == 1
        np.testing.assert_array_equal(at, want[1])
        np.testing.assert_allclose(y, want[0], rtol=1e-4, atol=1e-4)
        bits.add(y.tobytes())
    assert len(bits) == 1


def test_a_wave_of_300_operators_runs():
    """One launch of all of them: no table has a limit that cuts it."""
    rows, width = 300, 24
    node = helper.make_node
    names = [f"r{i}" for i in range(rows)]
    nodes = [node("Split", ["x"], names, axis=0, num_outputs=rows)]
    nodes += [node("Softmax", [name], [f"s{name}"], axis=1) for name in names]
    nodes += [node("ReduceMax", [f"s{name}"], [f"y_{name}"], keepdims=1) for name in names]
    x = np.random.default_rng(1).standard_normal((rows, width), dtype=np.float32)
    inputs = {"x": (TensorProto.FLOAT, [rows, width])}
    outputs = {f"y_{name}": (TensorProto.FLOAT, [1, 1]) for name in names}
    model = model_of(nodes, {}, inputs, outputs)
    compiled = rcompiler.compile_onnx(model, eus=2, policy="wave", cache=False)
    found = np.concatenate(compiled(x))
    want = np.concatenate(ReferenceEvaluator(model).run(None, {"x": x}))
    np.testing.assert_allclose(found, want, rtol=1e-5)
    launches = [len(set().union(*program.operators)) for program in compiled.artifact.programs]
    assert launches == [rows, rows]
