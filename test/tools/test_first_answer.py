"""tools/bench first_answer and export_networks: what they measure, and what they write."""

import json

import onnx
import pytest
from measurements import export_networks, first_answer

from rcompiler.tools import models


def test_all_figures_of_a_network(tmp_path, capsys):
    path = tmp_path / "a.json"
    assert first_answer.main(["two_branch", "--rounds=1", f"--json={path}"]) == 0
    [row] = json.loads(path.read_text())["models"]
    assert {"cold", "warm", "rcx", "onnxruntime", "read_s", "warm_over_rcx"} <= {*row}
    assert all(0 < row["cold"][f] for f in ("ready_s", "answer_s", "cpu_s", "peak_mib"))
    assert row["cold"]["ready_s"] <= row["cold"]["answer_s"]
    assert row["warm"]["cpu_s"] < row["cold"]["cpu_s"] / 2  # nothing is compiled: a fifth, idle
    assert "two_branch" in capsys.readouterr().out


def test_what_cannot_be_compiled_is_named(tmp_path, capsys):
    path = tmp_path / "broken.onnx"
    path.write_bytes(b"no model")
    assert first_answer.main([str(path), "two_branch", "--cold", "--rounds=1"]) == 1
    shown = capsys.readouterr()
    assert "broken.onnx" in shown.err and "two_branch" in shown.out


def test_networks_are_written_once_and_failures_named(tmp_path, monkeypatch, capsys):
    asked = []

    def exported(name):
        asked.append(name)
        if name == "gpt2":
            raise ValueError("\n no such operator \nmore")
        return models.build("two_branch")

    monkeypatch.setattr(export_networks, "_exported", exported)
    options = [str(tmp_path), "--qdq", "--only=^(gpt2|resnet18)$"]
    assert export_networks.main(options) == 1
    assert "gpt2: ValueError: no such operator" in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"resnet18.onnx", "resnet18.qdq.onnx"}
    short = onnx.load(tmp_path / "resnet18.qdq.onnx")
    assert "QuantizeLinear" in {node.op_type for node in short.graph.node}
    assert export_networks.main(options) == 1
    assert asked == ["resnet18", "gpt2", "gpt2"]


def test_each_network_has_a_maker():
    assert len(export_networks.NETWORKS) == 37
    with pytest.raises(SystemExit):
        export_networks.main([])
