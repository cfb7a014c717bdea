"""S4 -> the code of a model for a GPU, with the text of each stage on the way."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from textwrap import indent

from torch_mlir import ir

from rcompiler.codegen.amdgcn import amdgcn, amdgcn_object
from rcompiler.codegen.cubin import assemble_parts
from rcompiler.codegen.llvm_ir import llvm_ir
from rcompiler.codegen.ptx import check
from rcompiler.codegen.ptx_parts import PtxParts, joined
from rcompiler.codegen.toolkit import toolkit_for, toolkits
from rcompiler.device.model import Device
from rcompiler.device.occupancy import BlockNeeds, co_resident, occupancy
from rcompiler.driver.kernel_code import KernelCode, KernelCodes, gathered
from rcompiler.errors import DeviceError, TooManyBlocks
from rcompiler.kernelgen.simt.program import (
    BOXES,
    ENTRY,
    SHARED_BYTES,
    declaration,
    program_text,
)
from rcompiler.passes._pipeline_text import runner
from rcompiler.passes.gpu.fixups import hide
from rcompiler.passes.gpu_to_nvvm import GpuToNvvm
from rcompiler.passes.gpu_to_rocdl import GpuToRocdl
from rcompiler.passes.ir.module_device import attribute_of, device_of
from rcompiler.passes.ir.operators import kernels_by_name
from rcompiler.passes.schedule.program_ir import most_pinned, read_kernels
from rcompiler.passes.vdevice_to_gpu import VdeviceToGpu, vendor_of
from rcompiler.runtime.gpu.image import GpuImage, boxes_of

_MMA = "mma.sync"
_SLOW_UNITS = (
    f"products are multiplied by {_MMA}, with a fraction of this GPU's peak: no code is made for "
    "its tcgen05"
)
# The head of a function or global variable of a gpu.module.
_SYMBOL = re.compile(r"^    ((?:llvm\.|func\.)[\w.]+) [^@]*@([\w$.]+)\(")


@dataclass(frozen=True)
class Made:
    """text: assembly; machine: the same as machine code, or nothing. registers of a thread, None
    where nobody has allocated them; shared: bytes of static shared memory; spilled: bytes of a
    thread by function; tools: versions of programs of others that took part; notes: what whoever
    reads the report should know of the code.
    """

    text: bytes
    machine: bytes = b""
    registers: int | None = None
    shared: int = 0
    spilled: Mapping[str, int] = field(default_factory=dict)
    tools: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class GpuCode:
    """image: what the runtime loads; stages: texts by the name of the stage; made: what the image
    is made of.
    """

    image: GpuImage
    stages: dict[str, str]
    made: Made


class GpuGeneration:
    """Code of an S4 module for a GPU: rKernels one by one, by two processes, and the kernel that
    calls them.
    """

    def __init__(self, module: ir.Module) -> None:
        device = device_of(module.operation)
        self._device, self._context = device, module.context
        self._names = list(read_kernels(module.operation))
        self._pinned = most_pinned(module.operation)
        # AMD's code of a kernel says how many registers all that it calls takes
        self._in_parts = device.is_nvidia
        self._lower = (GpuToNvvm if self._in_parts else GpuToRocdl)(device.level_name)
        write = VdeviceToGpu(entry=False, pinned=self._pinned)
        stages = [("gpu", write), ("llvm", self._lower)]
        self._codes = KernelCodes(attribute_of(module.operation), stages, self._made)
        self._kernels = kernels_by_name(module.operation)
        self._parts = PtxParts(device.level_name)

    @contextmanager
    def begun(self) -> Iterator[None]:
        """Inside of the context code is made, also before `finish`."""
        with self._parts, self._codes.begun():
            for kernel in self._kernels.values():
                self._codes.expect(kernel)
            yield

    def finish(self, blocks: int, *, machine_code: bool, begin: Callable[[str], None]) -> GpuCode:
        """blocks: how many must run at the same time. machine_code: assemble it ahead of time, too,
        for NVIDIA where ptxas is found. begin: told of each step.

        Raises CompilerError, and as `check_resident`.
        """
        begin(VdeviceToGpu.name())
        codes = self._codes.finish(self._kernels)
        begin(self._lower.name())
        with self._context, ir.Location.unknown(self._context):
            shared = max((shared_bytes(code.attributes) for code in codes), default=0)
            shared += self._pinned
            boxes = boxes_of(
                [number, *words]
                for number, code in enumerate(codes)
                for words in needed_boxes(code.attributes)
            )
            text = program_text(
                self._names,
                [declaration(name) for name in self._names],
                threads=self._device.persistent_threads,
                shared=shared,
                pinned=self._pinned,
                boxes=[boxes.get(number, ()) for number in range(len(codes))],
                vendor=vendor_of(self._device),
            )
            main = ir.Module.parse(text)
            stages = {"gpu": completed(main, gathered(codes, "gpu"))}
            runner([self._lower], self._context)(main)
            functions = gathered(codes, "llvm")
            stages["llvm"] = completed(main, functions)
            if self._in_parts:
                made = self._nvidia(main, machine_code, begin)
            else:
                define(main, functions)
                made = self._amd(main, machine_code, begin)
        threads = self._device.persistent_threads
        needs = BlockNeeds(threads, made.registers or 0, shared + made.shared)
        check_resident(self._device, needs, blocks)
        chip = self._device.level_name
        image = GpuImage(made.text, made.machine, chip, ENTRY, threads, shared, boxes, self._pinned)
        return GpuCode(image, stages, made)

    def _made(self, name: str, code: KernelCode) -> None:
        if self._in_parts:
            self._parts.add(self._names.index(name), code.llvm_ir)

    def _nvidia(self, main: ir.Module, machine_code: bool, begin: Callable[[str], None]) -> Made:
        begin("ptx")
        self._parts.add(len(self._names), llvm_ir(main.body.operations[0].operation))
        parts = self._parts.all()
        text = joined(parts)
        check(text)
        code, chip = text.encode(), self._device.level_name
        slow = [_SLOW_UNITS] if self._device.has_tcgen05 and _MMA in text else []
        if not machine_code:
            return Made(code, notes=slow)
        toolkit = toolkit_for(chip)
        if toolkit is None:
            return Made(code, notes=[*slow, _ptx_only(chip)])
        begin("ptxas")
        cubin = assemble_parts(chip, parts, ENTRY, toolkit)
        kernel = cubin.kernel(ENTRY)
        spilled = {f.name: f.spill_stores for f in cubin.functions}
        tools = {"ptxas": cubin.assembler}
        notes = [f"ptxas {cubin.assembler}: {note}" for note in dict.fromkeys(cubin.notes)]
        return Made(
            code, cubin.code, kernel.registers, kernel.shared_bytes, spilled, tools, slow + notes
        )

    def _amd(self, main: ir.Module, machine_code: bool, begin: Callable[[str], None]) -> Made:
        begin("amdgcn")
        code = amdgcn(main)
        kernel = code.kernels[ENTRY]
        machine = b""
        if machine_code:
            begin("object")
            machine = amdgcn_object(main)
        return Made(code.text, machine, kernel.vector_registers, kernel.shared_bytes, code.stacks)


def shared_bytes(attributes: Mapping[str, str]) -> int:
    """Dynamic shared memory that a gpu.module with these attributes needs."""
    return ir.IntegerAttr(ir.Attribute.parse(attributes[SHARED_BYTES])).value


def needed_boxes(attributes: Mapping[str, str]) -> list[list[int]]:
    """The words of the boxes whose tensor maps a gpu.module with one rKernel needs."""
    if BOXES not in attributes:
        return []
    rows = ir.ArrayAttr(ir.Attribute.parse(attributes[BOXES]))
    return [[int(word) for word in ir.DenseI64ArrayAttr(row)][1:] for row in rows]


def _ptx_only(chip: str) -> str:
    """Why there is no machine code."""
    found = ", ".join(kit.version for kit in toolkits())
    reason = f"ptxas {found} does not know {chip}" if found else "ptxas is not installed"
    return f"PTX only, as {reason}: the driver of the GPU compiles it"


def define(module: ir.Module, functions: Mapping[str, str]) -> None:
    """Put texts of functions into the gpu.module of a module, in place of their declarations.
    Globals that it has already stay.
    """
    if not functions:
        return
    block = module.body.operations[0].operation.regions[0].blocks[0]
    there = {ir.StringAttr(v.operation.attributes["sym_name"]).value: v for v in block.operations}
    # together, as they may call one another
    text = "\n".join(["gpu.module @defined {", *functions.values(), "}"])
    parsed = ir.Module.parse(text)
    for view in list(parsed.body.operations[0].operation.regions[0].blocks[0].operations):
        op = view.operation
        known = there.get(ir.StringAttr(op.attributes["sym_name"]).value)
        if known is not None:
            if op.name != "llvm.func":
                continue
            known.operation.erase()
        block.append(op)
        if op.name == "llvm.func":
            hide(op)


def completed(module: ir.Module, functions: Mapping[str, str]) -> str:
    """The text of a module whose gpu.module declares functions, with their texts instead; what it
    defines itself stays.
    """
    lines, there = [], set()
    for line in module.operation.get_asm(assume_verified=True).splitlines():
        head = _SYMBOL.match(line)
        if head is None or head[2] not in functions:
            lines.append(line)
        elif head[1] == "llvm.mlir.global" or line.endswith("{"):
            lines.append(line)
            there.add(head[2])
    missing = (indent(text, "    ") for name, text in functions.items() if name not in there)
    return "\n".join([*lines[:-2], *missing, *lines[-2:], ""])


def check_resident(device: Device, needs: BlockNeeds, blocks: int) -> None:
    """Raises TooManyBlocks unless the device runs so many blocks at the same time, DeviceError
    where it runs none.
    """
    room = co_resident(device, needs)
    if room >= blocks:
        return
    registers = f"{needs.registers} registers a thread, " if needs.registers else ""
    what = (
        f"the schedule needs {blocks} blocks at the same time, and device {device.name} runs "
        f"{room} blocks of {needs.threads} threads, {registers}{needs.shared} bytes of shared "
        f"memory each: {occupancy(device, needs).limiter} is what there is too little of"
    )
    if not room:
        raise DeviceError(f"{what}; compile for a larger device")
    raise TooManyBlocks(f"{what}; compile with eus={room} or policy='wave'")
