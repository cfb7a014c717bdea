"""tools/bench/measurements/pool.py: many callers of one model, measured."""

import json

import numpy as np
import pytest
from measurements import pool

from rcompiler.errors import CompilerError


def test_engines_serve_callers_by_turns(tmp_path, capsys):
    options = ["mlp", "--callers=2", "--most=2", "--eus=1", "--rounds=1", "--seconds=0.01"]
    assert pool.main([*options, f"--json={tmp_path / 'p.json'}"]) == 0
    found = json.loads((tmp_path / "p.json").read_text())["engines"]
    assert [*found] == ["in turns", "2 of 1 EUs", "joined, 1 of 1 EUs", "joined, 2 of 1 EUs"]
    assert found["in turns"]["ratio"] == 1
    assert all(0 < each["p50_ms"] <= each["p99_ms"] for each in found.values())
    assert "2 callers of mlp" in capsys.readouterr().out


def test_an_engine_with_other_results_is_not_measured():
    feeds = [(np.float32([1]),), (np.float32([2]),)]
    engines = {"in turns": lambda x: [x], "other": lambda x: [x + 1]}
    with pytest.raises(CompilerError, match="other: the results are not those"):
        pool._check(engines, feeds)
