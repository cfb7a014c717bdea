"""python -m rcompiler, and its doctor."""

import json
import sqlite3
import subprocess
import sys

import pytest

from rcompiler.__main__ import main
from rcompiler.errors import DeviceError
from rcompiler.profiler.index import ProfileIndex
from rcompiler.profiler.records import Measurement
from rcompiler.profiler.storage import NAME
from rcompiler.runtime import image
from rcompiler.support.installed import Requirement, importable, install_command, requirements
from rcompiler.tools import _doctor


@pytest.fixture
def quick(monkeypatch):
    """Nothing is tried in other processes: it works."""
    monkeypatch.setattr(_doctor, "_child", lambda *_: (0, "output: right"))


def states(tool):
    """Exit code, and the findings by name."""
    code, out, err = tool(main, "doctor", "--json")
    data = json.loads(out)
    assert err == "" and data["works"] == (code == 0)
    return code, {finding["name"]: finding for finding in data["findings"]}


def test_commands_are_listed(tool):
    for arguments in ((), ("--help",)):
        code, out, err = tool(main, *arguments)
        assert (code, err) == (0, "")
        for name in ("doctor", *(f"rc-{n}" for n in ("compile run opt tune bench viz".split()))):
            [line] = [line for line in out.splitlines() if line.split()[:1] == [name]]
            assert len(line.split()) > 5, line


def test_wrong_commands_are_a_line(tool):
    code, out, err = tool(main, "docter")
    assert (code, out) == (2, "") and "there is no command 'docter'" in err
    code, _, err = tool(main, "rc-run", "m.rcx")
    assert code == 2 and "python -m rcompiler.tools.rc_run" in err and err.count("\n") == 1


def test_the_version_of_the_package(tool):
    code, out, _ = tool(main, "--version")
    assert code == 0 and out.split()[0] == "rcompiler"


def test_what_works_here(tool):
    """As a program; each thing that is needed is looked at."""
    code, out, err = tool(main, "doctor")
    assert (code, err) == (0, "") and out.endswith("all that is needed works\n")
    for name in ("Python", "torch-mlir", "numpy", "MLIR", "LLVM", "CPU", "execution units",
                 "executable memory", "compile and run"):  # fmt: skip
        assert any(line.startswith(f"ok      {name} ") for line in out.splitlines()), name
    assert "largest error" in out and "code is for x86-64" in out and "--eus is " in out


def test_what_is_not_ok_comes_with_a_remedy(tool, quick):
    """RC_CACHE_DIR is empty here, so at least the cache and the record are absent."""
    code, found = states(tool)
    assert code == 0 and found["cache folder"]["state"] == "absent"
    for finding in found.values():
        told = finding["remedy"] or "; " in finding["detail"]
        assert finding["state"] == "ok" or told, finding


def test_with_numpy_alone(numpy_only):
    code, out, err = numpy_only("rcompiler", "doctor")
    assert (code, err) == (1, "")
    assert "FAILED  compiler" in out and install_command() in out
    assert "compiled .rcx files run" in out and "ok      executable memory" in out
    assert out.endswith("compiler\n") and "MLIR  " not in out


def test_an_import_that_crashes_is_a_finding(tool, monkeypatch):
    status, said = _doctor._child("-c", "import os; os.abort()")
    assert (status, said) == (-6, "ended by SIGABRT")
    monkeypatch.setattr(_doctor, "_child", lambda *_: (status, said))
    code, found = states(tool)
    assert code == 1 and found["MLIR"]["state"] == found["compile and run"]["state"] == "FAILED"
    assert "pip install" in found["MLIR"]["remedy"]


def test_what_is_optional_does_not_fail(tool, quick, monkeypatch):
    monkeypatch.setattr(_doctor, "importable", lambda name: name != "openvino" and importable(name))
    code, found = states(tool)
    assert code == 0 and found["openvino"]["state"] == "absent"
    assert found["openvino"]["remedy"] == "pip install onnxruntime openvino ortools"


def test_a_package_of_another_version_fails(tool, quick, monkeypatch):
    wanted = [Requirement("numpy", ">=2.1"), Requirement("torch-mlir", "==1")]
    monkeypatch.setattr(_doctor, "requirements", lambda: wanted)
    code, found = states(tool)
    assert code == 1 and found["numpy"]["state"] == "ok"
    assert found["torch-mlir"]["remedy"] == "pip install 'torch-mlir==1'"


def test_executable_memory_that_is_refused(tool, quick, monkeypatch):
    def refuse(*_):
        raise DeviceError("executable memory is refused; allow it")

    monkeypatch.setattr(image, "set_protection", refuse)
    code, found = states(tool)
    assert code == 1 and found["executable memory"]["detail"].endswith("allow it")


def test_cache_folders(tool, quick, monkeypatch, tmp_path):
    for name, mode, state in (("own", 0o700, "ok"), ("open", 0o777, "absent")):
        folder = tmp_path / name
        folder.mkdir()
        folder.chmod(mode)
        monkeypatch.setenv("RC_CACHE_DIR", str(folder))
        code, found = states(tool)
        assert code == 0 and found["cache folder"]["state"] == state
        assert str(folder) in found["cache folder"]["detail"]
    monkeypatch.setenv("RC_CACHE_DIR", str(tmp_path / "none/yet"))
    assert "made on first use" in states(tool)[1]["cache folder"]["detail"]
    assert not (tmp_path / "none").exists()


def test_a_measured_record_is_found(tool, quick, monkeypatch, tmp_path):
    from rcompiler.tools import rc_tune

    monkeypatch.delenv("RC_DEVICE")
    monkeypatch.setenv("RC_CACHE_DIR", str(tmp_path / "cache"))
    assert states(tool)[1]["device record"]["remedy"].startswith("rc-tune --device")
    tool(rc_tune.main, "--device", "--seconds=0.02")
    assert "measured 2" in states(tool)[1]["device record"]["detail"]
    monkeypatch.setenv("RC_DEVICE", "h200")
    assert "RC_DEVICE=h200 decides" in states(tool)[1]["device record"]["detail"]


def test_the_profile_index(tool, quick, monkeypatch, tmp_path):
    """It is looked at, and left as it is."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("RC_CACHE_DIR", str(folder))
    assert "made when rc-tune" in states(tool)[1]["profile index"]["detail"]
    path = folder / NAME
    index = ProfileIndex(path)
    index.record([Measurement("op", "tile", "machine", "code", 1.0, 0.0, 5, "")])
    index.close()
    found = states(tool)[1]["profile index"]
    assert (
        found["state"] == "ok" and "1 kernel, 0 programs, 0 trials and 0 plans" in found["detail"]
    )
    with sqlite3.connect(path) as other:
        other.execute("UPDATE kernel SET ns = -1")
    other.close()
    _is_left(tool, path, "figures that cannot be", "index.damaged")
    path.write_bytes(b"no database " * 100)
    _is_left(tool, path, "is damaged: file is not a database", "rc-tune MODEL")
    path.unlink()
    ProfileIndex(path).close()
    with sqlite3.connect(path) as other:
        other.execute("PRAGMA user_version = 99")
    other.close()
    _is_left(tool, path, "by a newer version", "RC_CACHE_DIR")
    path.unlink()
    path.mkdir()
    code, found = states(tool)
    assert code == 0 and "no plain file" in found["profile index"]["detail"]


def _is_left(tool, path, detail, remedy):
    before = path.read_bytes()
    code, found = states(tool)
    finding = found["profile index"]
    assert code == 0 and finding["state"] == "absent"
    assert detail in finding["detail"] and remedy in finding["remedy"]
    assert path.read_bytes() == before and [*path.parent.iterdir()] == [path]


def test_a_gpu_is_named(tool, quick, monkeypatch):
    class Driver:
        name, capability, multiprocessors = "a GPU", (9, 0), 132

    monkeypatch.setattr("rcompiler.runtime.gpu.cuda.CudaDriver", Driver)
    code, found = states(tool)
    assert code == 0 and found["GPU"]["state"] == "ok"
    assert found["GPU"]["detail"].startswith("a GPU, sm_90, 132 EUs")


def test_a_driver_that_breaks_is_no_crash(tool, quick, monkeypatch):
    def broken():
        raise RuntimeError("odd")

    monkeypatch.setattr("rcompiler.runtime.gpu.cuda.CudaDriver", broken)
    code, found = states(tool)
    assert code == 0 and found["GPU"]["detail"] == "RuntimeError: odd" and found["GPU"]["remedy"]


def test_a_cap_that_is_no_level_fails(tool, quick, monkeypatch):
    monkeypatch.setenv("RC_HOST_LEVEL", "v9")
    code, found = states(tool)
    assert code == 1 and "give one of" in found["CPU"]["detail"]


@pytest.mark.parametrize(
    ("version", "bounds", "expected"),
    [
        ("2.4.6", ">=2.1", True),
        ("2.0.9", ">=2.1", False),
        ("13.5.0", "<14,>=13", True),
        ("14.0", "<14,>=13", False),
        ("20261001", "==20261001", True),
        ("1.2", "==1.2.0", True),
        ("1.0", "", True),
    ],
)
def test_versions_within_bounds(version, bounds, expected):
    assert _doctor.meets(version, bounds) is expected


def test_requirements_come_from_the_metadata():
    found = {each.package: each for each in requirements()}
    assert found["torch-mlir"].bounds.startswith("==") and found["onnx"].extra == ""
    assert found["cuda-bindings"].remedy == "pip install 'cuda-bindings<14,>=13'"


def test_as_a_program():
    done = subprocess.run([sys.executable, "-m", "rcompiler"], capture_output=True, text=True)
    assert done.returncode == 0 and "rc-compile" in done.stdout
