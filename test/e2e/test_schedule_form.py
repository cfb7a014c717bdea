"""Schedules in the schedule form: printed, edited by hand, compiled again, or refused."""

import subprocess
import sys

import numpy as np
import pytest
from onnx import parser

import rcompiler
from rcompiler.errors import InvalidModel, ScheduleError, ScheduleTextError
from rcompiler.tools import rc_compile, rc_opt

TARGET, RECORD = "cpu:x86-64", "zen5-2"  # what decides the text: the same on every machine
ROWS, DEPTH = 96, 64
MODEL = f"""
<ir_version: 8, opset_import: ["": 17]>
three (float[{ROWS},{DEPTH}] x, float[{DEPTH},{ROWS}] y)
    => (float[{ROWS},{DEPTH}] b, float[{DEPTH},{ROWS}] c) {{
  h = MatMul(x, y)
  b = MatMul(h, x)
  c = Tanh(y)
}}
"""
RUNS = ["MatMul_0", "Tanh_2", "MatMul_1"]  # of the one EU, in order; the last reads the first


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def model(cache):
    proto = parser.parse_model(MODEL)
    return rcompiler.compile_onnx(proto, target=TARGET, device=RECORD, eus=1, cache=cache)


@pytest.fixture(scope="module")
def inputs():
    random = np.random.default_rng(0)
    shapes = (ROWS, DEPTH), (DEPTH, ROWS)
    return [random.standard_normal(shape, dtype=np.float32) for shape in shapes]


@pytest.fixture
def compiled(model, cache):
    return lambda text: rcompiler.compile_schedule(text, model.constants(), cache=cache)


def runs_of(text):
    """The lines of runs by operator, in order."""
    lines = [line for line in text.splitlines() if line.startswith("    run ")]
    return {line.split()[1].rstrip(":"): line for line in lines}


def swapped(text, one, other):
    """The text with two runs in the place of each other."""
    runs = runs_of(text)
    lines = {runs[one]: runs[other], runs[other]: runs[one]}
    return "\n".join(lines.get(line, line) for line in text.splitlines())


def test_the_program_comes_first(model):
    text = model.stage("schedule")
    assert text.startswith("schedule 1\n") and [*runs_of(text)] == RUNS
    assert text.index("program main_0") < text.index("module attributes") < text.index("kernel k_")
    assert max(map(len, text.splitlines())) <= 120


def test_either_form_gives_the_same_file(model, compiled, tmp_path):
    files = []
    for stage in ("vdevice", "schedule"):
        again = compiled(model.stage(stage))
        assert again.stage("vdevice") == model.stage("vdevice")
        files.append(tmp_path / stage)
        again.save(files[-1])
    assert files[0].read_bytes() == files[1].read_bytes()


def test_independent_tasks_may_change_places(model, compiled, inputs):
    edited = swapped(model.stage("schedule"), *RUNS[:2])
    again = compiled(edited)
    assert [*runs_of(again.stage("schedule"))] == [RUNS[1], RUNS[0], RUNS[2]]
    assert again.artifact.certificate != model.artifact.certificate
    for found, expected in zip(again(*inputs), model(*inputs), strict=True):
        assert np.array_equal(found, expected)


def test_a_task_may_not_run_before_what_it_reads(model, compiled):
    with pytest.raises(ScheduleError, match="operator MatMul_1 .* reads MatMul_0") as caught:
        compiled(swapped(model.stage("schedule"), RUNS[0], RUNS[2]))
    assert caught.value.rule in ("race", "buffer")


def test_what_is_wrong_is_said_with_its_place(model, compiled):
    text = model.stage("schedule")
    line = text.splitlines().index(runs_of(text)["Tanh_2"]) + 1
    with pytest.raises(ScheduleTextError, match="'in7' is no buffer of this program") as caught:
        compiled(text.replace("](in1) -> Tanh_2", "](in7) -> Tanh_2"))
    assert caught.value.line == line
    with pytest.raises(InvalidModel, match=f"line {line}, column 5: 'vdevice.run' op expects @in0"):
        compiled(text.replace("](in1) -> Tanh_2", "](in0) -> Tanh_2"))


_SHOWN = """
import sys, rcompiler
text = rcompiler.load(sys.argv[1]).stage("schedule")
assert not {"torch_mlir", "llvmlite", "onnx"} & set(sys.modules)
print(text, end="")
"""


def test_a_loaded_model_shows_it_without_the_compiler(model, tmp_path):
    model.save(tmp_path / "a.rcx")
    command = [sys.executable, "-c", _SHOWN, str(tmp_path / "a.rcx")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == model.stage("schedule")


def test_the_tools_take_and_give_it(model, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    model.save("a.rcx")
    for stage, file in (("schedule", "s.schedule"), ("vdevice", "s.mlir")):
        assert rc_compile.main(["a.rcx", f"--emit={stage}", "-o", file]) == 0
    assert rc_opt.main(["s.mlir", "--schedule-form", "-o", "t.schedule"]) == 0
    assert (tmp_path / "s.schedule").read_text() == (tmp_path / "t.schedule").read_text()
    assert rc_compile.main(["t.schedule", "-o", "b.rcx"]) == 0
    assert rcompiler.load("b.rcx").artifact.certificate == model.artifact.certificate
    (tmp_path / "t.schedule").write_text("schedule 1\nprogram")
    assert rc_compile.main(["t.schedule", "-o", "c.rcx"]) == 1
    told = "t.schedule: line 2, column 8: expected the name of a program, not the end of the text"
    assert told in capsys.readouterr().err
