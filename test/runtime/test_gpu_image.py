"""runtime/gpu/image.py in artifacts: what comes back, and what is refused."""

import dataclasses
from pathlib import Path

import gpu_models as gm
import numpy as np
import pytest
import small_models as sm
from recrafted import rewrite_facts

from rcompiler.errors import ArtifactError, DeviceError
from rcompiler.runtime.artifact import Artifact
from rcompiler.runtime.gpu.executable import GpuExecutable
from rcompiler.runtime.gpu.image import GpuImage

X = np.linspace(-3, 3, sm.N, dtype=np.float32)


def sample(**more) -> Artifact:
    return gm.artifact([sm.two_steps(2)], stages={"gpu": "gpu.module {}\n" * 9}, **more)


def test_saved_and_loaded_is_the_same_model(tmp_path: Path):
    sample().save(tmp_path / "m.rcx")
    loaded = Artifact.load(tmp_path / "m.rcx")
    assert loaded.image == gm.image() and loaded.certificate == sample().certificate
    assert np.array_equal(GpuExecutable(loaded, gm.driver())(X)[0], sm.expected(X))


def test_machine_code_comes_back_beside_the_text(tmp_path: Path):
    both = dataclasses.replace(gm.image(), cubin=b"\x7fELF and more")
    sample(image=both).save(tmp_path / "m.rcx")
    assert Artifact.load(tmp_path / "m.rcx").image == both
    assert sample(image=both).certificate != sample().certificate


def test_equal_artifacts_give_equal_bytes_and_so_does_saving_again(tmp_path: Path):
    sample().save(tmp_path / "a.rcx")
    sample().save(tmp_path / "b.rcx")
    Artifact.load(tmp_path / "a.rcx").save(tmp_path / "c.rcx")
    assert len({(tmp_path / f"{name}.rcx").read_bytes() for name in "abc"}) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"ptx": -1},
        {"ptx": 1 << 40},
        {"ptx": "12"},
        {"chip": 90},
        {"entry": None},
        {"threads": 32.0},
        {"threads": True},
        {"shared": "0"},
    ],
    ids=str,
)
def test_damaged_fields_are_refused(tmp_path: Path, change: dict):
    path = tmp_path / "m.rcx"
    sample().save(path)
    rewrite_facts(path, lambda facts: facts["image"].update(change))
    with pytest.raises(ArtifactError, match="m.rcx: "):
        Artifact.load(path)


@pytest.mark.parametrize("name", ["chip", "entry", "ptx", "threads", "shared"])
def test_missing_fields_are_refused(tmp_path: Path, name: str):
    path = tmp_path / "m.rcx"
    sample().save(path)
    rewrite_facts(path, lambda facts: facts["image"].pop(name))
    with pytest.raises(ArtifactError, match="m.rcx: "):
        Artifact.load(path)


@pytest.mark.parametrize(
    "change, what",
    [
        ({"ptx": b""}, "no code"),
        ({"chip": "gfx1100"}, "the unknown chip 'gfx1100'"),
        ({"chip": "sm_9"}, "the unknown chip"),
        ({"chip": "sm_80\n"}, "the unknown chip"),
        ({"entry": "veu;"}, "an entry that is no name"),
        ({"entry": ""}, "an entry that is no name"),
        ({"threads": 0}, "blocks of 0 threads"),
        ({"threads": 1025}, "blocks of 1025 threads"),
        ({"shared": -1}, "-1 bytes of shared memory"),
        ({"shared": 1 << 30}, "1073741824 bytes of shared memory"),
    ],
    ids=str,
)
def test_impossible_facts_are_refused(tmp_path: Path, change: dict, what: str):
    image = dataclasses.replace(gm.image(), **change)
    with pytest.raises(ArtifactError, match=what):
        image.check()
    sample(image=image).save(tmp_path / "m.rcx")
    with pytest.raises(ArtifactError, match=f"m.rcx: .*{what}"):
        Artifact.load(tmp_path / "m.rcx")


@pytest.mark.parametrize(
    "chip, capability, exact",
    [("sm_80", (8, 0), False), ("sm_90a", (9, 0), True), ("sm_120", (12, 0), False)],
)
def test_capabilities(chip: str, capability: tuple[int, int], exact: bool):
    image = GpuImage(b"//", b"", chip, "veu", 32, 0)
    assert (image.capability, image.exact, image.language) == (capability, exact, "ptx")


def test_code_for_amd_runs_on_one_chip_and_not_here():
    image = GpuImage(b"//", b"", "gfx942", "veu", 32, 0)
    image.check()
    assert (image.exact, image.language) == (True, "amdgcn")
    with pytest.raises(DeviceError, match="compiled for gfx942; this build runs NVIDIA GPUs and"):
        _ = image.capability
