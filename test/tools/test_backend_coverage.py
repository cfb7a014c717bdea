"""How backend_coverage judges a case."""

import unittest

import pytest
from onnx import helper

from rcompiler.errors import ShapeError, UnsupportedOp
from rcompiler.tools import backend_coverage, models


def ending_in(error):
    def test(_):
        raise error

    return test


@pytest.mark.parametrize(
    "error, status, reason",
    [
        (ShapeError("no shape"), "refused", "no shape"),
        (UnsupportedOp("no op"), "refused", "no op"),
        (unittest.SkipTest("not here"), "refused", "skipped: not here"),
        (AssertionError("1 is not 2"), "wrong", "1 is not 2"),
        (KeyError("k"), "crash", "KeyError at test_backend_coverage.py"),
    ],
)
def test_statuses(error, status, reason):
    found = backend_coverage.run_test(ending_in(error))
    assert found[0] == status and found[1].startswith(reason)


def test_nothing_raised_is_a_pass():
    assert backend_coverage.run_test(lambda _: None) == ("pass", "")


def test_operator_of():
    assert backend_coverage.operator_of(models.build("mlp")) == "Gemm"
    node = helper.make_node("LabelEncoder", ["x"], ["y"], domain="ai.onnx.ml")
    empty = helper.make_node("Constant", [], ["c"])
    for nodes, name in [
        ([node, empty], "ai.onnx.ml.LabelEncoder"),
        ([empty], "Constant"),
        ([], "none"),
    ]:
        graph = helper.make_graph(nodes, "g", [], [])
        assert backend_coverage.operator_of(helper.make_model(graph)) == name


def test_reasons_are_grouped_without_their_numbers():
    assert backend_coverage._brief("node 'a7' has 3 inputs\n not 4") == (
        "node '…' has # inputs not #"
    )
    assert len(backend_coverage._brief("x" * 500)) == 100


def test_wrong_pattern_is_one_line(capsys):
    with pytest.raises(SystemExit) as caught:
        backend_coverage.main(["--only=("])
    assert caught.value.code == 2
    assert "is no regular expression" in capsys.readouterr().err


def test_an_unknown_target_is_refused_before_any_case(capsys):
    assert backend_coverage.main(["--target=cpu:v9"]) == 1
    assert "unknown target 'cpu:v9'" in capsys.readouterr().err
