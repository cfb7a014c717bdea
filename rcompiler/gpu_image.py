"""S4 -> the code of a model for a GPU, with the text of each stage on the way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from torch_mlir import ir

from rcompiler.codegen.amdgcn import amdgcn, amdgcn_object
from rcompiler.codegen.cuda_tools import find_tool
from rcompiler.codegen.ptx import ptx
from rcompiler.codegen.ptxas import assemble
from rcompiler.device.model import Device
from rcompiler.device.occupancy import BlockNeeds, co_resident, occupancy
from rcompiler.device.record import to_option
from rcompiler.errors import DeviceError, TooManyBlocks
from rcompiler.kernelgen.simt.program import ENTRY
from rcompiler.passes._pipeline_text import runner
from rcompiler.passes.gpu_to_nvvm import GpuToNvvm
from rcompiler.passes.gpu_to_rocdl import GpuToRocdl
from rcompiler.passes.vdevice_to_gpu import THREADS, VdeviceToGpu, needed_boxes, shared_bytes
from rcompiler.runtime.gpu.image import GpuImage, boxes_of


@dataclass(frozen=True)
class Made:
    """text: assembly; machine: the same as machine code, or nothing. registers of a thread, None
    where nobody has allocated them; shared: bytes of static shared memory; spilled: bytes of a
    thread by function; tools: versions of programs of others that took part.
    """

    text: bytes
    machine: bytes = b""
    registers: int | None = None
    shared: int = 0
    spilled: Mapping[str, int] = field(default_factory=dict)
    tools: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class GpuCode:
    """image: what the runtime loads; stages: texts by the name of the stage; made: what the image
    is made of.
    """

    image: GpuImage
    stages: dict[str, str]
    made: Made


def gpu_code(
    module: ir.Module,
    device: Device,
    blocks: int,
    precision: str,
    *,
    machine_code: bool,
    begin: Callable[[str], None],
) -> GpuCode:
    """Lower an S4 module, in place.

    blocks: how many must run at the same time. precision: how factors of f32 are multiplied.
    machine_code: assemble it ahead of time, too, for NVIDIA where ptxas is found. begin: told of
    each step. Raises CompilerError, and as `check_resident`.
    """
    chip = device.level_name
    begin(VdeviceToGpu.name())
    runner(str(VdeviceToGpu(to_option(device), precision=precision)), module.context)(module)
    shared, boxes = shared_bytes(module), boxes_of(needed_boxes(module))
    stages = {"gpu": module.operation.get_asm(assume_verified=True)}
    amd = device.kind == "rocm"
    lower = GpuToRocdl(chip) if amd else GpuToNvvm(chip)
    begin(lower.name())
    runner(str(lower), module.context)(module)
    stages["llvm"] = module.operation.get_asm(assume_verified=True)
    made = (_amd if amd else _nvidia)(module, machine_code, begin)
    check_resident(device, BlockNeeds(THREADS, made.registers or 0, shared + made.shared), blocks)
    image = GpuImage(made.text, made.machine, chip, ENTRY, THREADS, shared, boxes)
    return GpuCode(image, stages, made)


def _nvidia(module: ir.Module, machine_code: bool, begin: Callable[[str], None]) -> Made:
    begin("ptx")
    code = ptx(module)
    if not machine_code or not find_tool("ptxas"):
        return Made(code.text)
    begin("ptxas")
    cubin = assemble(code)
    kernel = cubin.kernel(ENTRY)
    spilled = {f.name: f.spill_stores for f in cubin.functions}
    tools = {"ptxas": cubin.assembler}
    return Made(code.text, cubin.code, kernel.registers, kernel.shared_bytes, spilled, tools)


def _amd(module: ir.Module, machine_code: bool, begin: Callable[[str], None]) -> Made:
    begin("amdgcn")
    code = amdgcn(module)
    kernel = code.kernels[ENTRY]
    machine = b""
    if machine_code:
        begin("object")
        machine = amdgcn_object(module)
    return Made(code.text, machine, kernel.vector_registers, kernel.shared_bytes, code.stacks)


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
