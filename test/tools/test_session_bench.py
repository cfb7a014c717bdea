"""sessions: the same results by both engines, and what was compiled in the way of calls."""

import json

import pytest
from measurements import sessions

pytest.importorskip("onnxruntime")


@pytest.fixture(autouse=True)
def _cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("RC_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "cache"))
    monkeypatch.setenv("RC_DEVICE", "default")


def test_nothing_is_compiled_behind_the_third_call(tmp_path, capsys):
    record = tmp_path / "sessions.json"
    cases = "exported-1x16,built-1x16,batches"
    asked = [f"--cases={cases}", "--tokens=8", "--rounds=1", f"--json={record}"]
    assert sessions.main(asked) == 0
    figures = json.loads(record.read_text())["figures"]
    assert [f["case"] for f in figures] == [c for c in cases.split(",") for _ in range(2)]
    assert [f["compiled"] for f in figures] == [3, 0] * 3
    assert not any(f["later"] for f in figures)
    assert "exported-1x16" in capsys.readouterr().out


def test_an_unknown_case_is_refused(capsys):
    assert sessions.main(["--cases=other-1x16"]) == 1
    assert "'other-1x16' is none of" in capsys.readouterr().err
