"""tuning/warmup.py: within its budget, kept, and the same in every process."""

import contextlib
import json
import subprocess
import sys

import numpy as np
import pytest

import rcompiler
from rcompiler.astra import Settings
from rcompiler.driver.host import target_device
from rcompiler.driver.imported_model import ImportedModel
from rcompiler.errors import CompilerError, DroppedPlanWarning
from rcompiler.frontend import import_onnx
from rcompiler.options import CompileOptions
from rcompiler.profiler.index import ProfileIndex
from rcompiler.profiler.storage import NAME
from rcompiler.report import Report
from rcompiler.support.random_inputs import random_inputs
from rcompiler.tools import rc_tune
from rcompiler.tools.models import build
from rcompiler.tuning import launches, warmup
from rcompiler.tuning.branch import Branch, Subject
from rcompiler.tuning.launches import Launches
from rcompiler.tuning.warmup import Tuning

BASE = target_device("cpu")
MODEL = build("mlp", batch=4, layers=(64, 96, 10))


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Explores fast, whatever other programs do."""
    settings = Settings(calibration=4, duel=4, apart_s=0.0, gap=9.0, pause=1)
    monkeypatch.setattr(warmup, "_QUICK", settings)


def tuning(folder, told=lambda what: None, **more) -> Tuning:
    options = CompileOptions("cpu", eus=2, cache=folder, tune="warmup", **more)
    imported = ImportedModel.of(import_onnx(MODEL, None), options, BASE)
    subject = Subject(imported, options, BASE, BASE, "fksm")
    return Tuning(subject, told=told)


def test_a_second_tuning_tries_nothing(tmp_path):
    said = []
    one = tuning(tmp_path, told=said.append)
    assert one.estimate.trials > 0 and one.estimate.seconds > 0 and one.static_ms > 0
    first = one.run(300)
    one.close()
    assert first.done and first.trials > 0
    assert "enumerate: as asked" in said and any("trial" in what for what in said)
    two = tuning(tmp_path)
    assert two.estimate.trials == 0
    again = two.run(300)
    two.close()
    assert again.done and again.trials == 0
    assert (again.plan, again.ratio) == (first.plan, first.ratio)
    schedules = [t.artifact.provenance["schedule"] for t in (first, again)]
    assert schedules[0] == schedules[1]


def test_a_tuning_whose_budget_is_spent_goes_on_later(tmp_path, monkeypatch):
    own = tuning(tmp_path)
    found = own.run(1e-9)
    own.close()
    assert not found.done and found.plan == {} and found.ratio == 1.0
    model = rcompiler.compile_onnx(MODEL, eus=2, cache=tmp_path)
    assert found.artifact.provenance["schedule"] == model.artifact.provenance["schedule"]
    model.close()
    monkeypatch.setattr(Launches, "sample", _some(Launches.sample))
    parts = 0
    while not found.done and parts < 60:
        own = tuning(tmp_path)
        with contextlib.suppress(Enough):
            found = own.run(300)
        own.close()
        parts += 1
    assert found.done and parts > 1


class Enough(Exception):
    """So many launches were made."""


def _some(sample):
    """The same, which ends three times: after some trials."""
    count = 0

    def part(self, *args, **options):
        nonlocal count
        count += 1
        if count in (100, 400, 800):
            raise Enough
        return sample(self, *args, **options)

    return part


def test_a_plan_that_cannot_be_compiled_is_dropped(tmp_path, monkeypatch):
    artifact = Branch.artifact

    def fails(self, plan):
        if plan and any(name.startswith("kernel") for name in plan) and plan != static:
            raise CompilerError("no such kernel")
        return artifact(self, plan)

    own = tuning(tmp_path)
    static: dict[str, str] = {}
    own.tree.default(static)
    monkeypatch.setattr(Branch, "artifact", fails)
    found = own.run(300)
    own.close()
    assert found.done and found.plan == {}


def test_a_plan_that_computes_something_else_is_dropped(tmp_path, monkeypatch):
    monkeypatch.setattr(launches, "agree", lambda *_: False)
    own = tuning(tmp_path)
    with pytest.warns(DroppedPlanWarning, match="a plan was dropped: output 0 of plan"):
        found = own.run(300)
    own.close()
    assert found.done and found.plan == {}


def test_ways_of_fusing_that_were_asked_for_stay(tmp_path):
    own = tuning(tmp_path, fusion=False, normalise=False, roots="winograd2")
    assert [*own._branches] == ["as asked"]
    own.close()


def test_what_the_index_says_is_checked(tmp_path):
    own = tuning(tmp_path)
    found = own.run(300)
    own.close()
    index = ProfileIndex(tmp_path / NAME)
    lines = [json.loads(line) for line in index.export()]
    for line in lines:
        if line["kind"] == "plan":
            line["plan"] = json.dumps({"schedule": "rm -rf on 2"})
            index.load([json.dumps(line)])
    index.close()
    own = tuning(tmp_path)
    again = own.run(300)
    own.close()
    assert again.done and found.done


def test_two_processes_end_with_the_same_plan(tmp_path):
    """At once, into one index."""
    script = """
import json, sys
from pathlib import Path
from rcompiler.astra import Settings
from rcompiler.driver.host import target_device
from rcompiler.driver.imported_model import ImportedModel
from rcompiler.frontend import import_onnx
from rcompiler.options import CompileOptions
from rcompiler.tools.models import build
from rcompiler.tuning import warmup
from rcompiler.tuning.branch import Subject
warmup._QUICK = Settings(calibration=4, duel=4, apart_s=0.0, gap=9.0, pause=1)
options = CompileOptions("cpu", eus=2, cache=Path(sys.argv[1]), tune="warmup")
base = target_device("cpu")
s1 = import_onnx(build("mlp", batch=4, layers=(64, 96, 10)), None)
imported = ImportedModel.of(s1, options, base)
own = warmup.Tuning(Subject(imported, options, base, base, "fksm"))
print("ready", flush=True)
sys.stdin.readline()
found = own.run(300)
own.close()
print(json.dumps([found.plan, found.done, found.artifact.provenance["schedule"]]))
"""
    command = [sys.executable, "-W", "error", "-c", script, str(tmp_path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(command, **pipes) for _ in range(2)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    answers = [json.loads(process.communicate()[0]) for process in processes]
    assert all(process.returncode == 0 for process in processes)
    assert answers[0] == answers[1] and answers[0][1]
    index = ProfileIndex(tmp_path / NAME)
    keys = [(t["session"], t["number"]) for t in map(json.loads, index.export())
            if t["kind"] == "trial"]  # fmt: skip
    assert len({*keys}) == len(keys)
    index.close()


def test_compile_onnx_returns_the_plan_that_was_found(tmp_path):
    model = rcompiler.compile_onnx(MODEL, eus=2, cache=tmp_path, tune="warmup", tune_budget=300)
    plain = rcompiler.compile_onnx(MODEL, eus=2, cache=tmp_path)
    feeds = random_inputs(model.inputs)
    for one, two in zip(model(feeds), plain(feeds), strict=True):
        assert np.allclose(one, two, rtol=1e-3, atol=1e-4)
    assert model.artifact.provenance["tune"] == "warmup"
    model.close()
    plain.close()


def test_a_model_says_which_plan_it_has(tmp_path, monkeypatch):
    """However it was found."""
    own = tuning(tmp_path)
    static: dict[str, str] = {}
    own.tree.default(static)
    plan = static | {"schedule": "rammer on 1"}
    found = own._result(plan, 0.8, 3, 0.0)
    own.close()
    note = Report.from_json(found.artifact.stages["report"]).note
    gain = "1.250 times as fast as the static one in the final duel"
    assert note == f"plan of an exploration, {gain}: schedule: rammer on 1"
    assert found.plan == {"schedule": "rammer on 1"}


def test_rc_tune_says_how_long_it_takes_before_it_begins(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("RC_CACHE_DIR", str(tmp_path))
    assert rc_tune.main(["two_branch", "--eus=2", "--budget=300", "--dims=s,m", "--tree"]) == 0
    out = capsys.readouterr().out
    assert "schedule: rammer on 2" in out
    assert out.index("estimate: at most") < out.index(" trials, ")
    assert rc_tune.main(["two_branch", "--eus=2", "--budget=300", "--dims=s,m"]) == 0
    assert "nothing is left to try" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        ["two_branch", "--dims=f"],
        ["two_branch", "--tree"],
        ["--device", "--budget=3"],
        ["two_branch", "--budget=3", "--dims=x"],
        ["two_branch", "--budget=3", "--dims=f,f"],
        ["two_branch", "--budget=0"],
    ],
)
def test_options_that_do_not_go_together(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        rc_tune.main(arguments)
    assert ended.value.code == 2
