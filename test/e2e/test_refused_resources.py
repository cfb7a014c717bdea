"""Memory, address space and threads that the system refuses: one typed error that says so."""

import errno
import subprocess
import sys
import threading

import onnx
import pytest

import rcompiler
from rcompiler.driver import isolate
from rcompiler.driver.steps import CompilationSteps
from rcompiler.errors import DeviceError, InvalidModel
from rcompiler.tools import models

_LOAD = """if True:
    import resource, sys
    import rcompiler.loading
    from rcompiler.errors import DeviceError
    pages = int(open("/proc/self/statm").read().split()[0])
    limit = pages * 4096 + (int(sys.argv[2]) << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    try:
        rcompiler.load(sys.argv[1], eus=2)
        print("loaded")
    except DeviceError as error:
        print(error)
"""

_COMPILE = """if True:
    import resource, sys
    limit = int(sys.argv[2]) << 20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    import rcompiler
    from rcompiler.errors import DeviceError
    try:
        rcompiler.compile_onnx(sys.argv[1], eus=2, cache=False)
        print("compiled")
    except DeviceError as error:
        print(error)
    assert "torch_mlir" not in sys.modules
"""


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("large") / "m.rcx"
    model = rcompiler.compile_onnx(models.build("mlp", layers=(784, 4096, 10)), eus=2)
    model.save(path)
    model.close()
    return path


@pytest.mark.parametrize("megabytes", [0, 1, 4, 12, 14, 16, 20, 24, 32])
def test_loading_with_little_address_space(saved, megabytes):
    command = [sys.executable, "-c", _LOAD, str(saved), str(megabytes)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    words = ("loaded", "ulimit -v", "of memory are needed", "no memory for", "refuses thread")
    assert any(word in done.stdout for word in words), done.stdout


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    path = tmp_path_factory.mktemp("limited") / "m.onnx"
    onnx.save(models.build("mlp", layers=(784, 4096, 4096, 10)), path)
    return path


@pytest.mark.parametrize("megabytes", [300, 400, 500, 550, 600, 700, 900, 1500, 4000])
def test_compiling_with_little_address_space(written, megabytes):
    """Loading MLIR, too, may end a process: so another one compiles, and this one stays."""
    command = [sys.executable, "-c", _COMPILE, str(written), str(megabytes)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert megabytes < 4000 or done.stdout == "compiled\n"
    assert done.stdout == "compiled\n" or "(ulimit -v)" in done.stdout, done.stdout


def test_a_model_that_is_compiled_apart():
    model, steps = models.build("two_branch", rows=64, width=32), []
    options = {"eus": 2, "cache": False, "device": "default"}
    apart = isolate.compile_onnx(model, **options, progress=lambda step, _: steps.append(step))
    here = rcompiler.compile_onnx(model, **options)
    assert apart.artifact.certificate == here.artifact.certificate
    assert steps[0] == "import" and steps[-1] == "link"
    with pytest.raises(InvalidModel, match="not an ONNX model"):
        isolate.compile_onnx(b"no model")
    with pytest.raises(InvalidModel, match="not NoneType"):
        isolate.compile_onnx(None)


def test_what_a_process_apart_warns_of(tmp_path):
    cache = tmp_path / "cache"
    cache.mkdir(mode=0o777)
    cache.chmod(0o777)  # others may write to it
    with pytest.warns(UserWarning, match="object cache"):
        isolate.compile_onnx(models.build("mlp", layers=(8, 4)), cache=cache, device="default")


def test_compiling_without_another_thread(monkeypatch):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(DeviceError, match="refuses (another thread|thread).*"):
        rcompiler.compile_onnx(models.build("two_branch", rows=64, width=32), eus=2, cache=False)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (MemoryError(), "step: the system refuses memory or address space; .*ulimit -v"),
        (RuntimeError("can't start new thread"), "step: the system refuses another thread; "),
        (BlockingIOError(errno.EAGAIN, "no"), "step: the system refuses memory or another process"),
        (OSError(errno.ENOMEM, "no"), "step: the system refuses memory or another process"),
    ],
)
def test_no_refusal_is_called_a_defect(error, words):
    steps = CompilationSteps(None)
    with pytest.raises(DeviceError, match=words), steps.boundary():
        steps.begin("step")
        raise error
