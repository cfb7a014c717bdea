"""schedule_bench: what is compared, what figures say. No test looks at a measured time."""

import json
from functools import partial

import numpy as np
import pytest
from measurements import _schedule_bench, schedule_bench
from measurements._schedule_bench import GOALS, Gain, ModelFigure, base_of, check_equal
from measurements._shared import reached

from rcompiler.compile import compile_policies
from rcompiler.errors import CompilerError
from rcompiler.options import Scheduler
from rcompiler.tools import models


def figure(model, rammer, listed):
    return ModelFigure(model, 2, gain={"base": 1.0, "rammer": rammer, "list": listed})


# -- one compilation -------------------------------------------------------------------------
def test_policies_schedule_the_same_kernels(monkeypatch):
    monkeypatch.setenv("RC_CACHE_DIR", "")
    schedulers = [Scheduler("base"), Scheduler("rammer", "fast")]
    found = compile_policies(models.build("two_branch", rows=96, width=192), schedulers, eus=2)
    base, rammer = found.values()
    assert [*found] == schedulers
    assert base.stage("rkernel") == rammer.stage("rkernel")
    assert base.stage("llvm") == rammer.stage("llvm")
    assert base.stage("vdevice") != rammer.stage("vdevice")
    facts = [model.artifact.provenance for model in (base, rammer)]
    assert [(fact["policy"], fact["kernels"]) for fact in facts] == schedulers
    assert base.report().launches == len(base.report().operators) > rammer.report().launches == 1
    assert base.artifact.constants.tobytes() == rammer.artifact.constants.tobytes()


# -- results ---------------------------------------------------------------------------------
def test_outputs_have_to_be_equal_to_the_bit():
    ours, same = np.array([1.0, np.nan]), np.array([1.0, np.nan])
    check_equal({"base": [ours], "list": [same]})
    with pytest.raises(CompilerError, match="schedules base and list do not agree .* in output 1"):
        check_equal({"base": [ours, np.float32([0.0])], "list": [same, np.float32([-0.0])]})


# -- goals -----------------------------------------------------------------------------------
FIGURES = [
    figure("lstm_tc", rammer=1.5, listed=1.6),
    figure("mlp", rammer=0.98, listed=0.95),
    figure("unet", rammer=1.2, listed=1.1),
    ModelFigure("broken", 2, error="cannot be compiled"),
]


@pytest.mark.parametrize(
    "goal, value",
    [
        (Gain("rammer", 0.97), 0.98),
        (Gain("list", 0.97), 0.95),
        (Gain("rammer", 1.3, ("lstm_tc", "unet")), 1.2),
        (Gain("rammer", 1.3, ("lstm_tc", "broken")), None),
        (Gain("rammer", 1.3, ("lstm_tc", "seq2seq")), None),
        (Gain("wave", 0.97), None),
    ],
)
def test_value_of_a_goal(goal, value):
    assert goal.value(FIGURES) == value


def test_goals_that_are_met_and_missed():
    assert [goal["met"] for goal in reached(GOALS, FIGURES)] == [True, False, None, None]
    assert [str(goal) for goal in GOALS][1:4:2] == [
        "list: least gain over base >= 0.97 (all models, 3% being noise)",
        "list: least gain over base >= 1.30 (lstm_tc and seq2seq)",
    ]


# -- the tool --------------------------------------------------------------------------------
@pytest.fixture
def bench(tool):
    """schedule_bench in short: bench(*arguments) -> (exit code, stdout, stderr)."""
    return partial(tool, schedule_bench.main, "--seconds=0.002", "--rounds=2")


def test_table_and_record(bench):
    code, out, err = bench("--models=tiny_matmul_chain", "--eus=1", "--json=r.json")
    assert (code, err) == (0, "")
    head, row, load, *goals = out.splitlines()
    assert head.split()[:2] == ["model", "operators"] and head.endswith("dynamic/base")
    assert row.split()[0] == "tiny_matmul_chain" and len(row.split()) == 2 + 5 + 4
    assert load.startswith("load of the machine: ") and len(goals) == len(GOALS)
    with open("r.json") as file:
        record = json.load(file)
    assert {"device", "date", "versions", "commit", "openblas_coretype"} <= set(record)
    assert record["options"]["eus"] == 1 and len(record["goals"]) == len(GOALS)
    (model,) = record["models"]
    assert [*model["ms"]] == [*model["gain"]] == ["base", "wave", "rammer", "list", "dynamic"]
    assert model["gain"]["base"] == 1.0
    assert model["launches"]["base"] == model["operators"] > 1


def test_without_base_there_are_times_only(bench):
    code, out, _ = bench("--models=tiny_chain", "--policies=list,list", "--eus=1")
    assert code == 0 and out.splitlines()[0].split() == ["model", "operators", "list", "ms"]


def test_every_policy_with_every_choice_of_kernels(bench):
    arguments = ("--policies=rammer,base,bsp,merge", "--kernels=select,fast", "--json=r.json")
    code, out, _ = bench("--models=tiny_chain", "--eus=1", *arguments)
    assert code == 0
    with open("r.json") as file:
        (model,) = json.load(file)["models"]
    names = [f"{p}-{k}" for p in ("rammer", "base", "bsp", "merge") for k in ("select", "fast")]
    assert [*model["ms"]] == [*model["gain"]] == names and model["gain"]["base-fast"] == 1.0
    head = out.splitlines()[0]
    assert "rammer-select ms  rammer-fast ms  base-select ms  base-fast ms" in head
    assert head.split()[-7:] == [f"{name}/base-fast" for name in names if name != "base-fast"]


def test_base_with_the_kernels_of_waves_is_no_measure():
    fast, select = Scheduler("base", "fast"), Scheduler("base", "select")
    assert base_of([select, fast]) == fast and base_of([select]) is None
    assert base_of([fast, Scheduler("base")]) == Scheduler("base")


def test_schedules_that_disagree_are_not_timed(bench, monkeypatch):
    def disagree(_):
        raise CompilerError("schedules base and wave do not agree")

    monkeypatch.setattr(_schedule_bench, "check_equal", disagree)
    code, out, err = bench("--models=tiny_chain", "--eus=1")
    assert code == 1 and out.splitlines()[1].split()[2:6] == ["-"] * 4
    assert err == "schedule_bench: error: tiny_chain: schedules base and wave do not agree\n"


@pytest.mark.parametrize(
    "argument, code, message",
    [("--models=nothing", 1, "nothing: no such file"), ("--models=m.rcx", 1, "compiled already"),
     ("--json=no/folder/r.json", 1, "no/folder")],
)  # fmt: skip
def test_errors_are_one_line(bench, argument, code, message):
    found, _, err = bench("--policies=base", *(["--models=mlp"] if "json" in argument else []),
                          argument)  # fmt: skip
    assert found == code and message in err and err.count("\n") == 1


@pytest.mark.parametrize("argument", ["--policies=best", "--kernels=best", "--models=,", "--eus=0"])
def test_wrong_arguments(bench, argument, capsys):
    with pytest.raises(SystemExit) as stop:
        bench(argument)
    assert stop.value.code == 2 and capsys.readouterr().err.count("\n") == 1
