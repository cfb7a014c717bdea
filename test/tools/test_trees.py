"""trees: the forests, and the tool. No test looks at a measured time."""

import json

import onnx
from measurements import trees


def test_forests_have_their_leaves():
    made = trees.forest(3, 8, balanced=True)
    modes = next(list(a.strings) for a in made.graph.node[0].attribute if a.strings)
    assert len(modes) == 3 * 15 and modes.count(b"LEAF") == 3 * 8
    onnx.checker.check_model(made)


def test_a_file_is_measured_beside_onnxruntime(tmp_path, capsys):
    onnx.save(trees.forest(5, 6, balanced=False), tmp_path / "few.onnx")
    record = tmp_path / "record.json"
    options = ["--rows=1,9", "--rounds=2", f"--json={record}"]
    assert trees.main([str(tmp_path / "few.onnx"), *options]) == 0
    figures = json.loads(record.read_text())["figures"]
    assert [f["rows"] for f in figures] == [1, 9]
    assert all(f["difference"] < 1e-5 for f in figures)
    assert "onnxruntime" in capsys.readouterr().out
