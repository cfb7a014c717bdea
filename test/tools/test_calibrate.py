"""calibrate: what is written. No test looks at a measured time."""

import json
from functools import partial

import pytest
from measurements import calibrate
from measurements._calibrate import GOALS, Row

import rcompiler
from rcompiler.device.record import load_device, save_device
from rcompiler.device.target import find_device
from rcompiler.tools import models


@pytest.fixture
def short(tool):
    """calibrate in short: short(*arguments) -> (exit code, stdout, stderr)."""
    small = ("--networks=two_branch,tiny_chain", "--seconds=0.002", "--rounds=2")
    return partial(tool, calibrate.main, *small)


def test_a_record_gets_a_recall(short, tmp_path):
    before = find_device("cpu")
    save_device(before, tmp_path / "before.json")
    code, out, err = short("--device=before.json", "-o", "after.json")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].split()[0] == "network" and lines[0].endswith("/before  /after")
    names = [line.split()[:2] for line in lines[1 : -1 - len(GOALS)]]
    assert names == [["two_branch", "fitted"], ["tiny_chain", "fitted"]] * (len(names) // 2)
    assert lines[-1 - len(GOALS)].startswith("recall: ")
    after = load_device(tmp_path / "after.json")
    assert after.recall is not None and after.recall.kept_bytes > 0
    assert after.memory == before.memory and after.costs == before.costs


def test_a_recall_decides_nothing(short, tmp_path):
    """Tiles, schedules and code are the same; only what is expected differs."""
    before = find_device("cpu")
    save_device(before, tmp_path / "before.json")
    assert short("--device=before.json", "-o", "after.json")[0] == 0
    proto = models.build("mlp")
    found = [
        rcompiler.compile_onnx(proto, device=tmp_path / name, eus=2)
        for name in ("before.json", "after.json")
    ]
    assert found[0].stage("vdevice") == found[1].stage("vdevice")
    assert found[0].stage("llvm") == found[1].stage("llvm")
    assert found[0].report().makespan_ns != found[1].report().makespan_ns


def test_what_is_checked_is_not_fitted(short):
    code, out, err = short("--check=mlp,two_branch", "-o", "after.json", "--json=figures.json")
    assert (code, err) == (0, "")
    assert {line.split()[1] for line in out.splitlines() if line.startswith("mlp ")} == {"checked"}
    with open("figures.json") as file:
        record = json.load(file)
    assert {"device", "commit", "recall", "options"} <= set(record)
    fitted = {row["network"]: row["fitted"] for row in record["networks"]}
    assert fitted == {"two_branch": True, "tiny_chain": True, "mlp": False}
    assert all(row["surprise"] > 0 for row in record["networks"])
    assert [goal["goal"] for goal in record["goals"]] == [str(goal) for goal in GOALS]


def row(eus, measured):
    """Of a network that is expected to take 1 us."""
    return Row("net", eus, measured, 2.0, 1.0, True)


def test_share_of_networks_as_expected():
    rows = [row(1, 1.14), row(1, 0.86), row(1, 1.16), row(4, 0.84), row(4, 1.0)]
    assert GOALS[0].value(rows) == pytest.approx(2 / 3) and GOALS[1].value(rows) == 0.5
    assert GOALS[1].value(rows[:3]) is None


@pytest.mark.parametrize(
    "arguments, message",
    [((), "give a file with -o FILE"), (("-o", "no/folder/r.json"), "no/folder"),
     (("-o", "r.json", "--networks=nothing"), "nothing: no such file")],
)  # fmt: skip
def test_errors_are_one_line(short, arguments, message):
    code, out, err = short(*arguments)
    assert (code, out) == (1, "") and message in err and err.count("\n") == 1
