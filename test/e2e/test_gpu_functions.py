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
