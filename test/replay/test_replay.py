"""The set is complete, its record is of it, and a change of anything is seen."""

import json
import sys
from dataclasses import fields, replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from rcompiler import load  # noqa: E402
from rcompiler.errors import CompilerError  # noqa: E402
from rcompiler.options import CompileOptions  # noqa: E402
from rcompiler.tools import models, rc_compile, rc_opt  # noqa: E402
from replay import compare_gpu, runner  # noqa: E402
from replay.cases import SHORT, SMALL, Case, cases  # noqa: E402
from replay.from_text import unlike  # noqa: E402
from replay.hashes import compiled, differing, hashes, network, write_texts  # noqa: E402

ONE = "two_branch cpu-v3"
# What changes no code, is measured, or is the target itself.
OTHERS = {"target", "cache", "tune", "machine_code", "or_wave", "denormals"}


def test_every_network_and_every_option_is_in_the_set():
    assert {case.network for case in cases().values()} == {*models.names(), *SHORT}
    options = {option for case in cases().values() for option in case.settings}
    assert options == {each.name for each in fields(CompileOptions)} - OTHERS


def test_the_record_is_of_the_set():
    assert json.loads(runner.RECORD.read_text())["cases"].keys() == cases().keys()


def test_what_differs_is_named_by_stage():
    old = {"linalg": "1", "rtask": "2", "code": "3", "artifact": "4"}
    assert differing(old, old, llvm=True) == []
    assert differing(old, {**old, "rtask": "5", "code": "6"}, llvm=True) == ["rtask", "code"]
    assert differing(old, {**old, "rtask": "5", "code": "6"}, llvm=False) == ["rtask"]
    assert differing(old, {"linalg": "1", "code": "3", "artifact": "4"}, llvm=True) == ["rtask"]


def test_a_change_fails_and_is_told(tmp_path, monkeypatch, capsys):
    path = tmp_path / "record.json"
    monkeypatch.setattr(runner, "RECORD", path)
    only = f"--only=^{ONE}$"
    assert runner.main([only]) == 1
    assert f"{ONE}: not in the record" in capsys.readouterr().out
    assert runner.main([only, "--record"]) == 0
    assert runner.main([only]) == 0
    assert "1 cases, 0 differ" in capsys.readouterr().out
    record = json.loads(path.read_text())
    record["cases"][ONE]["vdevice"] = "0" * 16
    path.write_text(json.dumps(record))
    assert runner.main([only]) == 1
    assert f"{ONE}: vdevice\n1 differ from stage vdevice on" in capsys.readouterr().out


def test_a_record_of_other_versions_says_so(capsys):
    old = {"code": "1", "linalg": "2"}
    record = {"versions": {"llvmlite": "0"}, "cases": {ONE: old}}
    assert runner.compare(record, {ONE: {**old, "code": "3"}}) == []
    assert "in the record 0: differences may be its own" in capsys.readouterr().out
    assert runner.compare(record, {ONE: {**old, "linalg": "3"}}) == [ONE]


def test_what_is_refused_fails(monkeypatch, tmp_path, capsys):
    broken = Case("two_branch", "cpu-v3", settings={"eus": -1})
    monkeypatch.setattr(runner, "cases", lambda: {broken.name: broken})
    monkeypatch.setattr(runner, "RECORD", tmp_path / "record.json")
    assert runner.main(["--record"]) == 1
    assert "cannot compile for -1 execution units" in capsys.readouterr().out


def test_a_pattern_that_no_case_has_is_an_error(capsys):
    assert runner.main(["--only=resnet51"]) == 1
    assert "--only=resnet51: no case has such a name" in capsys.readouterr().err


SAMPLE = (
    Case("mlp", "cpu-v3", SMALL["mlp"]),
    Case("seq2seq", "cpu-x86-64", SMALL["seq2seq"], {"policy": "list", "fusion": False}),
    Case("resnet50", "cuda:sm_80", SMALL["resnet50"], {"precision": "bf16"}),
    Case("quantised_convolutions", "cpu-v3"),
)


@pytest.mark.parametrize("case", SAMPLE, ids=lambda case: case.name)
def test_the_printed_texts_give_the_same_again(case):
    assert unlike(case, compiled(case)) == []


@pytest.mark.parametrize(
    ("stage", "old", "new"),
    [
        ("linalg", "arith.addf", "arith.mulf"),
        ("rkernel", "module", "// a remark\nmodule"),
        ("vdevice", 'precision = "f32"', 'precision = "tf32"'),
    ],
)
def test_a_text_that_gives_something_else_is_seen(stage, old, new):
    case = Case("mlp", "cuda:h200", SMALL["mlp"])
    made = compiled(case)
    changed = made.stages[stage].replace(old, new)
    wrong = unlike(case, replace(made, stages={**made.stages, stage: changed}))
    assert wrong if stage != "rkernel" else wrong == ["rkernel"]


def test_rc_opt_runs_the_printed_s1_and_rc_compile_its_s4(tmp_path, monkeypatch):
    """The commands: S1 with its weights beside it, each later stage, and the schedule's code."""
    monkeypatch.chdir(tmp_path)
    case = Case("mlp", "cuda:h200", SMALL["mlp"], {"precision": "f16"})
    made = compiled(case)
    Path("m.onnx").write_bytes(network(case).SerializeToString())
    line = [f"--target={case.target}", "--precision=f16", "--no-machine-code"]
    assert rc_compile.main(["m.onnx", *line, "--emit=linalg", "-o", "m.mlir"]) == 0
    assert Path("m.mlir").read_text() == made.stage("linalg")
    for stage in ("rtask", "rkernel", "vdevice"):
        pipeline = f"rc-gpu{{device={case.target} target={case.target} precision=f16 to={stage}}}"
        assert rc_opt.main(["m.mlir", "-p", pipeline, "-o", f"{stage}.mlir"]) == 0
        assert Path(f"{stage}.mlir").read_text() == made.stage(stage)
    assert rc_compile.main(["vdevice.mlir", "--no-machine-code", "-o", "again.rcx"]) == 0
    assert load("again.rcx").artifact.certificate == made.certificate


@pytest.mark.parametrize("target", ["cpu-v4", "cuda:sm_80"])
def test_it_comes_out_equal_again(target, tmp_path):
    case = Case("mlp", target, SMALL["mlp"])
    first, second = compiled(case), compiled(case)
    assert hashes(first) == hashes(second)
    write_texts(first, tmp_path)
    assert (tmp_path / "vdevice.txt").read_text() == first.stage("vdevice")


def _case(name, before, now):
    return compare_gpu.Pair(name, compare_gpu.Figures(*before), compare_gpu.Figures(*now))


def test_gpu_code_is_worse_by_its_estimate_or_its_spills():
    same = _case("a", (100.0, 8, 64), (100.0, 8, 64))
    faster = _case("b", (100.0, 0, 64), (50.0, 0, 255))
    slower = _case("c", (100.0, 0, 64), (101.0, 0, 64))
    spilling = _case("d", (100.0, 0, 64), (100.0, 4, 64))
    assert [p.is_worse for p in (same, faster, slower, spilling)] == [False, False, True, True]
    lines = compare_gpu.table([same, faster, slower, spilling])
    assert [line.split()[-1] for line in lines[:3]] == ["b", "WORSE", "WORSE"]
    assert lines[-1] == (
        "4 cases: estimates 0.843 of those before (geometric mean), spilled bytes 8 -> 12, 2 worse"
    )


def test_folders_without_a_case_in_common_are_refused(tmp_path, capsys):
    (tmp_path / "a" / "x").mkdir(parents=True)
    (tmp_path / "b" / "y").mkdir(parents=True)
    assert compare_gpu.main([str(tmp_path / "a"), str(tmp_path / "b")]) == 1
    assert "have no case in common" in capsys.readouterr().err


def test_code_that_is_no_ptx_is_refused(tmp_path):
    (tmp_path / "report.txt").write_text('{"makespan_ns": 1.0}')
    (tmp_path / "code.bin").write_bytes(b"\x7fELF")
    with pytest.raises(CompilerError, match="no PTX"):
        compare_gpu.figures_of(tmp_path)
