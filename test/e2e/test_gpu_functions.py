"""Functions of f64 on a GPU, which has no library of them: to f64's own precision."""

import math

import numpy as np
import pytest
from onnx import TensorProto, helper

import rcompiler

FUNCTIONS = {
    "Exp": np.exp, "Log": np.log, "Sin": np.sin, "Cos": np.cos, "Tan": np.tan, "Asin": np.arcsin,
    "Acos": np.arccos, "Atan": np.arctan, "Sinh": np.sinh, "Cosh": np.cosh, "Tanh": np.tanh,
    "Asinh": np.arcsinh, "Atanh": np.arctanh, "Erf": np.vectorize(math.erf),
    "Softplus": lambda x: np.log1p(np.exp(x)), "Elu": lambda x: np.where(x > 0, x, np.expm1(x)),
}  # fmt: skip


@pytest.mark.parametrize("target", ["cuda:emulated", "cuda:emulated-sm_90a"])
def test_functions_of_f64(target: str):
    """All in one model."""
    x = np.linspace(0.01, 0.99, 23)
    nodes = [helper.make_node(op, ["x"], [op]) for op in FUNCTIONS]
    nodes += [helper.make_node("Pow", ["x", "y"], ["Pow"])]
    nodes += [helper.make_node("Mod", ["y", "x"], ["Mod"], fmod=1)]
    infos = [helper.make_tensor_value_info(n, TensorProto.DOUBLE, x.shape) for n in "xy"]
    results = [*FUNCTIONS, "Pow", "Mod"]
    outs = [helper.make_tensor_value_info(n, TensorProto.DOUBLE, x.shape) for n in results]
    graph = helper.make_graph(nodes, "functions", infos, outs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    y = np.linspace(-30, 70, 23)
    found = rcompiler.compile_onnx(model, target=target)(x=x, y=y)
    exact = [*(fn(x) for fn in FUNCTIONS.values()), np.power(x, y), np.fmod(y, x)]
    for name, got, want in zip(results, found, exact, strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-15, err_msg=name)


@pytest.mark.parametrize("target", ["cuda:emulated", "cuda:emulated-sm_90a"])
@pytest.mark.parametrize("shape", [[], [1], [3], [5], [2, 33]])
def test_a_result_in_place_of_its_operand_is_read_before_it_is_stored(target: str, shape: list):
    """By the thread that stores it, and by no other: of fewer elements than threads, too."""
    x = np.linspace(-0.6, 0.61, math.prod(shape)).astype(np.float32).reshape(shape)
    names = ["x", "a", "b", "c"]
    nodes = [helper.make_node("Tan", [a], [b]) for a, b in zip(names, names[1:], strict=False)]
    nodes.append(helper.make_node("Mod", ["c", "by"], ["y"], fmod=1))
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in ("x", "y")]
    by = helper.make_tensor("by", TensorProto.FLOAT, [], [0.25])
    graph = helper.make_graph(nodes, "chain", infos[:1], infos[1:], [by])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    [found] = rcompiler.compile_onnx(model, target=target, fusion=False, eus=1)(x=x)
    right = np.tan(np.tan(np.tan(x.astype(np.float64)))).astype(np.float32)
    np.testing.assert_allclose(found, np.fmod(right, np.float32(0.25)), rtol=1e-3, atol=2e-5)
