"""gpu.module of the llvm and rocdl dialects -> AMDGCN assembly, or an object of it.

code = amdgcn(module)  # lowered with gpu-to-rocdl{chip=gfx90a}
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from torch_mlir import ir

from rcompiler.codegen.gpu import gpu_code
from rcompiler.errors import CompilerError

TRIPLE = "amdgcn-amd-amdhsa"
_KERNEL = re.compile(r"^  - \.(?:.*\n)(?:    .*\n)*", re.MULTILINE)
_FIELD = re.compile(r"^\s+(?:- )?\.(\w+):\s+'?([\w.]+)'?$", re.MULTILINE)
_CALL = re.compile(r"(\S+)@(?:rel32|gotpcrel32)@lo")
_DEFINED = re.compile(r"^(\w\S*):", re.MULTILINE)
# A write-back, the wait for it, and what must not come before that.
_WRITE_BACK = re.compile(
    r"\t(buffer_wbl2|s_waitcnt .*vmcnt\(0\)|s_barrier|s_\w*branch|s_swappc|s_setpc|s_trap|"
    r"s_endpgm|(?:global|flat|buffer)_(?:store|atomic))"
)
_STACK = re.compile(r"^\t\.set (?:\.L)?(\w+)\.private_seg_size, (\d+)", re.MULTILINE)


@dataclass(frozen=True)
class Resources:
    """What a kernel takes: registers of a thread and of a wave, bytes of local memory of a block,
    bytes of stack of a thread, spilled registers.
    """

    vector_registers: int
    accumulation_registers: int
    scalar_registers: int
    shared_bytes: int
    stack_bytes: int
    spills: int


@dataclass(frozen=True)
class AmdgcnModule:
    """Assembly text for one architecture ("gfx90a"), and what its kernels take, by name; stacks:
    bytes of a thread that each function keeps in memory for itself, which are spilled registers
    where it asks for none.
    """

    chip: str
    text: bytes
    kernels: dict[str, Resources]
    stacks: dict[str, int]


def amdgcn(module: str | ir.Module | ir.Operation) -> AmdgcnModule:
    """Compile a gpu.module (alone, or the only one of a builtin.module) to assembly.

    Raises:
        PipelineError: it is not lowered by gpu-to-rocdl.
        CompilerError: LLVM rejects it or ends its process, it calls what it does not define, or
            a release does not wait until it has happened.
    """
    chip, text = gpu_code(module, "rocdl", TRIPLE, _features, assembly=True)
    words = text.decode()
    _refuse_externals(words)
    _refuse_unfinished(words)
    stacks = {name: int(size) for name, size in _STACK.findall(words)}
    return AmdgcnModule(chip, text, _kernels(words), stacks)


def amdgcn_object(module: str | ir.Module | ir.Operation) -> bytes:
    """The same as an ELF object. Raises as `amdgcn`."""
    return gpu_code(module, "rocdl", TRIPLE, _features, assembly=False)[1]


def _refuse_externals(text: str) -> None:
    defined = set(_DEFINED.findall(text))
    for name in _CALL.findall(text):
        if name not in defined:
            raise CompilerError(
                f"AMDGCN: '{name}' is not defined; expand the operation that became a call of it "
                "before gpu-to-rocdl"
            )


def _refuse_unfinished(text: str) -> None:
    """LLVM 22 forgets some waits for the write-back of a release (fixed by its pull request
    178316): others would see what is written behind it, but not what it releases.
    """
    before = ""
    for word in _WRITE_BACK.findall(text):
        if before == "buffer_wbl2" and not word.startswith(("buffer_wbl2", "s_waitcnt")):
            raise CompilerError(
                "AMDGCN: LLVM does not wait for the write-back of a release fence; add "
                "rocdl.s.waitcnt 0 behind the fence"
            )
        before = word


def _kernels(text: str) -> dict[str, Resources]:
    """From the metadata at the end, which is YAML."""
    found = {}
    _, _, metadata = text.partition("amdhsa.kernels:")
    for block in _KERNEL.findall(metadata):
        # the fields of the kernel come after those of its arguments
        fields = dict(_FIELD.findall(block))

        def number(name: str, fields: dict[str, str] = fields) -> int:
            return int(fields.get(name, 0))

        found[fields["symbol"].removesuffix(".kd")] = Resources(
            vector_registers=number("vgpr_count"),
            accumulation_registers=number("agpr_count"),
            scalar_registers=number("sgpr_count"),
            shared_bytes=number("group_segment_fixed_size"),
            stack_bytes=number("private_segment_fixed_size"),
            spills=number("vgpr_spill_count") + number("sgpr_spill_count"),
        )
    return found


def _features(chip: str) -> str:
    """None beyond those that LLVM knows the chip by."""
    return ""
