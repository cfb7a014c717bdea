"""Compiled files and folders that are damaged, foreign, full or read-only: a typed error each."""

import os
import signal
import subprocess
import sys
import time
import warnings
import zipfile

import numpy as np
import onnx
import pytest
from bad_models import relu
from recrafted import rewrite, rewrite_facts

import rcompiler
from rcompiler.codegen.cpu import CacheWarning
from rcompiler.errors import (
    ArtifactError,
    DeviceError,
    ScheduleError,
)
from rcompiler.support.random_inputs import random_inputs
from rcompiler.tools import models

X = np.linspace(-1, 1, 64 * 32, dtype=np.float32).reshape(64, 32)


# -- compiled files -----------------------------------------------------------------------------
def test_truncated_and_damaged_files(saved):
    good = saved.read_bytes()
    for size in (0, 3, 64, 500, len(good) // 2, len(good) - 1):
        saved.write_bytes(good[:size])
        with pytest.raises(ArtifactError, match="m.rcx: "):
            rcompiler.load(saved)
    rng = np.random.default_rng(0)
    for position in rng.integers(0, len(good), 40):
        changed = bytearray(good)
        changed[position] ^= 0x10
        saved.write_bytes(changed)
        with pytest.raises(ArtifactError, match="m.rcx: "):
            rcompiler.load(saved)


def test_too_little_memory_for_the_proof_is_said(saved, monkeypatch):
    """The file is right: to compile the model again changes nothing."""

    def check(facts):
        raise MemoryError

    monkeypatch.setattr("rcompiler.driver.certified.check", check)
    with pytest.raises(DeviceError, match="checking it: the system refuses memory"):
        rcompiler.load(saved)


def test_foreign_files(tmp_path):
    with zipfile.ZipFile(tmp_path / "zip.rcx", "w") as archive:
        archive.writestr("model.json", "{}")
    np.save(tmp_path / "array.npy", X)
    onnx.save(relu(), tmp_path / "m.onnx")
    for name in ("zip.rcx", "array.npy", "m.onnx"):
        with pytest.raises(ArtifactError, match=f"{name}: it is no compiled model; "):
            rcompiler.load(tmp_path / name)
    with pytest.raises(ArtifactError, match="cannot be read"):
        rcompiler.load(tmp_path / "nowhere.rcx")
    with pytest.raises(ArtifactError, match="cannot be read"):
        rcompiler.load(tmp_path)
    with pytest.raises(ArtifactError, match="a path"):
        rcompiler.load(None)


def test_another_version_says_so(saved):
    data = saved.read_bytes()
    saved.write_bytes(data[:4] + (99).to_bytes(4, "little") + data[8:])
    with pytest.raises(ArtifactError, match="version 99.*compile the model again"):
        rcompiler.load(saved)


def test_unchanged_content_is_accepted(saved):
    rewrite(saved)
    assert rcompiler.load(saved)(X)[0].shape == (64, 32)


def test_a_proof_is_needed(saved):
    rewrite(saved, lambda header: header.update(proof={}))
    with pytest.raises(ArtifactError, match="no proof of its schedule; compile the model again"):
        rcompiler.load(saved)
    rewrite(saved, lambda header: header.pop("proof"))
    with pytest.raises(ArtifactError, match="the header is damaged"):
        rcompiler.load(saved)


@pytest.mark.parametrize("policy", ["rammer", "dynamic"])
def test_edited_tables_that_race_are_refused(tmp_path, policy):
    """Two EUs and a wait; the wait becomes one for a signal that comes too early."""
    proto = models.build("tiny_matmul_chain", ops=6, width=512)
    chain = rcompiler.compile_onnx(proto, eus=2, policy=policy)
    path = tmp_path / "chain.rcx"
    chain.save(path)
    waits = [
        (position, words)
        for program in chain.artifact.programs
        for words in program.streams
        for position in waits_of(words)
    ]
    assert waits, "the schedule of this model is expected to have waits"

    def earlier(words):
        """Every wait waits for the first event only: all later hand-offs are unordered."""
        at = 0
        for program in chain.artifact.programs:
            for stream in program.streams:
                for position in waits_of(stream):
                    words[at + position + 1] = 0
                    words[at + position + 2] = 1
                at += len(stream)

    rewrite(path, words=earlier)
    with pytest.raises((ScheduleError, ArtifactError)) as caught:
        rcompiler.load(path)
    assert "chain.rcx: " in str(caught.value)
    # the certificate of the old waits says what nobody knows now, or the signals come too late
    assert "nobody knows" in str(caught.value) or caught.value.rule in ("race", "deadlock")


def test_who_takes_the_queues_is_part_of_the_proof(tmp_path):
    """A dynamic program is right with an EU for each queue, too; the reverse need not be."""
    proto = models.build("tiny_matmul_chain", ops=6, width=512)
    chain = rcompiler.compile_onnx(proto, eus=2, policy="dynamic")
    path = tmp_path / "chain.rcx"
    chain.save(path)
    x = random_inputs(chain.inputs)
    expected = chain(**x)[0].tobytes()
    rewrite(path, lambda header: header["programs"][0].update(taken_by=1))
    assert rcompiler.load(path)(**x)[0].tobytes() == expected
    rewrite(path, lambda header: header["programs"][0].pop("taken_by"))
    with pytest.raises(ArtifactError, match="the certificate is not of this schedule"):
        rcompiler.load(path)
    rcompiler.compile_onnx(proto, eus=2).save(path)
    rewrite(path, lambda header: header["programs"][0].update(taken_by=2))
    with pytest.raises(ArtifactError, match="queue 0, word .* come before it"):
        rcompiler.load(path)


def waits_of(stream):
    from rcompiler.runtime import tables

    return [position for position, code, _ in tables.instructions(stream) if code == tables.WAIT]


@pytest.mark.parametrize(
    "change",
    [
        lambda p: p["buffers"].pop(),
        lambda p: p["buffers"][1].__setitem__(0, "moon"),
        lambda p: p["buffers"][1].__setitem__(0, 9),
        lambda p: p["buffers"][2].__setitem__(0, 64),
        lambda p: p["buffers"][3].__setitem__(0, -5),
        lambda p: p["buffers"][7].__setitem__(0, 1 << 30),
        lambda p: p["buffers"][7].pop(),
        lambda p: p["programs"][0]["operators"].clear(),
        lambda p: p["programs"][0].update(lines=["x"]),
        lambda p: p["programs"].append({}),
        lambda p: p.update(buffers=None),
    ],
)
def test_notes_that_do_not_fit_are_refused(saved, change):
    rewrite(saved, lambda header: change(header["proof"]))
    with pytest.raises((ArtifactError, ScheduleError), match="m.rcx: "):
        rcompiler.load(saved)


@pytest.mark.parametrize(
    "change",
    [
        lambda f: f["boxes"].pop(),
        lambda f: f["boxes"][0].__setitem__(0, [7, 7]),
        lambda f: f["boxes"][0][1].pop(),
        lambda f: f["boxes"][0][2][0].__setitem__(0, [1 << 60, 1 << 60]),
        lambda f: f["boxes"][0].__setitem__(3, [[0, 99]]),
        lambda f: f.update(boxes="x"),
    ],
)
def test_boxes_that_are_not_of_the_kernels_are_refused(saved, change):
    rewrite_facts(saved, change)
    with pytest.raises((ArtifactError, ScheduleError), match="m.rcx: "):
        rcompiler.load(saved)


# -- folders ------------------------------------------------------------------------------------
def compile_into(folder):
    """Compiles with a cache that cannot be used: the model works, one warning says why."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        found = rcompiler.compile_onnx(
            models.build("two_branch", rows=64, width=32), eus=2, cache=folder
        )
    assert [w.category for w in seen if issubclass(w.category, CacheWarning)] == [CacheWarning]
    assert str(folder) in str(seen[0].message)
    return found


def test_a_cache_folder_that_cannot_be_made_or_is_a_file(model, tmp_path):
    (tmp_path / "file").write_text("")
    assert np.array_equal(compile_into(tmp_path / "file")(X)[0], model(X)[0])
    assert np.array_equal(compile_into(tmp_path / "file" / "below")(X)[0], model(X)[0])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_cache_folder(model, tmp_path):
    tmp_path.chmod(0o500)
    assert np.array_equal(compile_into(tmp_path)(X)[0], model(X)[0])


def test_a_read_only_or_full_file_system(model):
    """/proc takes no files, whoever asks."""
    assert np.array_equal(compile_into("/proc/rcompiler-cache")(X)[0], model(X)[0])


_LIMITED = """
import resource, signal, sys, warnings
import numpy as np
import rcompiler
from rcompiler.tools import models
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
proto = models.build("two_branch", rows=64, width=32)
import rcompiler.compile
resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200))  # a disk with 200 bytes left
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    model = rcompiler.compile_onnx(proto, eus=1, cache=sys.argv[1])
print(len(seen), np.isfinite(model(np.ones((64, 32), np.float32))[0]).all())
try:
    model.save(sys.argv[2])
except rcompiler.CompilerError as error:
    print(type(error).__name__, error)
"""


def test_a_full_disk(tmp_path):
    (tmp_path / "m.rcx").write_text("what was there")
    command = [sys.executable, "-c", _LIMITED, str(tmp_path / "cache"), str(tmp_path / "m.rcx")]
    # CPython does not see that a write was cut short: modules that are imported below the limit
    # would leave the first 200 bytes of their bytecode for every process after this one.
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    first, second = done.stdout.splitlines()
    assert first == "1 True"
    assert second.startswith("ArtifactError") and "m.rcx: cannot be written" in second
    assert (tmp_path / "m.rcx").read_text() == "what was there"
    assert sorted(os.listdir(tmp_path)) == ["cache", "m.rcx"] and not os.listdir(tmp_path / "cache")


_SAVE_FOREVER = """
import sys
import rcompiler
model = rcompiler.load(sys.argv[1])
print("ready", flush=True)
while True:
    model.save(sys.argv[2])
"""


def test_a_save_that_is_killed_leaves_the_old_file_whole(saved, tmp_path):
    target = tmp_path / "target.rcx"
    for delay in (0.0, 0.003, 0.01, 0.02):
        command = [sys.executable, "-c", _SAVE_FOREVER, str(saved), str(target)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout and process.stdout.readline() == "ready\n"
            deadline = time.monotonic() + 120  # what takes longer hangs
            while not target.exists() and time.monotonic() < deadline:
                time.sleep(0.001)
            time.sleep(delay)
            process.send_signal(signal.SIGKILL)
        assert target.read_bytes() == saved.read_bytes()
