"""runtime/artifact.py and container.py: what comes back, and what is refused."""

import dataclasses
import hashlib
import json
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import recrafted
import small_models as sm
from counted import calls_in

from rcompiler.errors import ArtifactError
from rcompiler.runtime.artifact import Artifact
from rcompiler.runtime.executable import Executable
from rcompiler.runtime.program import Tensor, check_tensor

X = np.linspace(-3, 3, sm.N, dtype=np.float32)


def sample() -> Artifact:
    return sm.artifact(
        [sm.two_steps(2)],
        provenance={"model": "0123", "policy": "rammer"},
        stages={"vdevice": "module {}\n" * 50, "llvm": "; nothing"},
    )


def test_saved_and_loaded_is_the_same_model(tmp_path: Path):
    path = tmp_path / "m.rcx"
    sample().save(path)
    model = Executable(Artifact.load(path))
    assert np.array_equal(model(X)[0], sm.expected(X))
    assert model.artifact.certificate == sample().certificate
    assert model.artifact.image == sample().image
    assert model.artifact.provenance == {"model": "0123", "policy": "rammer"}
    assert model.stage("vdevice") == "module {}\n" * 50
    with pytest.raises(ArtifactError, match="no stage 'ptx'; it has: llvm, vdevice"):
        model.stage("ptx")
    assert model.artifact.constants.ctypes.data % 64 == 0
    assert not model.artifact.constants.flags.writeable  # mapped from the file


def test_equal_artifacts_give_equal_bytes_and_so_does_saving_again(tmp_path: Path):
    sample().save(tmp_path / "a.rcx")
    sample().save(tmp_path / "b.rcx")
    Artifact.load(tmp_path / "a.rcx").save(tmp_path / "c.rcx")
    contents = {(tmp_path / f"{name}.rcx").read_bytes() for name in "abc"}
    assert len(contents) == 1


def test_the_certificate_is_of_what_decides_the_results():
    base = sample().certificate
    assert dataclasses.replace(sample(), provenance={}, stages={}).certificate == base
    changed = sm.WEIGHTS.copy()
    changed[0] = 1
    assert dataclasses.replace(sample(), constants=changed.view(np.uint8)).certificate != base
    assert dataclasses.replace(sample(), programs=(sm.two_steps(1),)).certificate != base


def test_damage_of_any_byte_is_found(tmp_path: Path):
    path = tmp_path / "m.rcx"
    sample().save(path)
    good = path.read_bytes()
    for position in [*range(64), *range(64, len(good), 37), *paddings(good)]:
        path.write_bytes(good[:position] + bytes([good[position] ^ 4]) + good[position + 1 :])
        with pytest.raises(ArtifactError, match="m.rcx: "):
            Artifact.load(path)


def paddings(data: bytes) -> list[int]:
    """Bytes between the sections."""
    end = 64 + int.from_bytes(data[8:16], "little")
    found: list[int] = []
    for entry in json.loads(data[64:end])["sections"].values():
        start = -(-end // 64) * 64
        found += range(end, start)
        end = start + entry["size"]
    assert found
    return found


def test_zeros_that_are_none_are_refused_with_right_hashes_too(tmp_path: Path):
    path = tmp_path / "m.rcx"
    sample().save(path)
    good = path.read_bytes()
    size = int.from_bytes(good[8:16], "little")
    prefix = good[:20] + b"\1" + good[21:32]
    digest = hashlib.sha256(prefix + good[64 : 64 + size]).digest()
    path.write_bytes(prefix + digest + good[64:])
    with pytest.raises(ArtifactError, match="the zeros before the header"):
        Artifact.load(path)


def test_cut_off_grown_and_foreign_files(tmp_path: Path):
    path = tmp_path / "m.rcx"
    sample().save(path)
    good = path.read_bytes()
    for size in [0, 1, 47, 63, 64, 100, 1000, len(good) // 2, len(good) - 1]:
        path.write_bytes(good[:size])
        with pytest.raises(ArtifactError, match="no compiled model|damaged or cut off"):
            Artifact.load(path)
    for content in (good + b"\0", b"ONNX" + good[4:], b"\x7fELF", bytes(4096)):
        path.write_bytes(content)
        with pytest.raises(ArtifactError, match="no compiled model|damaged or cut off"):
            Artifact.load(path)
    path.write_bytes(good[:4] + (9).to_bytes(4, "little") + good[8:])
    with pytest.raises(ArtifactError, match="format version 9, this reads version 10;"):
        Artifact.load(path)


def test_a_header_that_claims_too_much_reserves_nothing(tmp_path: Path):
    path = tmp_path / "m.rcx"
    sample().save(path)
    good = path.read_bytes()
    path.write_bytes(good[:8] + (1 << 62).to_bytes(8, "little") + good[16:])
    with pytest.raises(ArtifactError, match="the header is damaged"):
        Artifact.load(path)


@pytest.mark.parametrize(
    "change",
    [
        lambda h: h.update(arena_bytes="1"),
        lambda h: h.update(arena_bytes=True),
        lambda h: h.update(arena_bytes=-5),
        lambda h: h.update(arena_bytes=1 << 60),
        lambda h: h.pop("proof"),
        lambda h: h.update(programs=3),
        lambda h: h["programs"][0].update(words=[-1, 5]),
        lambda h: h["programs"][0].update(operators=[[99], []]),
        lambda h: h.update(inputs=[["x", [1, None], "float32"]]),
    ],
)
def test_crafted_headers_are_refused_with_our_error(tmp_path: Path, change):
    path = tmp_path / "m.rcx"
    sample().save(path)
    recrafted.rewrite(path, change)
    with pytest.raises(ArtifactError, match="m.rcx: "):
        Artifact.load(path)


@pytest.mark.parametrize(
    "change",
    [
        lambda f: f.pop("kernels"),
        lambda f: f.update(kernels=[["twice", 1]]),
        lambda f: f["image"].update(text=1 << 70),
        lambda f: f["image"].update(externals=["system"]),
        lambda f: f["image"].update(slots=-8),
        lambda f: f["image"]["symbols"].update(twice=1 << 40),
        lambda f: f.update(cpu_flags=[1]),
    ],
)
def test_crafted_facts_about_code_are_refused_with_our_error(tmp_path: Path, change):
    path = tmp_path / "m.rcx"
    sample().save(path)
    recrafted.rewrite_facts(path, change)
    with pytest.raises(ArtifactError, match="m.rcx: "):
        Artifact.load(path)


@pytest.mark.parametrize(
    "change",
    [
        lambda h: h["sections"]["weights"].update(size=-1),
        lambda h: h["sections"]["weights"].update(size=1 << 40),
        lambda h: h["sections"]["weights"].update(size=10**400),
        lambda h: h["sections"].pop("tables"),
        lambda h: h.update(certificate="00"),
        lambda h: b"[]",
        lambda h: b"{}",
        lambda h: b"[" * 200_000,
        lambda h: b"\xff\xfe",
        lambda h: b'{"sections": {}, "image": NaN}',
        lambda h: b"1" * 10_000,
    ],
)
def test_headers_of_any_bytes_are_refused_with_our_error(tmp_path: Path, change):
    path = tmp_path / "m.rcx"
    sample().save(path)
    data = path.read_bytes()
    header = json.loads(data[64 : 64 + int.from_bytes(data[8:16], "little")])
    changed = change(header)
    text = json.dumps(header, sort_keys=True).encode()
    recrafted.with_header(path, changed if isinstance(changed, bytes) else text)
    with pytest.raises(ArtifactError, match="m.rcx: "):
        Artifact.load(path)


def test_an_image_that_wants_more_than_it_may_is_refused():
    image = dataclasses.replace(sample().image, externals=("system",))
    with pytest.raises(ArtifactError, match="'system', which compiled code may not call"):
        Executable(dataclasses.replace(sample(), image=image))


def test_missing_cpu_features_are_named(tmp_path: Path):
    path = tmp_path / "m.rcx"
    dataclasses.replace(sample(), target="x86-64-v9", cpu_flags=("sse2", "avx9000")).save(path)
    with pytest.raises(ArtifactError, match="target 'x86-64-v9': this CPU lacks avx9000; compile"):
        Executable(Artifact.load(path))


def test_files_that_cannot_be_read_or_written(tmp_path: Path):
    with pytest.raises(ArtifactError, match="nothing.rcx: it cannot be read .No such file"):
        Artifact.load(tmp_path / "nothing.rcx")
    with pytest.raises(ArtifactError, match="cannot be read .Is a directory"):
        Artifact.load(tmp_path)
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(ArtifactError, match="it is no plain file; give a file written by save"):
        Artifact.load(tmp_path / "fifo")
    with pytest.raises(ArtifactError, match="no such path"):
        Artifact.load("m\0.rcx")
    with pytest.raises(ArtifactError, match="cannot be written"):
        sample().save(tmp_path / "no" / "such" / "m.rcx")
    with pytest.raises(ArtifactError, match="cannot be written"):
        sample().save("/proc/m.rcx")  # a folder where nobody may create files


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "m.rcx"
    sample().save(path)
    before = path.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ArtifactError, match="No space left on device.; nothing was changed"):
        sample().save(path)
    assert path.read_bytes() == before and [p.name for p in tmp_path.iterdir()] == ["m.rcx"]


def test_an_interrupted_save_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "m.rcx"
    sample().save(path)
    before = path.read_bytes()

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        sample().save(path)
    assert path.read_bytes() == before and [p.name for p in tmp_path.iterdir()] == ["m.rcx"]


def big(path: Path) -> np.ndarray:
    weights = np.random.default_rng(0).integers(0, 256, 24 << 20, dtype=np.uint8)
    weights[: 4 * sm.N] = sm.WEIGHTS.view(np.uint8)
    sm.artifact([sm.two_steps(2)], constants=weights).save(path)
    return weights


def test_large_weights_are_checked_in_both_ways(tmp_path: Path):
    path = tmp_path / "m.rcx"
    weights = big(path)
    assert np.array_equal(Executable(Artifact.load(path))(X)[0], sm.expected(X))
    assert np.array_equal(Artifact.load(path, full=True).constants, weights)
    with open(path, "r+b") as file:
        file.seek(-12345, os.SEEK_END)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))
    for full in (False, True):
        with pytest.raises(ArtifactError, match="section 'weights' is damaged"):
            Artifact.load(path, full=full)


def test_a_file_that_is_read_instead_of_mapped_may_go(tmp_path: Path):
    path = tmp_path / "m.rcx"
    sample().save(path)
    loaded = Artifact.load(path, mapped=False)
    assert str(path) not in Path("/proc/self/maps").read_text()
    path.unlink()
    assert loaded.certificate == sample().certificate
    assert np.array_equal(Executable(loaded)(X)[0], sm.expected(X))


@pytest.mark.parametrize("shape", [(0, 1 << 61), (0, 1 << 40, 1 << 40), (1,) * 65, (-1, 0)])
def test_shapes_that_numpy_cannot_hold_are_refused(shape):
    with pytest.raises(ArtifactError, match="tensor 'z': impossible shape"):
        check_tensor(Tensor("z", shape, "float32"))


def test_a_kernel_has_a_bounded_number_of_operands():
    """Their addresses are on the stack of the thread that runs it."""
    whole = sample()
    kernel = dataclasses.replace(whole.kernels[0], operand_bytes=(0,) * 1_000_000)
    with pytest.raises(ArtifactError, match="impossible operands"):
        dataclasses.replace(whole, kernels=(kernel, *whole.kernels[1:])).check()


def test_loading_is_fast_and_copies_no_weights(tmp_path: Path):
    """Of 24 MB, 40 KB are in memory of this process; 2,400 calls take 10 ms."""
    path = tmp_path / "m.rcx"
    big(path)
    Artifact.load(path)
    assert calls_in(lambda: Artifact.load(path)) < 6_000
    tracemalloc.start()
    try:
        Artifact.load(path)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_the_runtime_imports_neither_compiler_nor_onnx():
    """What it imports beside numpy takes 30 ms: 56 modules of ours, and 30 others."""
    code = """if True:
        import sys, numpy
        before = {*sys.modules}
        import rcompiler.runtime.executable
        print(len({*sys.modules} - before))
        bad = {"llvmlite", "torch_mlir", "onnx", "elftools"} & set(sys.modules)
        assert not bad, bad
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 130
