"""Systems that run no compiled model say which one they are."""

import sys

import pytest
import small_models as sm

import rcompiler
from rcompiler.errors import DeviceError
from rcompiler.runtime import host_system, image
from rcompiler.runtime.artifact import Artifact
from rcompiler.runtime.executable import Executable


@pytest.fixture
def path(tmp_path):
    sm.artifact([sm.two_steps(1)]).save(tmp_path / "m.rcx")
    return tmp_path / "m.rcx"


def test_a_system_that_is_no_linux_is_named(path, monkeypatch):
    """The file is whole: that something is missing on that system was told as damage."""
    data = path.read_bytes()
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(host_system.platform, "system", lambda: "Darwin")
    for load, given in ((rcompiler.load, path), (Artifact.from_bytes, data)):
        with pytest.raises(DeviceError, match="runs Darwin, and compiled models are loaded on Lin"):
            load(given)


def test_a_processor_of_another_kind_is_named(path, monkeypatch):
    artifact = Artifact.load(path)
    monkeypatch.setattr(host_system.platform, "machine", lambda: "aarch64")
    with pytest.raises(DeviceError, match="this machine is aarch64, and code for CPUs is for x86"):
        Executable(artifact, 1)


def test_refused_executable_memory_names_what_may_refuse_it(path, monkeypatch):
    def refuse(start, size, protection, what, remedy):
        raise DeviceError(f"{what} (Permission denied); {remedy}")

    monkeypatch.setattr(image, "set_protection", refuse)
    with pytest.raises(DeviceError, match=r"SELinux \(execmem\).*seccomp.*MemoryDenyWriteExecute="):
        Executable(Artifact.load(path), 1)
