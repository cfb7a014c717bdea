"""A command below NVIDIA's compute-sanitizer, and its verdict."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass

from rcompiler.codegen.cuda_tools import find_tool, run_tool
from rcompiler.errors import ToolError

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
_PROGRAM = "compute-sanitizer"
_FOUND = 86  # its exit status when it has found something
_SUMMARY = {
    "racecheck": re.compile(r"RACECHECK SUMMARY: (\d+) hazard"),
    "": re.compile(r"ERROR SUMMARY: (\d+) error"),
}
_LINES = 60  # of what it has said that are kept


@dataclass(frozen=True)
class Verdict:
    """tool: which of `TOOLS`. found: how many errors or hazards it reports. status: of the command,
    or of the sanitizer where it found something. text: the end of what both have said.
    """

    tool: str
    found: int
    status: int
    text: str

    @property
    def clean(self) -> bool:
        """Whether nothing was found and the command itself has succeeded."""
        return not self.found and not self.status


def sanitized(
    tool: str, command: Sequence[str], timeout_s: float, program: str | None = None
) -> Verdict:
    """Run a command below the sanitizer.

    program: its path; None for the one on PATH or below CUDA_HOME. Raises ToolError where there is
    none, it does not come to an end, or it says nothing of what it found (as on machines whose GPU
    it cannot watch).
    """
    path = shutil.which(program) if program else find_tool(_PROGRAM)
    if path is None:
        where = program or f"{_PROGRAM}, on PATH or below CUDA_HOME"
        raise ToolError(
            f"{where}: is not there; it comes with the CUDA toolkit: give its path with "
            "--sanitizer-path"
        )
    flags = ["--tool", tool, "--target-processes", "all", "--error-exitcode", str(_FOUND)]
    done = run_tool([str(path), *flags, *command], timeout_s)
    said = done.stdout + done.stderr
    text = "\n".join(said.strip().splitlines()[-_LINES:])
    counts = [int(n) for n in _SUMMARY.get(tool, _SUMMARY[""]).findall(said)]
    if not counts:
        raise ToolError(
            f"{path} --tool {tool} says nothing of what it found (status {done.returncode}): {text}"
        )
    return Verdict(tool, sum(counts), done.returncode, text)
