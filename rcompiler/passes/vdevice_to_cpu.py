"""vdevice-to-cpu: S4 -> S5, one llvm.func for each rKernel.

Before:
    "rtask.kernel"() ({ linalg on tensors }) {sym_name = "k_3f09a1b2c4d5e6f7", ...} ;
    "vdevice.program"() ...
After:
    llvm.func @k_3f09a1b2c4d5e6f7(%operands: !llvm.ptr, %first: i64, %count: i64, %stride: i64)
The schedule is data (tables made from the same S4 text), so the programs do not appear in S5.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir

from rcompiler.device.model import Device
from rcompiler.dialects.rtask import PREFETCH
from rcompiler.errors import CompilerError
from rcompiler.kernelgen.cpu import CpuFeatures, CpuTarget
from rcompiler.kernelgen.kernel import KernelWriter
from rcompiler.kernelgen.lower import lower_to_llvm
from rcompiler.linalg.values import string
from rcompiler.passes import Pass, PassFailure
from rcompiler.passes.ir.module_device import device_of
from rcompiler.passes.ir.operators import ops_in_module, replace_ops


@dataclass(frozen=True)
class VdeviceToCpu(Pass):
    """Generate vectorised code for every rKernel."""

    def run(self, module: ir.Operation) -> None:
        features = cpu_features(device_of(module))
        texts: list[str] = []
        declared: dict[str, str] = {}
        for op in ops_in_module(module, "rtask.kernel"):
            if string(op, "kind") == PREFETCH:
                raise PassFailure(op, "tasks ask for memory on NVIDIA GPUs only")
            try:
                text, externals = KernelWriter(op, CpuTarget(features)).write()
            except CompilerError as error:
                raise PassFailure(op, str(error)) from error
            texts.append(text)
            declared.update(externals)
        generated = ir.Module.parse("\n".join([*declared.values(), *texts]), module.context)
        lower_to_llvm(generated)
        replace_ops(module, generated)


def cpu_features(device: Device) -> CpuFeatures:
    """What kernel generation must know of a CPU device."""
    return CpuFeatures(
        lanes=device.lanes(4),
        has_fma=device.has_fma,
        has_scalef=device.has_scalef,
        has_f16=device.has_f16,
        dots=device.dots,
        tiles=device.tile_elements,
        line_bytes=device.first_level.line,
        private_bytes=device.private_bytes,
    )
