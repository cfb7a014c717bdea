"""S4 -> the code of a model for a GPU, with the text of each stage on the way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch_mlir import ir

from rcompiler.codegen.cuda_tools import find_tool
from rcompiler.codegen.ptx import ptx
from rcompiler.codegen.ptxas import Cubin, assemble
from rcompiler.device.model import Device
from rcompiler.device.occupancy import BlockNeeds, co_resident, occupancy
from rcompiler.device.record import to_option
from rcompiler.errors import DeviceError, TooManyBlocks
from rcompiler.kernelgen.simt.program import ENTRY
from rcompiler.passes._pipeline_text import runner
from rcompiler.passes.gpu_to_nvvm import GpuToNvvm
from rcompiler.passes.vdevice_to_gpu import THREADS, VdeviceToGpu, needed_boxes, shared_bytes
from rcompiler.runtime.gpu.image import GpuImage


@dataclass(frozen=True)
class GpuCode:
    """image: what the runtime loads; stages: texts by the name of the stage; cubin: the machine
    code of the image with what ptxas reports of it, None where it was not assembled.
    """

    image: GpuImage
    stages: dict[str, str]
    cubin: Cubin | None


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
    machine_code: assemble it ahead of time, too, where ptxas is found. begin: told of each step.
    Raises CompilerError, and as `check_resident`.
    """
    chip = device.level_name
    begin(VdeviceToGpu.name())
    runner(str(VdeviceToGpu(to_option(device), precision=precision)), module.context)(module)
    shared, boxes = shared_bytes(module), needed_boxes(module)
    stages = {"gpu": module.operation.get_asm(assume_verified=True)}
    begin(GpuToNvvm.name())
    runner(str(GpuToNvvm(chip)), module.context)(module)
    stages["llvm"] = module.operation.get_asm(assume_verified=True)
    begin("ptx")
    code = ptx(module)
    cubin, needs = None, BlockNeeds(THREADS, 0, shared)
    if machine_code and find_tool("ptxas"):
        begin("ptxas")
        cubin = assemble(code)
        kernel = cubin.kernel(ENTRY)
        needs = BlockNeeds(THREADS, kernel.registers, shared + kernel.shared_bytes)
    check_resident(device, needs, blocks)
    machine = cubin.code if cubin else b""
    return GpuCode(GpuImage(code.text, machine, chip, ENTRY, THREADS, shared, boxes), stages, cubin)


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
