"""PTX -> machine code (cubin) of one architecture, and what ptxas reports of it.

    cubin = assemble(ptx(module))
    cubin.kernel("sgemm").registers

Drivers assemble PTX as well, so nothing depends on ptxas but figures ahead of time, and machines
whose driver is older than the PTX.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rcompiler.codegen.cuda_tools import run_tool
from rcompiler.codegen.ptx import PtxModule
from rcompiler.codegen.toolkit import Toolkit, needed_toolkit
from rcompiler.errors import AssemblyError
from rcompiler.support.scratch import scratch_folder

_TIMEOUT_S = 300.0
_ERROR = re.compile(r"^ptxas \S*?(?:, line (\d+); )?(?:error|fatal)\s*: (.*)$", re.MULTILINE)
_NOTE = re.compile(r"^ptxas (?:info|warning)\s*: (\(C\d+\) .*|.* will be ignored.*)$", re.MULTILINE)
_ENTRY = re.compile(r"Compiling entry function '([^']+)'")
_FUNCTION = re.compile(r"Function properties for (\S+)")
_COUNTS = {
    "stack_bytes": re.compile(r"(\d+) bytes stack frame"),
    "spill_stores": re.compile(r"(\d+) bytes spill stores"),
    "spill_loads": re.compile(r"(\d+) bytes spill loads"),
    "registers": re.compile(r"Used (\d+) registers"),
    "barriers": re.compile(r"used (\d+) barriers"),
    "shared_bytes": re.compile(r"(\d+) bytes smem"),
}


@dataclass(frozen=True)
class FunctionReport:
    """What ptxas says of one function.

    `registers` of a thread, `barriers` and static `shared_bytes` are of kernels only: theirs count
    those of the functions that they call. Spills are bytes of a thread.
    """

    name: str
    kernel: bool
    registers: int = 0
    stack_bytes: int = 0
    spill_stores: int = 0
    spill_loads: int = 0
    shared_bytes: int = 0
    barriers: int = 0


@dataclass(frozen=True)
class Cubin:
    """Machine code for `chip`.

    `notes`: where ptxas changed or ignored something, such as wgmma that it made wait. `assembler`:
    the version of ptxas.
    """

    chip: str
    code: bytes
    functions: tuple[FunctionReport, ...]
    notes: tuple[str, ...]
    assembler: str

    def kernel(self, name: str) -> FunctionReport:
        """The report of a kernel; KeyError if there is none of this name."""
        return {report.name: report for report in self.functions if report.kernel}[name]


def assemble(
    module: PtxModule,
    *,
    options: Sequence[str] = (),
    timeout_s: float = _TIMEOUT_S,
    toolkit: Toolkit | None = None,
) -> Cubin:
    """Assemble for the architecture of the module. Equal modules give equal code.

    options: further ones of ptxas, such as "-maxrregcount=128". toolkit: by default the first
    installed one that has the architecture.
    Raises AssemblyError with what ptxas says, ToolError without ptxas or after `timeout_s`.
    """
    kit = toolkit or needed_toolkit(module.chip)
    with scratch_folder("rc-ptxas-") as folder:
        source, target = Path(folder, "module.ptx"), Path(folder, "module.cubin")
        source.write_bytes(module.text)
        command = [
            str(kit.ptxas),
            f"-arch={module.chip}",
            "-v",
            *options,
            str(source),
            "-o",
            str(target),
        ]
        done = run_tool(command, timeout_s)
        said = done.stdout + done.stderr
        if done.returncode:
            raise _rejected(module.chip, said, done.returncode)
        code = target.read_bytes()
    functions, notes = tuple(parse_report(said)), tuple(_NOTE.findall(said))
    return Cubin(module.chip, code, functions, notes, kit.version)


def parse_report(text: str) -> Iterator[FunctionReport]:
    """The reports of functions, in their order, in what `ptxas -v` prints."""
    kernels = set(_ENTRY.findall(text))
    _, *parts = _FUNCTION.split(text)
    for name, body in zip(parts[::2], parts[1::2], strict=True):
        body = _ENTRY.split(body)[0]
        found = {field: pattern.search(body) for field, pattern in _COUNTS.items()}
        counts = {field: int(match[1]) for field, match in found.items() if match}
        yield FunctionReport(name, name in kernels, **counts)


def _rejected(chip: str, said: str, status: int) -> AssemblyError:
    first = _ERROR.search(said)
    if first is None:
        return AssemblyError(
            f"ptxas for {chip} ended with status {status} and said: {said.strip()[:500]}"
        )
    where = f" in line {first[1]} of the PTX" if first[1] else ""
    return AssemblyError(
        f"ptxas for {chip}{where}: {first[2].strip()}", int(first[1]) if first[1] else None
    )
