"""Compiled files with bytes changed, as `artifact_bytes` judges them."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from . import artifact_bytes
from .judge import Outcome, Report

MUTANTS = 100


def artifacts(seed: int, targets: Sequence[str], report: Report) -> Outcome:
    """Mutants of the files that every process makes once. The targets are those of the files."""
    report("compile")
    bases = _bases()
    with artifact_bytes.folder_in_memory() as name:
        for number in range(MUTANTS):
            report(f"mutant {number}")
            kind, verdict, why = artifact_bytes.judge(bases, Path(name, "m.rcx"), seed, number)
            if verdict == "wrong":
                what = f"mutant {number}, {kind}: {why}"
                return Outcome("wrong", what, kind, tried=number + 1)
    return Outcome("ok", tried=MUTANTS)


@cache
def _bases() -> list[artifact_bytes.Base]:
    with tempfile.TemporaryDirectory(prefix="rc-fuzz-") as name:
        artifact_bytes.make_bases(Path(name))
        return [artifact_bytes.Base(Path(name), base) for base in artifact_bytes._BASES]
