"""Files that are written over while a model is loaded that has mapped them."""

import os
import subprocess
import sys

import numpy as np
import pytest
from mapped_files import X, saved, write_into

from rcompiler.errors import ArtifactError
from rcompiler.runtime.artifact import Artifact
from rcompiler.runtime.executable import Executable
from rcompiler.runtime.file_watch import FileWatch


@pytest.fixture(autouse=True)
def no_lease(monkeypatch):
    """Files are those of another user."""
    monkeypatch.setattr(FileWatch, "protect", lambda self: True)


@pytest.fixture
def path(tmp_path):
    return saved(tmp_path, large=True)


def test_other_weights_are_told_before_they_are_used(path):
    model = Executable(Artifact.load(path), 1)
    binding = model.bind()
    model(X)
    write_into(path)
    for run in (lambda: model(X), binding, lambda: model.artifact.to_bytes()):
        with pytest.raises(ArtifactError, match=r"m.rcx: .* other bytes .* load it again"):
            run()


def test_other_weights_are_told_when_they_come_in_a_call(path):
    model = Executable(Artifact.load(path), 1)
    team = model._launcher._launcher._processes.get().team
    start = team.start

    def launch(bases):
        write_into(path)
        return start(bases)

    team.start = launch
    with pytest.raises(ArtifactError, match="written over"):
        model(X)


CUT_OFF = """
import sys
import numpy as np
import rcompiler
from rcompiler.errors import ArtifactError
from rcompiler.runtime.artifact import Artifact
from rcompiler.runtime.executable import Executable
from rcompiler.runtime.file_watch import FileWatch

FileWatch.protect = lambda self: True
model = Executable(Artifact.load(sys.argv[1]), 1)
x = np.arange(64, dtype=np.float32)
model(x)
open(sys.argv[1], "r+b").truncate(1000)
for _ in range(2):
    try:
        model(x)
    except ArtifactError as error:
        print(error)
"""


def test_a_file_that_is_cut_off_does_not_end_the_process(path):
    size = path.stat().st_size
    ran = subprocess.run(
        [sys.executable, "-c", CUT_OFF, path], capture_output=True, text=True, check=True
    )
    assert ran.stdout.count(f"it had {size} bytes when it was loaded and has 1000") == 2


def test_a_file_that_is_touched_or_written_anew_with_the_same_bytes_is_the_same(path):
    model = Executable(Artifact.load(path), 1)
    right = model(X)[0]
    path.touch()
    assert np.array_equal(model(X)[0], right)
    content = path.read_bytes()
    with open(path, "r+b") as file:
        file.write(content)
    assert np.array_equal(model(X)[0], right)


def test_a_file_that_takes_the_name_is_another_one(path, tmp_path):
    model = Executable(Artifact.load(path), 1)
    right = model(X)[0]
    other = tmp_path / "other"
    other.write_bytes(b"something else")
    other.replace(path)
    assert np.array_equal(model(X)[0], right)
    path.unlink()
    assert np.array_equal(model(X)[0], right)


@pytest.mark.parametrize("large", [True, False])
def test_what_is_read_into_memory_stays(tmp_path, large):
    path = saved(tmp_path, large)
    model = Executable(Artifact.load(path, mapped=not large), 1)
    right = model(X)[0]
    path.write_bytes(b"")
    assert np.array_equal(model(X)[0], right)
    assert Artifact.from_bytes(model.artifact.to_bytes()).certificate == model.artifact.certificate


def test_the_handle_goes_with_the_model(path):
    model = Executable(Artifact.load(path), 1)
    handle = model.artifact.mapped._handle
    assert os.path.samestat(os.fstat(handle), path.stat())
    assert not os.get_inheritable(handle)
    del model
    with pytest.raises(OSError):
        os.fstat(handle)
