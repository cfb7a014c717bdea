"""gpu.module of the llvm and nvvm dialects -> PTX.

    code = ptx(module)  # lowered with gpu-to-nvvm{chip=sm_90a}

PTX that leaves here calls nothing outside of itself and synchronises in the forms that schedules
are proved for, no other: see `check`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from torch_mlir import ir

from rcompiler.codegen.gpu import gpu_code
from rcompiler.errors import CompilerError

TRIPLE = "nvptx64-nvidia-cuda"
_ARCHITECTURE = re.compile(r"sm_(\d+)")
_EXTERN = re.compile(r"^\s*\.extern\s+\.func\s+(?:\([^)]*\)\s*)?(\S+)", re.MULTILINE)
_ORDERED = re.compile(r"^\s*(?:@!?%p\d+\s+)?((?:ld|st|atom|red|fence|membar)\.[\w.:]+)", re.M)
_ACCESS = frozenset(("ld", "st", "atom", "red"))
_ORDERS = frozenset(("relaxed", "acquire", "release", "acq_rel", "sc", "mmio"))
_SCOPES = frozenset(("cta", "cluster", "gpu", "sys"))


@dataclass(frozen=True)
class PtxModule:
    """PTX text for one architecture ("sm_90a")."""

    chip: str
    text: bytes


def ptx(module: str | ir.Module | ir.Operation) -> PtxModule:
    """Compile a gpu.module (alone, or the only one of a builtin.module). Equal modules give equal
    text.

    Raises:
        PipelineError: it is not lowered by gpu-to-nvvm.
        CompilerError: LLVM rejects it or ends its process, or the result fails `check`.
    """
    chip, text = gpu_code(module, "nvvm", TRIPLE, _features, assembly=True)
    check(text.decode())
    return PtxModule(chip, text)


def check(text: str) -> None:
    """CompilerError for an external function, or an ordering that no schedule uses.

    Used are acquire loads at gpu scope, fences of acquire, release or both at gpu scope (at system
    scope before a trap: the host reads what was written down), and relaxed accesses; what orders
    asynchronous copies and barriers of a block has names of its own.
    """
    for match in _EXTERN.finditer(text):
        raise CompilerError(
            f"PTX: function '{match[1]}' is not defined; expand the operation that became a call "
            "of it before gpu-to-nvvm"
        )
    for instruction in orderings(text):
        if not _allowed(instruction):
            raise CompilerError(
                f"PTX: '{instruction}' orders memory in a form that schedules do not use; signal "
                "with fence.release.gpu and a relaxed atomic, wait with ld.acquire.gpu"
            )


def orderings(text: str) -> Iterator[str]:
    """Every atomic, every fence but those of asynchronous copies, and every load and store that
    names an ordering.
    """
    for match in _ORDERED.finditer(text):
        head, *parts = match[1].split(".")
        if head == "fence" and parts[0] in ("proxy", "mbarrier_init"):
            continue
        if head not in ("ld", "st") or _ORDERS.intersection(parts):
            yield match[1]


def _allowed(instruction: str) -> bool:
    head, *parts = instruction.split(".")
    # An atomic that names neither is relaxed, at gpu scope: PTX ISA, "atom"
    order = next((part for part in parts if part in _ORDERS), "relaxed")
    scope = next((part for part in parts if part in _SCOPES), "gpu")
    if head == "fence":
        return order in ("acquire", "release", "acq_rel") and scope in ("gpu", "sys")
    if scope != "gpu":
        return False
    return head in _ACCESS and (order == "relaxed" or (head, order) == ("ld", "acquire"))


def _features(chip: str) -> str:
    """The version of PTX: one that the architecture and a driver for CUDA 12 know.

    fence.acquire and fence.release need PTX 8.6 (CUDA 12.7); below, LLVM writes fence.acq_rel, and
    that orders more.
    """
    match = _ARCHITECTURE.match(chip)
    return "+ptx86" if match and int(match[1]) >= 90 else "+ptx80"
