"""gpu_bench stress: launches of which each is checked, also below compute-sanitizer."""

import json
import sys
from functools import partial

import numpy as np
import pytest
from gpu_bench_folder import compiled, tiny
from measurements import gpu_bench
from measurements._gpu_bench_group import read_groups
from measurements._gpu_engines import loaded
from measurements._gpu_stress import stress
from measurements._sanitizer import sanitized

from rcompiler.errors import ToolError
from rcompiler.runtime.gpu.arrays import DeviceArray


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return compiled(tmp_path_factory.mktemp("stress"))


@pytest.fixture
def bench(tool):
    """bench(*arguments) -> (exit code, stdout, stderr)."""
    return partial(tool, gpu_bench.main)


# -- stress --------------------------------------------------------------------------------------
def test_what_is_stressed_hands_work_over(folder):
    group = next(group for group in read_groups(folder) if group.kind == "stress")
    model = loaded(folder, group, "rammer")
    assert model.eus == 4 and model.needs.blocks == 4


def test_launches_are_counted_and_checked(bench, folder, tmp_path):
    code, out, err = bench(
        "stress", str(folder.path), "--models=tiny", "--launches=10", "--json=s.json"
    )
    assert code == 0, err
    results = json.loads((tmp_path / "s.json").read_text())["results"]
    assert [(r["policy"], r["launches"], r["differing"]) for r in results] == [
        ("wave", 10, 0),
        ("rammer", 10, 0),
    ]


def test_launches_that_differ(folder, monkeypatch):
    """Each copy of an output back is one launch; two of them give another bit."""
    read, count = DeviceArray.numpy, iter(range(100))

    def numpy(array):
        found = read(array)
        if next(count) in (9, 11):
            found.view(np.uint8).reshape(-1)[-1] ^= 1
        return found

    monkeypatch.setattr(DeviceArray, "numpy", numpy)
    found = stress(folder, tiny(folder), "wave", 14, 1.0)
    assert (found.launches, found.differing, found.first) == (14, 2, 9)
    assert found.fault == "tiny, f32, wave: 2 launches differ, the first is number 9"


def test_a_launch_that_leaves_what_was_there(folder, monkeypatch):
    """Outputs of the launch before would be seen: inputs take turns."""
    read, first = DeviceArray.numpy, []

    def numpy(array):
        first.append(read(array))
        return first[0]

    monkeypatch.setattr(DeviceArray, "numpy", numpy)
    found = stress(folder, tiny(folder), "wave", 4, 1.0)
    assert found.launches == 1 and "two inputs give the same outputs" in found.error


# -- compute-sanitizer ---------------------------------------------------------------------------
SANITIZER = """#!{python}
import subprocess, sys
start = sys.argv.index({python!r})
flags = sys.argv[1:start]
assert flags[:2] == ["--tool", {tool!r}] and "--error-exitcode" in flags, flags
status = subprocess.run(sys.argv[start:]).returncode
print("========= {summary}")
sys.exit({found} or status)
"""


@pytest.fixture
def sanitizer(tmp_path):
    """sanitizer(tool, summary, status) -> path of a program that runs a command and says that."""

    def make(tool, summary, found=0):
        path = tmp_path / "compute-sanitizer"
        text = SANITIZER.format(python=sys.executable, tool=tool, summary=summary, found=found)
        path.write_text(text)
        path.chmod(0o755)
        return str(path)

    return make


RACES = "RACECHECK SUMMARY: {} displayed ({}, 0 warnings)"


@pytest.mark.parametrize(
    "check, summary, found, code",
    [
        ("memcheck", "ERROR SUMMARY: 0 errors", 0, 0),
        ("memcheck", "ERROR SUMMARY: 3 errors", 86, 1),
        ("racecheck", RACES.format("0 hazards", "0 errors"), 0, 0),
        ("racecheck", RACES.format("1 hazard", "1 error"), 86, 1),
    ],
)
def test_verdicts(bench, folder, sanitizer, tmp_path, check, summary, found, code):
    program = sanitizer(check, summary, found)
    options = [f"--sanitizer={check}", f"--sanitizer-path={program}", "--json=v.json"]
    few = ["--models=tiny", "--launches=2", "--policies=wave"]
    status, out, err = bench("stress", str(folder.path), *few, *options)
    assert status == code
    assert "tiny   f32        wave" in out and summary in out
    verdict = json.loads((tmp_path / "v.json").read_text())
    assert verdict["clean"] == (code == 0)
    if code:
        assert f"{check} has found {verdict['found']}; the command's status is 86" in err


def test_a_command_that_fails_is_not_clean(sanitizer):
    program = sanitizer("memcheck", "ERROR SUMMARY: 0 errors")
    verdict = sanitized("memcheck", [sys.executable, "-c", "raise SystemExit(1)"], 60.0, program)
    assert verdict.found == 0 and verdict.status == 1 and not verdict.clean


def test_a_sanitizer_that_says_nothing(sanitizer):
    program = sanitizer("memcheck", "Error: Device not supported")
    with pytest.raises(ToolError, match="says nothing of what it found .*Device not supported"):
        sanitized("memcheck", [sys.executable, "-c", "pass"], 60.0, program)


def test_no_sanitizer(bench, folder, monkeypatch):
    monkeypatch.setenv("PATH", "")
    for home in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(home, raising=False)
    for more in ((), ("--sanitizer-path=absent",)):
        code, _, err = bench("stress", str(folder.path), "--sanitizer=memcheck", *more)
        assert code == 1 and "is not there; it comes with the CUDA toolkit" in err
