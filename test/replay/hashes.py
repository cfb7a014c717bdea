"""What a compilation made, as hashes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from onnx import ModelProto

from rcompiler.driver.compilation import Compilation
from rcompiler.driver.host import target_device
from rcompiler.options import CompileOptions
from rcompiler.runtime.artifact import Artifact
from rcompiler.tools.models import build

from .cases import SHORT, TARGETS, Case

# Hashes of what LLVM made of the texts; all others are of our own making.
OF_LLVM = ("code", "artifact")
_DIGITS = 16  # of a hash in the record


def compiled(case: Case) -> Artifact:
    """What a case makes, of no cache; it is not loaded, which not every machine could.

    Machine code of GPUs is not ours, and is left out.
    """
    run, options = compilation(case)
    [made] = run.from_onnx(network(case), None, None, run.device, [options])
    return made


def compilation(case: Case) -> tuple[Compilation, CompileOptions]:
    """How a case is compiled, by which options."""
    target = TARGETS[case.target]
    options = CompileOptions(
        target, or_wave="policy" not in case.settings, machine_code=False, **case.settings
    )
    return Compilation(options, target_device(target), None), options


def network(case: Case) -> ModelProto:
    """What a case compiles."""
    short = SHORT.get(case.network)
    return build(case.network, **case.sizes) if short is None else short()


def hashes(artifact: Artifact) -> dict[str, str]:
    """SHA-256 of each stage's text in their order, of the code, and of all that decides results
    (code, tables, weights, certificate)."""
    found = {stage: _digest(text.encode()) for stage, text in artifact.stages.items()}
    found["code"] = _digest(artifact.image.content)
    found["artifact"] = artifact.certificate[:_DIGITS]
    return found


def write_texts(artifact: Artifact, folder: Path) -> None:
    """The texts that were hashed, a file for each stage, to be compared with those of another
    commit."""
    folder.mkdir(parents=True, exist_ok=True)
    for stage, text in artifact.stages.items():
        (folder / f"{stage}.txt").write_text(text)
    (folder / "code.bin").write_bytes(artifact.image.content)


def differing(record: Mapping[str, str], found: Mapping[str, str], llvm: bool) -> list[str]:
    """The stages whose hash is another one, in their order. llvm: compare what LLVM made, too."""
    names = [*found, *(name for name in record if name not in found)]
    compared = [name for name in names if llvm or name not in OF_LLVM]
    return [name for name in compared if record.get(name) != found.get(name)]


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:_DIGITS]
