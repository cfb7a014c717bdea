"""Python as a part of another program: what is started is an interpreter, or nothing."""

import subprocess
import sys
from pathlib import Path

import pytest

from rcompiler.errors import DeviceError
from rcompiler.support import interpreter as module
from rcompiler.support import scratch
from rcompiler.support.interpreter import NoInterpreter, interpreter
from rcompiler.support.workers import Worker, can_help


@pytest.fixture(autouse=True)
def _asked_anew():
    module._found.cache_clear()
    yield
    module._found.cache_clear()


@pytest.fixture
def service(tmp_path, monkeypatch):
    """A program with Python in it, which notes that it was started."""
    program = tmp_path / "uwsgi"
    program.write_text(f"#!/bin/sh\necho started >> {tmp_path}/started\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    yield program
    assert not (tmp_path / "started").exists()


def test_what_is_called_like_an_interpreter_is_one(tmp_path, monkeypatch):
    assert interpreter() == sys.executable
    for name in ("python", "python3.11", "python3.13t", "pypy3"):
        program = tmp_path / name
        program.touch(mode=0o755)
        monkeypatch.setattr(sys, "executable", str(program))
        assert interpreter() == str(program)


def test_the_interpreter_of_the_environment_is_found(service):
    found = interpreter()
    assert found is not None and Path(found).parent == Path(sys.prefix, "bin")
    ran = subprocess.run([found, "-c", "print(6 * 7)"], capture_output=True, text=True)
    assert ran.stdout == "42\n"


def test_one_of_another_version_or_with_other_packages_is_none(service, tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    for said in ("[2, 7, 18] /usr/lib/numpy/__init__.py", "", "no"):
        other = tmp_path / "bin" / "python3"
        other.write_text(f"#!/bin/sh\necho '{said}'\n")
        other.chmod(0o755)
        for name in ("prefix", "exec_prefix"):
            monkeypatch.setattr(sys, name, str(tmp_path))
        monkeypatch.setattr(sys, "_base_executable", str(service))
        module._found.cache_clear()
        assert interpreter() is None and not can_help()
    with pytest.raises(NoInterpreter, match=r"uwsgi', which is no Python.*set sys.executable"):
        Worker("rcompiler.codegen.llvm_worker")


def test_a_frozen_program_is_never_started(service, monkeypatch):
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert interpreter() is None
    with pytest.raises(NoInterpreter, match="frozen program.*load its .rcx file"):
        Worker("rcompiler.codegen.llvm_worker")


COMPILES = """
import sys, tempfile, warnings
import numpy as np
from onnx import parser
import rcompiler
from rcompiler.errors import CompiledHereWarning, DeviceError

sys.executable, sys.frozen = {program!r}, True
tempfile.tempdir = "/proc/1"  # as in a container that can only be read
proto = parser.parse_model('''
  <ir_version: 10, opset_import: ["": 21]>
  g (float[n,64] x, float[64,64] w) => (float[n,64] y) {{ a = MatMul(x, w) y = Softmax(a) }}
''')
x, w = np.ones((8, 64), np.float32), np.ones((64, 64), np.float32)
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    model = rcompiler.compile_onnx(proto, shapes={{"n": 8}}, eus=2, cache=False)
assert [each.category for each in told] == [CompiledHereWarning], told
again = rcompiler.compile_schedule(model.stage("schedule"), model.constants())
assert np.array_equal(model(x, w)[0], again(x, w)[0]) and abs(model(x, w)[0] - 1 / 64).max() < 1e-6
try:
    rcompiler.compile_schedule("no schedule")
except rcompiler.CompilerError:
    pass
try:
    rcompiler.compile_onnx(proto, shapes={{"n": range(1, 9)}}, build="largest", cache=False)
except DeviceError as error:
    assert "frozen" in str(error)
"""


def test_a_frozen_program_compiles_in_its_process(service):
    """And without a temporary folder: what says that a process failed is in memory."""
    program = COMPILES.format(program=str(service))
    python = str(Path(sys.prefix, "bin", "python3"))
    ran = subprocess.run([python, "-c", program], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[-2000:]


def test_a_scratch_folder_is_in_memory_where_no_other_can_be_written(monkeypatch):
    monkeypatch.setattr(scratch.tempfile, "tempdir", "/proc/1")
    with scratch.scratch_folder("rc-test-") as folder:
        (folder / "x").write_bytes(b"1")
    assert not folder.exists() and folder.parent == Path("/dev/shm")
    monkeypatch.setattr(scratch, "_MEMORY", "/proc/1")
    with pytest.raises(DeviceError, match="set TMPDIR to one that can"):
        with scratch.scratch_folder("rc-test-"):
            pass


def test_a_file_in_memory_is_in_no_folder():
    with scratch.memory_file("rc-test") as file:
        file.write(b"word")
        file.seek(0)
        assert file.read() == b"word"
        assert Path(f"/proc/self/fd/{file.fileno()}").readlink().parts[1].startswith("memfd:")
