"""reduction_scaling: the models are right, and the tool. No test looks at a measured time."""

import json

import numpy as np
import pytest
from measurements import reduction_scaling
from measurements.reduction_scaling import Reduction, reductions
from onnx import checker


def test_every_reduction_is_of_4m_elements_and_has_a_name_of_its_own():
    found = list(reductions())
    assert len({each.name for each in found}) == len(found)
    for each in found:
        assert np.prod(each.shape) == 1 << 22
        checker.check_model(each.model())


def test_a_table_and_a_record(tmp_path, capsys, monkeypatch):
    few = [Reduction("ReduceSum", (4, 8), (1,)), Reduction("ArgMax", (32,), (0,))]
    monkeypatch.setattr(reduction_scaling, "reductions", lambda: few)
    path = tmp_path / "r.json"
    code = reduction_scaling.main(["--rounds=1", "--seconds=0.001", f"--json={path}"])
    assert code == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:3]] == ["ReduceSum", "ArgMax"]
    assert lines[3].startswith("at least")
    record = json.loads(path.read_text())
    assert [f["reduction"] for f in record["reductions"]] == [each.name for each in few]
    assert all(f["one_us"] > 0 and f["eus_us"] > 0 for f in record["reductions"])


def test_one_eu_is_nothing_to_compare(capsys):
    with pytest.raises(SystemExit) as caught:
        reduction_scaling.main(["--eus=1"])
    assert caught.value.code == 2 and "at least 2" in capsys.readouterr().err
