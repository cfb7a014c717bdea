"""The latencies of two versions side by side; here both are the one that is tested."""

import json
import sys

import pytest
from measurements import compare_versions


def test_a_version_and_itself_have_equal_bits(tmp_path, capsys):
    record = tmp_path / "record.json"
    quick = ["--eus=1", "--rounds=2", "--seconds=0.01", f"--json={record}"]
    assert compare_versions.main([sys.executable, "two_branch", *quick]) == 0
    assert "equal bits" in capsys.readouterr().out
    (result,) = json.loads(record.read_text())["results"]
    assert result["before_ms"] > 0 and result["now_ms"] > 0


def test_compilations_are_timed_in_processes_of_their_own(tmp_path, capsys):
    record = tmp_path / "record.json"
    quick = ["two_branch", "--eus=1", "--compile=2", f"--json={record}"]
    assert compare_versions.main([sys.executable, *quick]) == 0
    assert "before s" in capsys.readouterr().out
    (result,) = json.loads(record.read_text())["results"]
    assert result["ratio"] == result["before_s"] / result["now_s"]


@pytest.mark.parametrize(("options", "what"), [((), "run"), (("--compile=1",), "compile")])
def test_a_version_that_cannot_is_named(options, what, tmp_path, capsys):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho no module named rcompiler >&2; exit 1\n")
    python.chmod(0o755)
    assert compare_versions.main([str(python), "two_branch", "--eus=1", *options]) == 1
    said = capsys.readouterr().err
    assert f"the version 'before' cannot {what} the model: no module" in said
