"""Sums and functions of f32 give the same bits on each level of CPUs that fuses multiply-adds."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.levels import HERE

import rcompiler
from rcompiler.tools import models

FUSING = [f"cpu:{level}" for level in HERE if level != "x86-64"]

pytestmark = pytest.mark.skipif(len(FUSING) < 2, reason="this host has one such level at most")


def node(op, inputs="x", **attributes):
    return helper.make_node(op, inputs.split(), ["y"], **attributes)


CASES = {
    "row sums": (node("ReduceSum", "x axis"), (40, 777)),
    "row means": (node("ReduceMean", "x axis"), (40, 36)),
    "short rows": (node("ReduceSum", "x axis"), (40, 13)),
    "row products": (node("ReduceProd", "x axis"), (40, 200)),
    "row norms": (node("ReduceL2", "x axis"), (40, 200)),
    "log of sums": (node("ReduceLogSumExp", "x axis"), (40, 200)),
    "softmax": (node("Softmax"), (12, 33, 129)),
    "log of softmax": (node("LogSoftmax"), (12, 130)),
    "layer norm": (node("LayerNormalization", "x scale"), (30, 200)),
    "product": (node("MatMul", "x scales"), (30, 200)),
    "one row": (node("MatMul", "x scales"), (1, 200)),
    **{op: (node(op), (40, 777)) for op in ("Erf", "Exp", "Gelu", "Log", "Sigmoid", "Tanh")},
}


def result(target, case):
    made, shape = CASES[case]
    random = np.random.default_rng(0)
    constants = {
        "axis": np.array([-1]),
        "scale": random.standard_normal(200, np.float32),
        "scales": random.standard_normal((200, 50), np.float32),
    }
    graph = helper.make_graph(
        [made],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(a, n) for n, a in constants.items() if n in made.input],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    x = random.standard_normal(shape, np.float32)
    return rcompiler.compile_onnx(model, target=target, eus=1)(abs(x) if case == "Log" else x)[0]


@pytest.mark.parametrize("case", CASES)
def test_an_operator(case):
    first, *others = (result(target, case) for target in FUSING)
    for other in others:
        np.testing.assert_array_equal(first.view(np.int32), other.view(np.int32))


def test_a_layer_of_bert():
    model = models.build("bert_block", seed=3)
    x = [np.random.default_rng(0).standard_normal((1, 128, 768), np.float32)]
    first, *others = (rcompiler.compile_onnx(model, target=t, eus=1)(*x)[0] for t in FUSING)
    for other in others:
        np.testing.assert_array_equal(first.view(np.int32), other.view(np.int32))
