"""codegen/toolkit.py: ptxas and nvlink are taken together, of one release."""

import stat
from pathlib import Path

import pytest

from rcompiler.codegen import cuda_tools
from rcompiler.codegen.toolkit import needed_toolkit, toolkit_for, toolkits
from rcompiler.errors import ToolError

_PROGRAM = """#!/bin/sh
case "$1" in -arch=*) case " {chips} " in *" ${{1#-arch=}} "*) ;; *) exit 255;; esac;; esac
echo Cuda compilation tools, release {release}, V{release}.7
"""


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Programs in folders on PATH, and nothing else anywhere."""
    for name in ("ptxas", "nvlink"):
        monkeypatch.setitem(cuda_tools._WHEELS, name, "no-such-wheel")
    for home in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(home, raising=False)

    def put(folder: str, release: str, *names: str, chips: str = "sm_80", home: str = "") -> Path:
        path = tmp_path / folder / "bin"
        path.mkdir(parents=True, exist_ok=True)
        for name in names:
            program = path / name
            program.write_text(_PROGRAM.format(release=release, chips=chips))
            program.chmod(program.stat().st_mode | stat.S_IXUSR)
        if home:
            monkeypatch.setenv(home, str(path.parent))
        else:
            monkeypatch.setenv("PATH", str(path))
        return path

    monkeypatch.setenv("PATH", str(tmp_path))
    return put


def test_a_linker_of_another_release_is_not_taken(install):
    old = install("old", "12.9", "ptxas", "nvlink")
    install("new", "13.0", "nvlink", home="CUDA_HOME")
    [kit] = toolkits()
    assert (kit.ptxas, kit.nvlink, kit.version) == (old / "ptxas", old / "nvlink", "12.9.7")
    (old / "nvlink").unlink()
    [kit] = toolkits()
    assert (kit.nvlink, kit.release) == (None, (12, 9))


def test_a_pair_goes_before_a_ptxas_alone(install):
    alone = install("path", "13.1", "ptxas")
    pair = install("home", "13.0", "ptxas", "nvlink", home="CUDA_HOME")
    assert [kit.ptxas for kit in toolkits()] == [pair / "ptxas", alone / "ptxas"]
    assert toolkit_for("sm_80").nvlink == pair / "nvlink"


def test_a_linker_elsewhere_of_the_same_release_is_taken(install):
    alone = install("path", "13.0", "ptxas")
    there = install("home", "13.0", "nvlink", home="CUDA_HOME")
    [kit] = toolkits()
    assert (kit.ptxas, kit.nvlink) == (alone / "ptxas", there / "nvlink")


def test_the_architecture_chooses(install):
    new = install("path", "13.0", "ptxas", "nvlink", chips="sm_80 sm_90a")
    old = install("home", "12.9", "ptxas", chips="sm_70 sm_80", home="CUDA_PATH")
    found = {chip: toolkit_for(chip) for chip in ("sm_70", "sm_80", "sm_12")}
    assert found["sm_70"].ptxas == old / "ptxas" and found["sm_80"].ptxas == new / "ptxas"
    assert found["sm_12"] is None
    assert needed_toolkit("sm_12").ptxas == new / "ptxas"  # which says that it does not know it


def test_without_any(install):
    assert toolkits() == [] and toolkit_for("sm_80") is None
    with pytest.raises(ToolError, match="ptxas is not found on PATH.*pip install"):
        needed_toolkit("sm_80")
