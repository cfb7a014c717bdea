"""Reductions of rows whose elements are made of reductions of the same rows, on a GPU."""

import re

import numpy as np
import pytest
from onnx import TensorProto, helper

import rcompiler

ROWS, COLUMNS = 8, 17


def statistics():
    """Mean and 1/deviation of each row of a softmax, beside what is normalised by them."""
    nodes = [
        helper.make_node("Softmax", ["x"], ["s"], axis=-1),
        helper.make_node("LayerNormalization", ["s", "scale"], ["y", "mean", "inverse"], axis=-1),
    ]
    shapes = {"x": (ROWS, COLUMNS), "scale": (COLUMNS,), "y": (ROWS, COLUMNS)}
    shapes |= {"mean": (ROWS, 1), "inverse": (ROWS, 1)}
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()]
    graph = helper.make_graph(nodes, "statistics", infos[:2], infos[2:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)


def turns_within_turns(text: str) -> int:
    """How many loops in which the lanes of a warp ask for results in turn are around another one,
    at most: each has as many rounds as a warp has lanes.
    """
    open_loops: list[bool] = []
    deepest = 0
    for line in text.splitlines():
        if re.search(r"\bgpu\.shuffle idx\b", line) and open_loops:
            open_loops[-1] = True
        deepest = max(deepest, sum(open_loops))
        if line.rstrip().endswith("{"):
            open_loops.append(False)
        elif line.strip().startswith("}"):
            open_loops.pop()
    return deepest


@pytest.mark.parametrize("target", ["cuda:emulated", "cuda:emulated-sm_90a"])
def test_the_lanes_of_a_warp_ask_for_a_row_in_turn_once(target: str):
    """While they share in the sum of one row, all ask for the same: 32 rounds, not 32 to the fourth
    power for a variance of exponentials over their sum, less their largest.
    """
    model = rcompiler.compile_onnx(statistics(), target=target, cache=False)
    assert turns_within_turns(model.stage("gpu")) == 1
    numbers = np.random.default_rng(3)
    x = numbers.standard_normal((ROWS, COLUMNS)).astype(np.float32)
    scale = numbers.standard_normal(COLUMNS).astype(np.float32)
    found = model(x=x, scale=scale)
    e = np.exp(x.astype(np.float64))
    s = e / e.sum(-1, keepdims=True)
    mean, inverse = s.mean(-1, keepdims=True), 1 / np.sqrt(s.var(-1, keepdims=True) + 1e-5)
    for got, want in zip(found, ((s - mean) * inverse * scale, mean, inverse), strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-6)
