"""What machine code of NVIDIA GPUs is made of, by nvdisasm."""

from __future__ import annotations

import re
from collections import Counter

from rcompiler.codegen.cuda_tools import needed_tool, run_tool
from rcompiler.errors import ToolError
from rcompiler.support.scratch import scratch_folder

_TIMEOUT_S = 120.0
_TYPE = re.compile(r"^\s*\.type\s+(\S+),@function", re.MULTILINE)
_LABEL = re.compile(r"^(\S+):\s*$")
_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@(!?U?P\w+)\s+)?([A-Z][A-Za-z0-9_.]*)")
_NEVER = ("!PT", "!UPT")  # of what ptxas adds for the hardware's sake


def opcodes(cubin: bytes) -> dict[str, Counter[str]]:
    """How many instructions of each kind each function has, with modifiers ("LDS.128").

    Fillers are left out. Functions that are called stand by their own name. Raises ToolError when
    nvdisasm is absent or does not read the code.
    """
    program = str(needed_tool("nvdisasm"))
    with scratch_folder("rc-sass-") as folder:
        (folder / "module.cubin").write_bytes(cubin)
        done = run_tool([program, "-c", str(folder / "module.cubin")], _TIMEOUT_S)
    if done.returncode:
        raise ToolError(f"{program} does not read the code: {done.stderr.strip()[:500]}")
    return _counted(done.stdout)


def _counted(text: str) -> dict[str, Counter[str]]:
    functions = set(_TYPE.findall(text))
    found: dict[str, Counter[str]] = {}
    name = ""
    for line in text.splitlines():
        if (label := _LABEL.match(line)) and label[1] in functions:
            name = label[1].rpartition("$")[2]  # $kernel$function
        elif match := _INSTRUCTION.match(line):
            if match[1] not in _NEVER and match[2] != "NOP":
                found.setdefault(name, Counter())[match[2]] += 1
    return found
