"""gpu-to-rocdl: gpu.module -> the llvm and rocdl dialects, for one AMD architecture.

Before:
    gpu.module @kernels { gpu.func @k(%p: memref<64xf32>) kernel { gpu, vector, memref, ... } }
After:
    gpu.module @kernels [#rocdl.target<chip = "gfx90a">] {
      llvm.func @k(%arg0: !llvm.ptr) attributes {rocdl.kernel, ...} { llvm, rocdl } }
As `gpu-to-nvvm`, but for nvgpu and nvvm: those have no counterpart and are refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from torch_mlir import ir

from rcompiler.passes import Pass, PassFailure
from rcompiler.passes.gpu.fixups import Requests
from rcompiler.passes.gpu.lowering import lower, rocdl
from rcompiler.passes.gpu.math_ops import AMD, lower_math
from rcompiler.passes.ir.operators import nested, ops_in_module

_CHIP = re.compile(r"gfx[0-9a-f]{3,4}")


@dataclass(frozen=True)
class GpuToRocdl(Pass):
    """Lower gpu.modules to the rocdl dialect of one architecture.

    Attributes:
        chip: what the code may use.
    """

    chip: str = "gfx90a"

    def run(self, module: ir.Operation) -> None:
        if not _CHIP.fullmatch(self.chip):
            raise PassFailure(module, f"no AMD architecture '{self.chip}'; gfx90a is one")
        for gpu_module in ops_in_module(module, "gpu.module"):
            for name in Requests.of(gpu_module).descriptors:
                raise PassFailure(
                    gpu_module, f"@{name} has TMA descriptors, which exist on NVIDIA GPUs only"
                )
            for op in nested(gpu_module):
                if op.name.partition(".")[0] in ("nvgpu", "nvvm"):
                    raise PassFailure(op, f"'{op.name}' exists on NVIDIA GPUs only")
            lower_math(gpu_module, AMD)
            lower(gpu_module, rocdl(self.chip), "rocdl", self.chip)
