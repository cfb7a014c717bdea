"""Files that are written over, or cut off, while a model has leases on them."""

import fcntl
import multiprocessing
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from mapped_files import X, saved, write_into
from test_storage import big

from rcompiler.errors import ArtifactError
from rcompiler.runtime import container
from rcompiler.runtime.artifact import Artifact
from rcompiler.runtime.executable import Executable
from rcompiler.support.private_folder import PrivateFolder


@pytest.fixture
def path(tmp_path):
    return saved(tmp_path, large=True)


def cut_off(path: Path) -> None:
    os.truncate(path, 1000)


def maps_of(path: Path) -> int:
    return Path("/proc/self/maps").read_text().count(str(path))


CHANGES = {
    "written over": write_into,
    "cut off": cut_off,
    "made anew": lambda p: p.write_bytes(b""),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_model_goes_on_with_what_was_loaded(path, change):
    content = path.read_bytes()
    model = Executable(Artifact.load(path), 1)
    binding = model.bind()
    right = model(X)[0]
    assert maps_of(path)
    change(path)
    assert np.array_equal(model(X)[0], right)
    binding()
    assert model.artifact.to_bytes() == content
    assert not maps_of(path)


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_so_it_does_when_the_change_comes_in_a_call(path, change):
    model = Executable(Artifact.load(path), 1)
    right = model(X)[0]
    team = model._launcher._launcher._processes.get().team
    start = team.start

    def launch(bases):
        change(path)
        return start(bases)

    team.start = launch
    assert np.array_equal(model(X)[0], right)


def test_weights_with_recipes_are_all_copied(tmp_path):
    path = tmp_path / "big.rcx"
    made = big(path)
    loaded = Artifact.load(path)
    content = path.read_bytes()
    cut_off(path)
    assert loaded.constants.tobytes() == made.constants.tobytes()
    assert loaded.to_bytes() == content


BUSY = """
import sys
import numpy as np
from rcompiler.runtime.artifact import Artifact
from rcompiler.runtime.executable import Executable

model = Executable(Artifact.load(sys.argv[1]), 1)
x = np.arange(64, dtype=np.float32)
right = model(x)[0]
print("runs", flush=True)
calls = 0
while model.artifact.mapped.lease.copied < 1 or calls < 1000:
    assert np.array_equal(model(x)[0], right)
    calls += model.artifact.mapped.lease.copied
"""


def test_a_process_that_calls_all_the_time_lives_on(path):
    with subprocess.Popen(
        [sys.executable, "-c", BUSY, path], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "runs\n"
        cut_off(path)
    assert process.returncode == 0


def test_what_somebody_has_open_for_writing_is_read(path):
    with open(path, "r+b") as file:
        model = Executable(Artifact.load(path), 1)
        right = model(X)[0]
        assert model.artifact.mapped is None and not maps_of(path)
        file.truncate(0)
        assert np.array_equal(model(X)[0], right)


def test_a_change_while_it_is_loaded_is_one_before_or_after(path, monkeypatch):
    content, mapped = path.read_bytes(), Artifact.load(path).mapped
    whole = type(mapped.lease).map_whole

    def slow(lease):
        cut_off(path)
        return whole(lease)

    monkeypatch.setattr(type(mapped.lease), "map_whole", slow)
    assert Artifact.load(path).to_bytes() == content


def child(model, right, path, queue):
    first = np.array_equal(model(X)[0], right)
    cut_off(path)
    queue.put(first and np.array_equal(model(X)[0], right))


def test_a_forked_child_answers_for_itself(path):
    model = Executable(Artifact.load(path), 1)
    right = model(X)[0]
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=child, args=(model, right, path, queue))
    process.start()
    assert queue.get(timeout=60)
    process.join()
    assert np.array_equal(model(X)[0], right)


def test_without_memory_for_a_copy_the_change_is_told(path, monkeypatch):
    def refuse(*_):
        raise OSError("no memory")

    model = Executable(Artifact.load(path), 1)
    model(X)
    monkeypatch.setattr(os, "memfd_create", refuse)
    cut_off(path)
    with pytest.raises(ArtifactError, match="written over"):
        model(X)


def test_a_lease_goes_with_its_model(path):
    model = Executable(Artifact.load(path), 1)
    handle = model.artifact.mapped.lease._handle
    assert fcntl.fcntl(handle, fcntl.F_GETLEASE) == fcntl.F_RDLCK
    assert not os.get_inheritable(handle)
    del model
    with pytest.raises(OSError):
        os.fstat(handle)
    cut_off(path)  # waits for nobody


def test_several_models_of_a_file_all_answer(path):
    models = [Executable(Artifact.load(path), 1) for _ in range(3)]
    rights = [model(X)[0] for model in models]
    threads = [threading.Thread(target=change, args=(path,)) for change in CHANGES.values()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for model, right in zip(models, rights, strict=True):
        assert np.array_equal(model(X)[0], right)


def rewritten_entry(path: Path, content: bytes) -> None:
    with PrivateFolder(path.parent) as folder:
        folder.write(path.name, content)


WRITERS = {
    "save": lambda path, content: Artifact.from_bytes(content).save(path),
    "container": lambda path, content: container.write(path, *container.read(path, mapped=False)),
    "cache": rewritten_entry,
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_who_writes_files_here_puts_another_in_the_place_of_one_in_use(path, write):
    path.parent.chmod(0o700)
    content = path.read_bytes()
    model = Executable(Artifact.load(path), 1)
    before = path.stat().st_ino
    with open(path, "rb") as old:
        write(path, content)
        assert path.stat().st_ino != before and old.read() == content
    model(X)
    assert not model.artifact.mapped.lease.copied  # nobody has opened it for writing
