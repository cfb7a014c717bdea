"""rc-viz from end to end: what it takes, what it writes, and what it refuses."""

import json
import os
import sys
from dataclasses import replace

import pytest

from rcompiler.device.cpu import cpu_device
from rcompiler.device.gpu import gpu_device
from rcompiler.device.measured import Recall
from rcompiler.device.record import save_device
from rcompiler.runtime.artifact import Artifact
from rcompiler.tools import rc_compile, rc_run, rc_viz


def test_a_model_becomes_a_page(tool):
    code, out, err = tool(rc_viz.main, "two_branch", "--eus=2")
    assert (code, out) == (0, "") and err.startswith("two_branch.html: 0.")
    with open("two_branch.html") as file:
        assert "<h1" in file.read()
    assert os.listdir() == ["two_branch.html"]


def test_file_text_and_model_show_one_schedule(tool):
    """An artifact by its streams, an S4 text compiled, and an ONNX model without code."""
    tool(rc_compile.main, "two_branch", "--eus=2", "-o", "m.rcx")
    tool(rc_compile.main, "two_branch", "--eus=2", "--emit=vdevice", "-o", "m.mlir")
    report = Artifact.load("m.rcx").stages["report"]
    found = []
    for source in (["m.rcx"], ["m.mlir"], ["two_branch", "--eus=2"]):
        code, out, err = tool(rc_viz.main, *source, "--json=-")
        assert (code, err) == (0, "")
        found.append(json.loads(out))
    assert found[0] | {"model": "", "policy": ""} == found[1] | {"model": "", "policy": ""}
    for part in ("tasks", "idle", "waits", "signals", "operators"):
        assert found[0][part] == found[2][part]
    assert found[0]["makespan_ns"] == pytest.approx(json.loads(report)["makespan_ns"])
    assert [found[i]["policy"] for i in (0, 2)] == ["rammer", "rammer"]


def test_a_calibrated_device_shows_what_its_report_expects(tool):
    recall = Recall(1 << 20, 1.0, 1.0, 0.0, "2026-01-01", 1)
    save_device(replace(cpu_device("v3"), recall=recall), "calibrated.json")
    found = {}
    for device in ("default", "calibrated.json"):
        tool(rc_compile.main, "two_branch", "--eus=2", f"--device={device}", "-o", "m.rcx")
        report = json.loads(Artifact.load("m.rcx").stages["report"])
        found[device] = json.loads(tool(rc_viz.main, "m.rcx", "--json=-")[1])["makespan_ns"]
        assert found[device] == pytest.approx(report["makespan_ns"])
    assert found["calibrated.json"] != pytest.approx(found["default"], rel=0.01)


def test_any_device_and_policy(tool):
    arguments = ("tiny_matmul_chain", "--device=h200", "--json=-", "--trace=t.json")
    found = {}
    for policy in ("base", "list"):
        code, out, _ = tool(rc_viz.main, *arguments, f"--policy={policy}")
        assert code == 0
        found[policy] = json.loads(out)
    assert found["base"]["device"] == "h200" and found["list"]["eus"] == 132
    assert len(found["base"]["programs"]) > len(found["list"]["programs"]) == 1
    assert not os.path.exists("tiny_matmul_chain.html")
    with open("t.json") as file:
        assert json.load(file)["otherData"]["policy"] == "list"
    slowed = json.loads(tool(rc_viz.main, *arguments, "--policy=list", "--contention")[1])
    assert slowed["makespan_ns"] >= found["list"]["makespan_ns"]


@pytest.mark.parametrize("file", ["m.rcx", "m.mlir"])
def test_a_schedule_is_played_on_another_device(tool, file):
    """The programs stay, and so do the times of rTasks; the record says what all else costs."""
    emit = ("--emit=vdevice",) if file == "m.mlir" else ()
    tool(rc_compile.main, "two_branch", "--eus=2", *emit, "-o", file)
    made = json.loads(tool(rc_viz.main, file, "--json=-")[1])
    arguments = (file, "--device=h200", "--json=-", "--trace=t.json", "-o", "p.html")
    code, out, _ = tool(rc_viz.main, *arguments)
    assert code == 0
    played = json.loads(out)
    assert (made["device"], made["made_for"]) == (played["made_for"], "")
    assert played["device"] == "h200" and played["eus"] == 2
    for part in ("programs", "operators", "rtasks", "arena_bytes", "events"):
        assert played[part] == made[part]
    for part in ("operator", "first", "count", "eu"):
        assert played["tasks"][part] == made["tasks"][part]
    # a launch takes what it takes on a h200
    launch = gpu_device("h200").costs.launch_ns
    assert played["tasks"]["start"][0] == launch != made["tasks"]["start"][0]
    with open("t.json") as trace, open("p.html") as page:
        assert json.load(trace)["otherData"]["made_for"] == made["device"]
        assert f'"madeFor":"{made["device"]}"' in page.read()


def test_played_on_its_own_device_a_schedule_is_the_same(tool):
    recall = Recall(1 << 20, 1.0, 1.0, 0.0, "2026-01-01", 1)
    save_device(replace(cpu_device("v3"), eus=2, recall=recall), "own.json")
    tool(rc_compile.main, "two_branch", "--eus=2", "--device=own.json", "-o", "m.rcx")
    own, made = (
        json.loads(tool(rc_viz.main, "m.rcx", "--json=-", *device)[1])
        for device in (("--device=own.json",), ())
    )
    assert own == made | {"made_for": made["device"]}


def test_a_device_without_what_the_schedule_needs_is_refused(tool):
    save_device(replace(cpu_device("v3"), eus=1), "one.json")
    tool(rc_compile.main, "lstm2", "--eus=2", "-o", "m.rcx")
    for device, reason, remedy in (
        ("one.json", "needs 2 EUs at the same time, and device", "with --eus=1"),
        ("ipu", "device ipu meet in barriers only", "--policy=base or wave or bsp"),
    ):
        code, out, err = tool(rc_viz.main, "m.rcx", f"--device={device}")
        assert (code, out) == (1, "") and err.startswith("rc-viz: error: m.rcx: the schedule ")
        assert reason in err and remedy in err and len(err.splitlines()) == 1
    assert sorted(os.listdir()) == ["m.rcx", "one.json"]
    # those of policy bsp meet in barriers, which an IPU has
    tool(rc_compile.main, "lstm2", "--eus=2", "--policy=bsp", "-o", "b.rcx")
    code, out, _ = tool(rc_viz.main, "b.rcx", "--device=ipu", "--json=-")
    assert code == 0 and json.loads(out)["device"] == "ipu"


@pytest.mark.parametrize("eus", [1, 2])
def test_a_profile_stands_beside_the_plan(tool, eus):
    tool(rc_compile.main, "lstm2", "--eus=2", "-o", "m.rcx")
    code, out, err = tool(rc_run.main, "m.rcx", f"--eus={eus}", "--profile=t.json")
    assert (code, err) == (0, "") and "t.json: " in out and "the median of 15 runs" in out
    code, out, err = tool(rc_viz.main, "m.rcx", "--measured=t.json", "--json=-")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert max(found["measured"]["eu"]) < eus
    assert len(found["measured"]["start"]) == len(found["tasks"]["eu"])
    # what comes after another task by the schedule came after it
    ends = found["measured"]["end"]
    for task, cause in enumerate(found["tasks"]["cause"]):
        assert cause < 0 or ends[cause] <= found["measured"]["start"][task]
    tool(rc_compile.main, "two_branch", "--eus=2", "-o", "other.rcx")
    code, _, err = tool(rc_viz.main, "other.rcx", "--measured=t.json")
    assert code == 1 and "t.json: measured on another schedule" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.rcx"], "missing.rcx: it cannot be read"),
        (["missing.onnx"], "missing.onnx: no such file"),
        (["m.rcx", "--eus=1"], "m.rcx: --eus no longer applies"),
        (["m.rcx", "--policy=base"], "m.rcx: --policy no longer applies"),
        (["m.rcx", "--kernels=fast"], "m.rcx: --kernels no longer applies"),
        (["m.rcx", "--device=h200", "--policy=base"], "m.rcx: --policy no longer applies"),
        (["m.rcx", "--device=none"], "unknown target 'none'"),
        (["two_branch", "--policy=none"], "policy 'none' is none of"),
        (["two_branch", "--device=none"], "unknown target 'none'"),
        (["two_branch", "--tune=kernels"], "--tune needs generated code; rc-compile two_branch"),
        (["m.rcx", "--measured=none.json"], "none.json: it cannot be read"),
        (["m.rcx", "-o", "no/such/folder.html"], "no/such/folder.html: cannot be written"),
        (["m.rcx", "-o", "."], ".: cannot be written (not a plain file)"),
        (["m.rcx", "-o", "/dev/full"], "/dev/full: cannot be written (not a plain file)"),
    ],
)
def test_what_is_refused_is_one_line(tool, arguments, message):
    tool(rc_compile.main, "two_branch", "--eus=2", "-o", "m.rcx")
    code, out, err = tool(rc_viz.main, *arguments)
    assert (code, out) == (1, "") and err.startswith("rc-viz: error: ")
    assert message in err and len(err.splitlines()) == 1
    assert os.listdir() == ["m.rcx"]


def test_a_full_disk_leaves_what_was_there(tool, monkeypatch):
    with open("old.html", "w") as file:
        file.write("old")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    code, _, err = tool(rc_viz.main, "two_branch", "--eus=2", "-o", "old.html")
    assert code == 1 and "old.html: cannot be written (No space left on device)" in err
    with open("old.html") as file:
        assert file.read() == "old"
    assert os.listdir() == ["old.html"]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"stages": {}}, "carries no report"),
        ({"stages": {"report": "{}"}}, "the report is damaged"),
        ({"proof": {}}, "carries no proof"),
        ({"provenance": {}}, "device of the compiled model: not JSON"),
    ],
)
def test_damaged_artifacts_are_refused(tool, changed, message):
    tool(rc_compile.main, "two_branch", "--eus=2", "-o", "m.rcx")
    replace(Artifact.load("m.rcx"), **changed).save("d.rcx")
    code, _, err = tool(rc_viz.main, "d.rcx")
    assert code == 1 and message in err and err.startswith("rc-viz: error: d.rcx: ")
    assert sorted(os.listdir()) == ["d.rcx", "m.rcx"]


def test_help_needs_no_compiler(tool):
    before = set(sys.modules)
    with pytest.raises(SystemExit):
        tool(rc_viz.main, "--help")
    assert not {"rcompiler.compile", "rcompiler.viz.page"} & (set(sys.modules) - before)
