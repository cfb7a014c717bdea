"""vdevice-to-gpu: S4 -> S5, a gpu.module with one persistent kernel.

Before:
    "rtask.kernel"() ({ linalg on tensors }) {sym_name = "k_3f09a1b2c4d5e6f7", ...} ;
    "vdevice.program"() ...
After:
    gpu.module @rcompiler {
      func.func private @k_3f09a1b2c4d5e6f7(%words: !llvm.ptr<1>, ...) ; all threads of a block
      gpu.func @veu(%control: !llvm.ptr<1>, %bases: !llvm.ptr<1>, %epoch: i64) kernel
    }
The schedule is data (tables made from the same S4 text): the kernel walks it.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir

from rcompiler.device.model import Device
from rcompiler.dialects.rtask import PREFETCH
from rcompiler.errors import CompilerError
from rcompiler.kernelgen.kernel import KernelWriter
from rcompiler.kernelgen.simt.move_grid import ThreadBlock
from rcompiler.kernelgen.simt.prefetch import prefetch_text
from rcompiler.kernelgen.simt.program import module_text, program_text
from rcompiler.kernelgen.simt.target import SimtFeatures, SimtTarget
from rcompiler.kernelgen.simt.vendor import AMD, NVIDIA, Vendor
from rcompiler.linalg.values import string
from rcompiler.passes import Pass, PassFailure
from rcompiler.passes.ir.module_device import attached
from rcompiler.passes.ir.operators import kernels_by_name, ops_in_module, replace_ops
from rcompiler.passes.schedule.program_ir import most_pinned


@dataclass(frozen=True)
class VdeviceToGpu(Pass):
    """Generate a persistent GPU kernel that walks the schedule.

    Attributes:
        threads: of a block; 0: as many as an EU of the device has registers for.
        entry: whether there is a kernel; else there are the functions only, which others call.
        pinned: bytes of shared memory that hold pinned boxes, where the programs do not say it.
    """

    threads: int = 0
    entry: bool = True
    pinned: int = 0

    def run(self, module: ir.Operation) -> None:
        on = attached(module)
        device = on.device
        pinned = max(self.pinned, most_pinned(module))
        threads = self.threads or device.persistent_threads
        features = features_of(device, on.precision, threads, pinned)
        vendor = vendor_of(device)
        texts: dict[str, str] = {}
        targets: dict[str, SimtTarget] = {}
        shared = 0
        for name, op in kernels_by_name(module).items():
            if string(op, "kind") == PREFETCH:
                texts[name] = _prefetch(op, device, threads)
                continue
            texts[name], targets[name] = function_of(op, features)
            shared = max(shared, targets[name].shared)
        names, written = list(texts), list(texts.values())
        boxes = [targets[name].boxes if name in targets else [] for name in names]
        if self.entry:
            text = program_text(
                names,
                written,
                threads=threads,
                shared=shared + pinned,
                pinned=pinned,
                boxes=boxes,
                vendor=vendor,
            )
        else:
            text = module_text(written, shared, boxes)
        replace_ops(module, ir.Module.parse(text, module.context))
        for gpu_module in [] if self.entry else ops_in_module(module, "gpu.module"):
            _publish(gpu_module)


def features_of(device: Device, precision: str, threads: int, pinned: int = 0) -> SimtFeatures:
    """What code for `device` may use; precision: how factors of f32 are multiplied; threads: of
    a block; pinned: bytes of the shared memory that hold pinned boxes.
    """
    return SimtFeatures(
        ThreadBlock(
            threads, device.compute.warp, device.first_level.line, device.compute.partitions
        ),
        device.block_shared_bytes - pinned,
        device.matrix_elements,
        precision,
        asynchronous=device.has_cp_async,
        boxes=device.has_wgmma,
        vendor=vendor_of(device),
        pinned=pinned,
    )


def vendor_of(device: Device) -> Vendor:
    """Whose GPU it is."""
    return AMD if device.is_amd else NVIDIA


def function_of(kernel: ir.Operation, features: SimtFeatures) -> tuple[str, SimtTarget]:
    """The device function of an rKernel, and the target that knows what it needs.

    Raises PassFailure where no code can be made of it, or it needs too much shared memory.
    """
    try:
        target = SimtTarget(kernel, features)
        text, _ = KernelWriter(kernel, target).write()
    except CompilerError as error:
        raise PassFailure(kernel, str(error)) from error
    if target.shared > features.shared:
        raise PassFailure(
            kernel,
            f"its tasks keep {target.shared} bytes in shared memory, and a block has "
            f"{features.shared}; cut it into smaller tiles",
        )
    return text, target


def _prefetch(kernel: ir.Operation, device: Device, threads: int) -> str:
    """The device function of an rKernel that asks for what a later one reads."""
    if not device.is_nvidia:
        raise PassFailure(kernel, "tasks ask for memory on NVIDIA GPUs only")
    return prefetch_text(kernel, threads, device.sector_bytes)


def _publish(gpu_module: ir.Operation) -> None:
    for op in ops_in_module(gpu_module):
        if op.name == "func.func":
            del op.attributes["sym_visibility"]
