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
from rcompiler.device.gpu import GPUS
from rcompiler.errors import CompilerError, DeviceError

TRIPLE = "nvptx64-nvidia-cuda"
_ARCHITECTURE = re.compile(r"sm_(\d+)[af]?")
_OLDEST = 70
_VERSIONS = ((120, 87), (90, 86), (_OLDEST, 80))  # of PTX, from an architecture on
_EXTERN = re.compile(r"^\s*\.extern\s+\.func\s+(?:\([^)]*\)\s*)?(\S+)", re.MULTILINE)
_FUNCTION = re.compile(r"^[\w\s.]*\.func\s+(?:\([^)]*\)\s*)?([\w$]+)", re.MULTILINE)
# Where a statement begins: inline assembly has several in a line.
_START = r"(?:^|[;{}])\s*(?:[$%\w]+:\s*)?(?:@!?[%$\w]+\s+)?"
_CALL = re.compile(_START + r"call(?:\.uni)?\s+(?:\([^)]*\)\s*,\s*)?([%$\w]+)", re.M)
_MEMORY = re.compile(
    _START + r"((?:ldu?|st|atom|red|fence|membar|multimem)\.[\w.:]+)", re.MULTILINE
)
_ACCESS = frozenset(("ld", "st", "atom", "red"))
# A volatile access is a relaxed one of the scope sys: PTX ISA, "ld.volatile"
_ORDERS = frozenset(("relaxed", "acquire", "release", "acq_rel", "sc", "mmio", "volatile"))
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
        DeviceError: as `check_chip`.
        CompilerError: LLVM rejects it or ends its process, or the result fails `check`.
    """
    chip, text = gpu_code(module, "nvvm", TRIPLE, features, assembly=True)
    check(text.decode())
    return PtxModule(chip, text)


def check(text: str) -> None:
    """CompilerError for a call to the outside, an ordering that no schedule uses, or a load through
    the cache that does not see what other blocks write.

    Used are acquire loads at gpu scope, fences of acquire, release or both at gpu scope (at system
    scope before a trap: the host reads what was written down), and relaxed accesses; what orders
    asynchronous copies and barriers of a block has names of its own.
    """
    for match in _EXTERN.finditer(text):
        raise CompilerError(
            f"PTX: function '{match[1]}' is not defined; expand the operation that became a call "
            "of it before gpu-to-nvvm"
        )
    functions = {match[1] for match in _FUNCTION.finditer(text)}
    for match in _CALL.finditer(text):
        if match[1] not in functions:
            raise CompilerError(
                f"PTX: 'call {match[1]}' leads out of the module, or to what is only known when it "
                "runs; call a function of the module by its name"
            )
    for match in _MEMORY.finditer(text):
        head, *parts = match[1].split(".")
        if head == "ldu" or (head == "ld" and "nc" in parts):
            raise CompilerError(
                f"PTX: '{match[1]}' does not see what other blocks write while the kernel runs; "
                "take llvm.noalias off the pointers that it comes from"
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
    for match in _MEMORY.finditer(text):
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


def check_chip(chip: str) -> None:
    """DeviceError for an architecture that blocks cannot wait for one another on: what LLVM makes
    of it ends its process.
    """
    if _number(chip) < _OLDEST:
        devices = (d for d in GPUS.values() if d.is_nvidia)
        known = (d.level_name for d in devices if _number(d.level_name) >= _OLDEST)
        raise DeviceError(
            f"no code can be made for {chip}: blocks wait for one another by loads with acquire, "
            f"which sm_{_OLDEST} and later have; there are {', '.join(dict.fromkeys(known))}"
        )


def _number(chip: str) -> int:
    match = _ARCHITECTURE.fullmatch(chip)
    return int(match[1]) if match else 0


def features(chip: str) -> str:
    """The version of PTX: one that the architecture and a driver for CUDA 12 know. Raises as
    `check_chip`.

    fence.acquire and fence.release need PTX 8.6 (CUDA 12.7); below, LLVM writes fence.acq_rel, and
    that orders more. sm_120 needs PTX 8.7 (CUDA 12.8).
    """
    check_chip(chip)
    number = _number(chip)
    return next(f"+ptx{version}" for first, version in _VERSIONS if number >= first)
