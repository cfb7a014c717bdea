"""A copy of the checkout, whose sources may be changed, and the checks that run in it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from .fault import Fault

ROOT = Path(__file__).resolve().parents[2]
_NEEDED = ("rcompiler", "dialects", "pipelines", "tools", "test", "pyproject.toml")
_TIMEOUT_S = 900
_LIT = "from lit.main import main; main()"

# killed: the check fails, and says what it has to. survived: it passes. otherwise: it fails, and
# says something else. wrong without: it fails without the fault, and so says nothing of it.
Outcome = Literal["killed", "survived", "otherwise", "wrong without"]


@dataclass(frozen=True)
class Tried:
    """output: the end of what the check said. seconds: of the check with the fault in place."""

    outcome: Outcome
    output: str
    seconds: float


@dataclass(frozen=True)
class Tree:
    """A copy in a folder."""

    folder: Path
    _right: dict[str, tuple[int, str]] = field(default_factory=dict)

    @classmethod
    def copied(cls, folder: Path) -> Tree:
        """Into a folder that exists."""
        for name in _NEEDED:
            source = ROOT / name
            if source.is_dir():
                skip = shutil.ignore_patterns("__pycache__")
                shutil.copytree(source, folder / name, symlinks=True, ignore=skip)
            else:
                shutil.copy(source, folder / name)
        return cls(folder)

    def tried(self, fault: Fault) -> Tried:
        """What the check of a fault finds with it, which must pass without it."""
        if fault.check not in self._right:
            self._right[fault.check] = self._checked(fault.check)
        status, output = self._right[fault.check]
        if status != 0:
            return Tried("wrong without", output[-2000:], 0.0)
        path = self.folder / "rcompiler" / fault.file
        right = path.read_text()
        _write(path, right.replace(fault.old, fault.new))
        begun = time.monotonic()
        try:
            status, output = self._checked(fault.check)
        finally:
            _write(path, right)
        outcome: Outcome = "survived"
        if status != 0:
            outcome = "killed" if status == 1 and re.search(fault.says, output) else "otherwise"
        return Tried(outcome, output[-2000:], time.monotonic() - begun)

    def _checked(self, check: str) -> tuple[int, str]:
        """Exit status and output. What others made and kept is not used: it could hide a fault."""
        path = self.folder / "test" / check.partition("::")[0]
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
        command.append(str(self.folder / "test" / check))
        if path.suffix == ".mlir":
            command = [sys.executable, "-c", _LIT, "-v", str(path)]
        with tempfile.TemporaryDirectory(dir=self.folder) as cache:
            try:
                done = subprocess.run(
                    command,
                    cwd=self.folder,
                    env={**os.environ, "PYTHONPATH": str(self.folder), "RC_CACHE_DIR": cache},
                    capture_output=True,
                    text=True,
                    timeout=_TIMEOUT_S,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                return 124, f"it was not over after {_TIMEOUT_S} s"
        return done.returncode, done.stdout + done.stderr


def _write(path: Path, text: str) -> None:
    """Replace a source and its bytecode: Python takes bytecode for that of a source of the same
    size that was written in the same second.
    """
    path.write_text(text)
    for bytecode in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
        bytecode.unlink()
