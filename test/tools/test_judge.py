"""tools/_judge.py, _double.py, _debug_nodes.py: what counts as right, which node is wrong."""

import argparse

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from rcompiler.frontend import registry
from rcompiler.tools import rc_run
from rcompiler.tools._debug_nodes import debug_nodes, value_names
from rcompiler.tools._double import exact
from rcompiler.tools._judge import Judge, rounded_types

F, F16, U8 = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.UINT8


def network(nodes, kind=F, shape=(2, 8), **weights):
    """x -> y."""
    inputs = [helper.make_tensor_value_info("x", kind, shape)]
    outputs = [helper.make_tensor_value_info("y", kind, None)]
    tensors = [numpy_helper.from_array(np.asarray(a), n) for n, a in weights.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def node(op, inputs, output, **attributes):
    return helper.make_node(op, inputs.split(), [output], name=f"the {output}", **attributes)


QUANTISED = network(
    [
        node("QuantizeLinear", "x scale zero", "q"),
        node("DequantizeLinear", "q scale zero", "d"),
        node("Relu", "d", "y"),
    ],
    scale=np.float32(0.05),
    zero=np.uint8(128),
)
HALF = network(
    [
        node("Cast", "x", "h", to=F16),
        node("Exp", "h", "e"),
        node("Cast", "e", "y", to=F),
    ]
)
PLAIN = network(
    [node("Exp", "x", "e"), node("MatMul", "e w", "m"), node("Relu", "m", "y")],
    w=np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8),
)
X = np.linspace(-2, 2, 16, dtype=np.float32).reshape(2, 8)


@pytest.mark.parametrize(
    ("model", "types"), [(QUANTISED, {"uint8"}), (HALF, {"float16"}), (PLAIN, set())]
)
def test_the_types_that_a_model_rounds_to(model, types):
    assert rounded_types(model) == types


@pytest.mark.parametrize(
    ("model", "allowed", "wrong"), [(QUANTISED, 0.05, 0.2), (HALF, 8e-3, 0.1), (PLAIN, 4e-5, 1e-2)]
)
def test_results_may_differ_by_what_was_rounded_and_not_more(model, allowed, wrong):
    want = exact(model, {"x": X})["y"].astype(np.float32)
    rms = np.sqrt(np.mean(want.astype(np.float64) ** 2))
    for share, right in ((allowed, True), (wrong, False)):
        got = want.copy()
        got[1, 3] += share * rms
        assert Judge(model, {"x": X})("y", got, want).right == right
    slight = want + np.float32(allowed * rms)
    assert not Judge(model, {"x": X}, 1e-6)("y", slight, want).right
    assert Judge(model, {"x": X}, 2.0)("y", slight, want).right


def test_quantised_values_may_be_the_next_ones():
    judge = Judge(QUANTISED, {"x": X})
    want = np.arange(16, dtype=np.uint8)
    assert judge("q", want + np.uint8(1), want).right
    assert not judge("q", want + np.uint8(2), want).right
    assert not Judge(PLAIN, {"x": X})("q", want + np.uint8(1), want).right


def test_where_the_reference_is_as_far_from_the_truth_we_are_right():
    """1 + 1e8 - 1e8: what is left of the 1 depends on the order of the additions."""
    model = network(
        [node("Add", "x big", "s"), node("Sub", "s big", "y")],
        big=np.full((2, 8), 1e6, np.float32),
    )
    x = np.full((2, 8), 1.03, np.float32)
    truth = exact(model, {"x": x})["y"]
    np.testing.assert_allclose(truth, 1.03, rtol=1e-7)
    theirs = np.full((2, 8), 1.0, np.float32)
    judge = Judge(model, {"x": x})
    assert judge("y", np.full((2, 8), 1.0625, np.float32), theirs).right
    assert not judge("y", np.full((2, 8), 1.3, np.float32), theirs).right
    assert not judge("y", np.full((2, 8), np.nan, np.float32), theirs).right


def test_float64_reaches_into_branches_and_constants():
    then = helper.make_graph(
        [helper.make_node("Constant", [], ["t"], value_float=0.1)], "t",
        [], [helper.make_tensor_value_info("t", F, [])],
    )  # fmt: skip
    nodes = [
        helper.make_node("If", ["yes"], ["c"], then_branch=then, else_branch=then),
        node("Mul", "x c", "y"),
    ]
    values = exact(network(nodes, yes=np.bool_(True)), {"x": X})
    assert values["y"].dtype == np.float64
    assert exact(network([node("Cast", "x", "y", to=F16)]), {"x": X})["y"].dtype == np.float64


def test_a_model_that_the_evaluator_cannot_run_has_no_exact_values():
    assert exact(network([node("MatMul", "x x", "y")]), {"x": X}) is None


# -- --debug=nodes -------------------------------------------------------------------------------


@pytest.fixture
def options():
    return argparse.Namespace(reference="onnx", tolerance=None)


def test_the_first_wrong_node_is_named(tmp_path, monkeypatch, capsys):
    path = tmp_path / "m.onnx"
    path.write_bytes(PLAIN.SerializeToString())
    assert rc_run.main([str(path), "--debug=nodes", "--eus=1"]) == 0
    assert capsys.readouterr().out.count("right") == 3
    assert registry.find("MatMul", "") is not registry.find("Exp", "")
    monkeypatch.setitem(registry._TABLE._entries, ("MatMul", ""), registry.find("Exp", ""))
    assert rc_run.main([str(path), "--debug=nodes", "--eus=1"]) == 1
    said = capsys.readouterr()
    assert said.out.count("WRONG") == 2
    assert "node 'the m' (MatMul) is the first that leaves its tolerance: value 'm'" in said.err


def test_compiled_files_are_refused(tmp_path, capsys):
    assert rc_run.main([str(tmp_path / "m.rcx"), "--debug=nodes"]) == 1
    assert "give its ONNX file in the place of this one" in capsys.readouterr().err


@pytest.mark.parametrize("bad", ["e", "m", "y"])
def test_what_fusion_hides_is_found_by_one_value_at_a_time(options, bad, capsys):
    """Right where all values are results; otherwise wrong from `bad` on."""
    names = value_names(PLAIN)
    assert names == ["e", "m", "y"]

    def run(model, feeds):
        values = exact(model, {"x": X})
        results = {v.name: values[v.name].astype(np.float32) for v in model.graph.output}
        if len(results) < 3:
            for name in names[names.index(bad) :]:
                if name in results:
                    results[name] = results[name] + 1
        return {"x": X}, results

    (message,) = debug_nodes(PLAIN, run, options)
    assert f"value '{bad}'" in message
    assert "it is right where all values are results" in message
    assert "WRONG" not in capsys.readouterr().out
