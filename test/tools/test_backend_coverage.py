"""How backend_coverage judges a case."""

import json
import unittest

import pytest
from measurements import _coverage_table, backend_coverage
from measurements._case_pool import Verdict
from onnx import helper

from rcompiler.errors import ShapeError, UnsupportedOp
from rcompiler.tools import models


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
    assert found.status == status and found.reason.startswith(reason)


def test_nothing_raised_is_a_pass():
    assert backend_coverage.run_test(lambda _: None) == Verdict("pass")


def cases_of(tmp_path, pattern, *options):
    file = tmp_path / "record.json"
    code = backend_coverage.main([f"--only=test_({pattern})_cpu$", f"--json={file}", *options])
    return code, json.loads(file.read_text())


def test_cases_are_counted_apart_by_what_they_prove(tmp_path, capsys):
    _, record = cases_of(tmp_path, "relu|reshape_extended_dims|constant")
    facts = {case["case"]: case["facts"] for case in record["cases"]}
    assert facts["test_relu"] == {"baked": [], "kept": ["x"]}
    assert facts["test_reshape_extended_dims"]["baked"] == ["shape"]
    assert facts["test_constant"] == {"baked": [], "kept": []}
    assert sum(record["passed"].values()) == record["counts"]["pass"] == 3
    assert "1 keep all inputs" in capsys.readouterr().out


def test_another_outcome_than_that_of_the_record_fails(tmp_path, capsys):
    code, record = cases_of(tmp_path, "relu|abs")
    assert code == 0
    old = tmp_path / "old.json"
    old.write_text(json.dumps(record))
    assert cases_of(tmp_path, "relu|abs", f"--against={old}")[0] == 0
    record["cases"][0]["status"] = "refused"
    record["cases"][1]["case"] = "test_gone"
    old.write_text(json.dumps(record))
    assert cases_of(tmp_path, "relu|abs", f"--against={old}")[0] == 1
    lines = capsys.readouterr().out.splitlines()
    assert "test_abs: refused in the record, pass here" in lines
    assert "test_gone: pass in the record, absent here" in lines
    assert "test_relu: absent in the record, pass here" in lines


@pytest.mark.parametrize("text", ["{", "[]", "{}"])
def test_a_file_that_is_no_record_is_an_error(tmp_path, capsys, text):
    file = tmp_path / "none.json"
    file.write_text(text)
    assert backend_coverage.main(["--only=test_abs_cpu", f"--against={file}"]) == 1
    assert "record" in capsys.readouterr().err


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
    assert _coverage_table.brief("node 'a7' has 3 inputs\n not 4") == (
        "node '…' has # inputs not #"
    )
    assert len(_coverage_table.brief("x" * 500)) == 100


def test_wrong_pattern_is_one_line(capsys):
    with pytest.raises(SystemExit) as caught:
        backend_coverage.main(["--only=("])
    assert caught.value.code == 2
    assert "is no regular expression" in capsys.readouterr().err


def test_an_unknown_target_is_refused_before_any_case(capsys):
    assert backend_coverage.main(["--target=cpu:v9"]) == 1
    assert "unknown target 'cpu:v9'" in capsys.readouterr().err
