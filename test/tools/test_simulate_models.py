"""simulate_models: whole models on device records."""

import json

import pytest
from measurements import simulate_models

from rcompiler.rammer.schedule import POLICIES


def test_policies_side_by_side(tmp_path, capsys):
    file = tmp_path / "models.json"
    arguments = ["--device=v100,epyc-9555", "--eus=4", f"--json={file}", "two_branch", "mlp"]
    assert simulate_models.main(arguments) == 0
    out = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in out[1:5]] == ["two_branch", "mlp"] * 2
    record = json.loads(file.read_text())["models"]
    assert {(m["model"], m["device"], m["eus"]) for m in record} == {
        (model, device, 4) for model in ("two_branch", "mlp") for device in ("v100", "epyc-9555")
    }
    for model in record:
        assert [*model["us"]] == [*POLICIES]
        assert model["programs"]["base"] == model["operators"]
        assert model["programs"]["list"] == 1
        assert min(model["us"].values()) >= model["bound_us"]
        assert max(model["busy"].values()) <= 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--device=nothing"], "unknown target 'nothing'"),
        (["missing.onnx"], "missing.onnx"),
    ],
)
def test_wrong_arguments_are_one_line(arguments, message, capsys):
    assert simulate_models.main(["--eus=2", *arguments]) == 1
    err = capsys.readouterr().err
    assert message in err and len(err.splitlines()) == 1
