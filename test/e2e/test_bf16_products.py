"""Products of bf16 on every instruction set: sums in f32, rounded once to bf16."""

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import rcompiler

BF16, FLOAT = TensorProto.BFLOAT16, TensorProto.FLOAT
EPS = {"sum": np.finfo(np.float32).eps, "result": float(ml_dtypes.finfo(ml_dtypes.bfloat16).eps)}
CASES = {
    # op, shape of x, shape of the weights, attributes
    "product": ("MatMul", (5, 64), (64, 40), {}),
    "odd_depth": ("MatMul", (3, 37), (37, 33), {}),
    "batch": ("MatMul", (2, 3, 10), (2, 10, 36), {}),
    "one_row": ("MatMul", (1, 130), (130, 70), {}),
    "convolution": ("Conv", (1, 32, 7, 6), (24, 32, 3, 3), {"pads": [1, 1, 1, 1]}),
    "first_layer": ("Conv", (1, 3, 11, 9), (20, 3, 3, 3), {"strides": [2, 2]}),
    "grouped": ("Conv", (1, 32, 5, 5), (32, 16, 3, 3), {"group": 2}),
    "depthwise": ("Conv", (1, 24, 6, 6), (24, 1, 3, 3), {"group": 24}),
}


def bf16(array):
    return array.astype(np.float32).astype(ml_dtypes.bfloat16)


def model(names, x, w, kind):
    """One node per case with its own input and weights, of one type."""
    nodes, infos, outputs, weights = [], [], [], []
    for name in names:
        op, _, _, attributes = CASES[name]
        nodes.append(helper.make_node(op, [f"x_{name}", f"w_{name}"], [f"y_{name}"], **attributes))
        infos.append(helper.make_tensor_value_info(f"x_{name}", kind, x[name].shape))
        outputs.append(helper.make_tensor_value_info(f"y_{name}", kind, None))
        raw = bf16(w[name]) if kind == BF16 else w[name].astype(np.float32)
        weights.append(helper.make_tensor(f"w_{name}", kind, raw.shape, raw.tobytes(), raw=True))
    graph = helper.make_graph(nodes, "g", infos, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)])


@pytest.mark.parametrize("target", ["cpu", "cpu:v3", "cpu:x86-64"])
def test_products_of_bf16(target):
    rng = np.random.default_rng(11)
    x = {n: bf16(rng.standard_normal(c[1])) for n, c in CASES.items()}
    w = {n: bf16(rng.standard_normal(c[2])) for n, c in CASES.items()}
    run = rcompiler.compile_onnx(model(CASES, x, w, BF16), target=target, eus=1, cache=False)
    found = run(*x.values())

    def exact(x, w):
        single = {n: a.astype(np.float32) for n, a in x.items()}
        reference = ReferenceEvaluator(model(CASES, single, w, FLOAT))
        return reference.run(None, {f"x_{n}": a for n, a in single.items()})

    def sizes(values):
        return {n: np.abs(a.astype(np.float32)) for n, a in values.items()}

    for name, y, right, size in zip(
        CASES, found, exact(x, w), exact(sizes(x), sizes(w)), strict=True
    ):
        depth = np.prod(CASES[name][2][1:]) if CASES[name][0] == "Conv" else CASES[name][2][-2]
        bound = EPS["sum"] * np.sqrt(depth) * size + EPS["result"] / 2 * np.abs(right)
        assert (np.abs(y.astype(np.float32) - right) <= bound).all(), name
