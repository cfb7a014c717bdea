"""Memory, address space and threads that the system refuses: one typed error that says so."""

import errno
import subprocess
import sys
import threading

import pytest

import rcompiler
from rcompiler.errors import DeviceError
from rcompiler.steps import Steps
from rcompiler.tools import models

_LOAD = """if True:
    import resource, sys
    import rcompiler.model
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
    steps = Steps(None)
    with pytest.raises(DeviceError, match=words), steps.boundary():
        steps.begin("step")
        raise error
