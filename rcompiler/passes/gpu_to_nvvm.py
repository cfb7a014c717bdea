"""gpu-to-nvvm: gpu.module -> the llvm and nvvm dialects, for one NVIDIA architecture.

Before:
    gpu.module @kernels {
      func.func private @twice(%x: f32) -> f32 attributes {always_inline} { ... }
      gpu.func @k(%p: memref<64xf32>, %d: !llvm.ptr {rcompiler.tma}) kernel
          attributes {known_block_size = array<i32: 64, 1, 1>} { gpu, nvgpu, vector, memref, scf,
                                                                 arith, math, nvvm, llvm }
    }
After:
    gpu.module @kernels [#nvvm.target<chip = "sm_90a", ...>] {
      llvm.func internal @twice(%arg0: f32) -> f32 attributes {always_inline} { llvm }
      llvm.func @k(%arg0: !llvm.ptr, %arg1: !llvm.ptr {llvm.byval = ..., nvvm.grid_constant})
          attributes {nvvm.kernel, nvvm.maxntid = array<i32: 64, 1, 1>} { llvm, nvvm }
    }
Kernels take static memrefs, scalars and !llvm.ptr. There is no device library: `math` becomes
instructions or code of ours (`gpu/math_ops.py`), exact but where it carries `afn`. What kernels of
gpu.func cannot say is in `gpu/fixups.py`. `rcompiler.codegen.ptx` reads the chip from the target.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from torch_mlir import ir

from rcompiler.passes import Pass, PassFailure
from rcompiler.passes.gpu.division import divide_exactly
from rcompiler.passes.gpu.lowering import NVVM, lower
from rcompiler.passes.gpu.math_ops import lower_math, nvidia
from rcompiler.passes.ir.operators import nested, ops_in_module

_CHIP = re.compile(r"sm_(\d{2,3})(a?)")
# Operations by the beginning of their name, the first architecture that has them, and whether only
# its own variant ("sm_90a") has: PTX ISA, "Target ISA notes" of the instruction.
_NEEDS = (
    ("nvgpu.warpgroup.", 90, True),
    ("nvvm.wgmma.", 90, True),
    ("nvvm.setmaxregister", 90, True),
    ("nvgpu.tma.", 90, False),
    ("nvgpu.mbarrier.try_wait", 90, False),
    ("nvvm.cp.async.bulk", 90, False),
    ("nvvm.cluster.", 90, False),
    ("nvgpu.device_async", 80, False),
    ("nvvm.cp.async.", 80, False),
    ("nvgpu.mbarrier.", 80, False),
    ("nvvm.mbarrier.", 80, False),
    ("nvgpu.mma.sync", 80, False),
    ("nvgpu.ldmatrix", 75, False),
    ("nvvm.ldmatrix", 75, False),
)
_REGISTERS = "nvvm.setmaxregister"


@dataclass(frozen=True)
class GpuToNvvm(Pass):
    """Lower gpu.modules to the nvvm dialect of one architecture.

    Attributes:
        chip: what the code may use.
    """

    chip: str = "sm_90a"

    def run(self, module: ir.Operation) -> None:
        match = _CHIP.fullmatch(self.chip)
        if match is None:
            raise PassFailure(module, f"no NVIDIA architecture '{self.chip}'; sm_80 is one")
        architecture, own = int(match[1]), bool(match[2])
        for gpu_module in ops_in_module(module, "gpu.module"):
            regulated = self._check(gpu_module, architecture, own)
            lower_math(gpu_module, nvidia(architecture))
            divide_exactly(gpu_module)
            lower(gpu_module, NVVM, "nvvm", self.chip)
            if regulated is not None:
                _keep_one_block(gpu_module, regulated)

    def _check(self, gpu_module: ir.Operation, architecture: int, own: bool) -> ir.Location | None:
        """Refuse what the architecture lacks; where registers are regulated, if they are."""
        regulated: ir.Location | None = None
        for op in nested(gpu_module):
            needs = (need for need in _NEEDS if op.name.startswith(need[0]))
            _, first, variant = next(needs, ("", 0, False))
            if architecture < first or (variant and (architecture, own) != (first, True)):
                needed = f"sm_{first}a" if variant else f"sm_{first} or later"
                raise PassFailure(op, f"'{op.name}' needs {needed}; the chip is {self.chip}")
            if op.name == _REGISTERS:
                regulated = regulated or op.location
        return regulated


def _keep_one_block(gpu_module: ir.Operation, regulated: ir.Location) -> None:
    """ptxas ignores setmaxnreg where it does not know how many threads share the registers."""
    for op in ops_in_module(gpu_module):
        if op.name != "llvm.func" or "nvvm.kernel" not in op.attributes:
            continue
        if "nvvm.maxntid" not in op.attributes:
            raise PassFailure(
                op, f"'{_REGISTERS}' at {regulated} is ignored without known_block_size"
            )
        if "nvvm.minctasm" not in op.attributes:
            one = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 1)
            op.attributes["nvvm.minctasm"] = one
