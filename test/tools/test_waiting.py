"""What the tools say while they work, and of more EUs than there are CPUs."""

import io
import sys

import pytest

from rcompiler.device.cpu import cpu_device
from rcompiler.device.record import save_device
from rcompiler.tools import _progress, _sources, rc_bench, rc_compile, rc_run, rc_tune, rc_viz


@pytest.fixture
def impatient(tool, monkeypatch):
    """Each step is told at once."""
    monkeypatch.setattr(_progress, "PATIENCE_S", 0.0)
    return tool


@pytest.fixture
def two_cpus(tool, monkeypatch):
    """This process may use two."""
    monkeypatch.setattr(_sources, "usable_cpus", lambda: 2)
    return tool


@pytest.mark.parametrize(
    ("main", "arguments"),
    [
        (rc_compile.main, ["two_branch", "-o", "m.rcx"]),
        (rc_compile.main, ["two_branch", "--check"]),
        (rc_run.main, ["two_branch"]),
    ],
)
def test_steps_are_lines_in_a_file(impatient, main, arguments):
    code, _, err = impatient(main, *arguments)
    steps = [line.split()[1] for line in err.splitlines() if line.endswith(" s)")]
    assert code == 0 and {"import", "roller-tile", "rammer-schedule", "object"} <= set(steps)


def test_rc_bench_tells_what_it_measures(impatient):
    options = ["--models=two_branch", "--threads=1,2", "--baseline=none", "--seconds=0.02"]
    code, _, err = impatient(rc_bench.main, *options, "--rounds=1")
    assert code == 0 and "two_branch, 1 thread (" in err and "two_branch, 2 threads (" in err


@pytest.mark.parametrize(
    ("source", "steps"),
    [
        ("two_branch", "read device import roller-tile rammer-schedule play page"),
        ("m.rcx", "read load check play page"),
        ("m.mlir", "read parse object check play page"),
    ],
)
def test_rc_viz_tells_its_steps(impatient, source, steps):
    if source != "two_branch":
        emit = ["--emit=vdevice"] if source == "m.mlir" else []
        impatient(rc_compile.main, "two_branch", *emit, "-o", source)
    code, out, err = impatient(rc_viz.main, source)
    told = [line.split()[1] for line in err.splitlines() if line.endswith(" s)")]
    assert (code, out) == (0, "") and set(steps.split()) <= set(told)
    assert [step for step in told if step in steps.split()] == steps.split()
    assert err.splitlines()[-1].endswith(" MB")  # and no step behind it


def test_short_work_is_silent(tool):
    assert tool(rc_compile.main, "two_branch", "-o", "m.rcx")[2].count("\n") == 1  # its size


def test_a_terminal_shows_one_line_and_leaves_none(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())
    with _progress.progress("rc-x") as told:
        for step in ("import", "import", "roller-tile"):
            told(step, 2.0)
    shown = sys.stderr.getvalue()
    assert "\n" not in shown and shown.count("import") == 1 and shown.endswith("\r\033[K")


def test_what_the_process_of_a_schedule_prints_is_not_among_its_steps(tmp_path, monkeypatch, capfd):
    """It is compiled in one of its own, where MLIR may say what it likes."""
    isolated = "'rcompiler.driver.isolated' in ' '.join(sys.orig_argv)"
    noise = f"import sys\nif {isolated}: print('noise', file=sys.stderr)"
    (tmp_path / "sitecustomize.py").write_text(noise)
    (tmp_path / "s.mlir").write_text("not at all")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(_progress, "PATIENCE_S", 0.0)
    assert rc_run.main([str(tmp_path / "s.mlir")]) == 1
    *steps, error = capfd.readouterr().err.splitlines()
    assert steps and all(step.endswith(" s)") for step in steps) and ": error: " in error


def test_rc_tune_names_operators(impatient, monkeypatch, tmp_path):
    monkeypatch.setenv("RC_CACHE_DIR", str(tmp_path / "cache"))
    code, out, err = impatient(rc_tune.main, "mlp", "--seconds=0.05")
    assert code == 0
    told = [line for line in err.splitlines() if "operator " in line]
    for number, name in enumerate(("fc1_Gemm", "fc2_Gemm", "fc3_Gemm"), 1):
        [row] = [row for row in out.splitlines() if row.startswith(f"{name} ")]
        assert "contraction" in row
        assert f"operator {number} of 3: {name}, contraction" in told[number - 1]
    assert "the program: rammer-schedule" in err and "the program: launched" in err


@pytest.mark.parametrize(
    ("main", "arguments"),
    [
        (rc_compile.main, ["two_branch", "--eus=64", "-o", "m.rcx"]),
        (rc_run.main, ["two_branch", "--eus=64"]),
        (rc_run.main, ["two.rcx", "--eus=64"]),
        (rc_bench.main, ["--models=two_branch", "--threads=1,64", "--baseline=none",
                         "--seconds=0.02", "--rounds=1"]),
    ],
)  # fmt: skip
def test_more_eus_than_cpus_are_a_warning(two_cpus, main, arguments):
    two_cpus(rc_compile.main, "two_branch", "--eus=2", "-o", "two.rcx")
    code, _, err = two_cpus(main, *arguments)
    [line] = [line for line in err.splitlines() if "warning" in line]
    assert code == 0 and "=64: this process may use 2 CPUs" in line and "=2" in line


@pytest.mark.parametrize(
    "option", ["--eus=2", "--target=cuda:h200", "--device=other.json", "--target=other.json"]
)
def test_programs_for_other_machines_are_none(two_cpus, option):
    save_device(cpu_device("x86-64", eus=64), "other.json")
    options = [option] if option == "--eus=2" else ["--eus=64", option]
    code, _, err = two_cpus(rc_compile.main, "two_branch", *options, "-o", "m.rcx")
    assert code == 0 and "warning" not in err
