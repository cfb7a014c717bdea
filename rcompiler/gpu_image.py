"""S4 -> the code of a model for a GPU, with the text of each stage on the way."""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir

from rcompiler.codegen.ptx import ptx
from rcompiler.device.model import Device
from rcompiler.device.record import to_option
from rcompiler.kernelgen.simt.program import ENTRY
from rcompiler.passes._pipeline_text import runner
from rcompiler.passes.gpu_to_nvvm import GpuToNvvm
from rcompiler.passes.vdevice_to_gpu import THREADS, VdeviceToGpu, shared_bytes
from rcompiler.runtime.gpu.image import GpuImage


@dataclass(frozen=True)
class GpuCode:
    """image: what the runtime loads; stages: texts by the name of the stage."""

    image: GpuImage
    stages: dict[str, str]


def gpu_code(module: ir.Module, device: Device, precision: str) -> GpuCode:
    """Lower an S4 module, in place. precision: how factors of f32 are multiplied.

    Raises CompilerError.
    """
    chip = device.level_name
    runner(str(VdeviceToGpu(to_option(device), precision=precision)), module.context)(module)
    shared = shared_bytes(module)
    stages = {"gpu": module.operation.get_asm(assume_verified=True)}
    runner(str(GpuToNvvm(chip)), module.context)(module)
    stages["llvm"] = module.operation.get_asm(assume_verified=True)
    code = ptx(module)
    image = GpuImage(code.text, b"", chip, ENTRY, THREADS, shared)
    return GpuCode(image, stages)
