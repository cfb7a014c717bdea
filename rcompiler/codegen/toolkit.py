"""ptxas and nvlink of one release of CUDA: what makes machine code ahead of time.

A linker reads what the assembler of its own release wrote; of another release it may refuse that,
or worse. So they are found together, among all that are installed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from rcompiler.codegen.cuda_tools import needed_tool, run_tool, tools

_TIMEOUT_S = 60.0
_VERSION = re.compile(r"\bV(\d+\.\d+\.\d+)")


@dataclass(frozen=True)
class Toolkit:
    """ptxas, and the nvlink of the same release, None where there is none; version: "13.5.37", or
    "0" where ptxas does not say.
    """

    ptxas: Path
    nvlink: Path | None
    version: str

    @property
    def release(self) -> tuple[int, ...]:
        """(13, 5)."""
        return _release(self.version)

    def assembles(self, chip: str) -> bool:
        """Whether this ptxas has the architecture. Raises ToolError when it cannot be run."""
        command = [str(self.ptxas), f"-arch={chip}", "--version"]
        return run_tool(command, _TIMEOUT_S).returncode == 0


def toolkits() -> list[Toolkit]:
    """Those that are installed, in the order in which tools are looked for; those without a linker
    are the last.
    """
    linkers = [(path, _version(path)) for path in tools("nvlink")]
    found = [_paired(path, linkers) for path in tools("ptxas")]
    return sorted(found, key=lambda kit: kit.nvlink is None)


def toolkit_for(chip: str) -> Toolkit | None:
    """The first whose ptxas has the architecture; None where none has it, or none is installed."""
    return next((kit for kit in toolkits() if kit.assembles(chip)), None)


def needed_toolkit(chip: str) -> Toolkit:
    """The same, or the first where none has the architecture: its ptxas says so. Raises ToolError
    where none is installed.
    """
    needed_tool("ptxas")
    return toolkit_for(chip) or toolkits()[0]


def _paired(ptxas: Path, linkers: list[tuple[Path, str]]) -> Toolkit:
    version = _version(ptxas)
    same = [path for path, of in linkers if of != "0" and _release(of) == _release(version)]
    beside = [path for path in same if path.parent == ptxas.parent]
    return Toolkit(ptxas, next(iter([*beside, *same]), None), version)


def _version(program: Path) -> str:
    match = _VERSION.search(run_tool([str(program), "--version"], _TIMEOUT_S).stdout)
    return match[1] if match else "0"


def _release(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")[:2]))
