"""The text of each stage, with the weights in the .npz beside it, is compiled on: equal results."""

import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import rcompiler
from rcompiler.tools import rc_compile, rc_opt

X = np.random.default_rng(1).standard_normal((8, 64)).astype(np.float32)
# What is left to do, from each stage to a text that rc-compile takes; None: nothing.
REST = {
    "linalg": "rc-cpu{{device=cpu target=cpu precision={}}}",
    "rtask": "rc-rtask-to-vdevice{{eus=2}},rc-tile-kernels",
    "rkernel": "rammer-schedule{{eus=2}},rc-tile-kernels",
    "vdevice": None,
    "schedule": None,
}


def network():
    """Whose batch norm is folded into weights, which are then packed, or in another type."""
    draw = np.random.default_rng(0).standard_normal
    weights = {"w1": (64, 128), "b1": (128,), "w2": (128, 32)}
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["a"]),
        helper.make_node("Add", ["a", "b1"], ["b"]),
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("MatMul", ["c", "w2"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 64])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 32])
    arrays = [numpy_helper.from_array(draw(s).astype("f"), n) for n, s in weights.items()]
    graph = helper.make_graph(nodes, "g", [x], [y], arrays)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.parametrize("precision", ["f32", "bf16", "w8", "w4"])
def test_a_stage_has_its_weights_beside_it(tool, precision, tmp_path, monkeypatch):
    monkeypatch.setenv("RC_CACHE_DIR", str(tmp_path / "cache"))
    onnx.save(network(), "m.onnx")
    common = ("m.onnx", "--shapes=n=8", "--device=default", f"--precision={precision}")
    assert tool(rc_compile.main, *common, "-o", "m.rcx")[0] == 0  # which is in the cache then
    right = rcompiler.load("m.rcx")(X)[0]
    for stage, rest in REST.items():
        file = f"{stage}.schedule" if stage == "schedule" else f"{stage}.mlir"
        code, _, err = tool(rc_compile.main, *common, f"--emit={stage}", "-o", file)
        assert code == 0, err
        with np.load(f"{stage}.npz") as weights, open(file) as text:
            named = {*re.findall(r"dense_resource<(\w+)>", text.read())}
            assert {*weights.files} == named or rest is None
        if rest is not None:
            done = [file, "-p", rest.format(precision), "-o", "done.mlir"]
            assert tool(rc_opt.main, *done)[0] == 0
            file = "done.mlir"
        code, _, err = tool(rc_compile.main, file, "-o", "again.rcx")
        assert code == 0, err
        assert np.array_equal(rcompiler.load("again.rcx")(X)[0], right), stage


def test_a_stage_of_several_programs_has_the_weights_of_the_one_that_is_printed(tool):
    onnx.save(network(), "m.onnx")
    common = ("m.onnx", "--shapes=n=2+8", "--device=default", "--emit=rkernel", "-o", "k.mlir")
    assert tool(rc_compile.main, *common)[0] == 0
    with np.load("k.npz") as weights, open("k.mlir") as text:
        assert {*weights.files} == {*re.findall(r"dense_resource<(\w+)>", text.read())}
