"""MLIR's own passes from gpu, nvgpu, vector, memref, scf and arith to the llvm dialect."""

from __future__ import annotations

from typing import NamedTuple

from torch_mlir import ir
from torch_mlir.passmanager import PassManager

from rcompiler.linalg.values import ops_of
from rcompiler.passes import PassFailure
from rcompiler.passes.gpu import fixups
from rcompiler.passes.gpu.guard import REMEDY, refuse_leftovers
from rcompiler.passes.gpu.wide_shifts import keep_wide_shifts

# Bare pointers: a kernel's argument is what the runtime passes, and strides are constants.
_CONVERSION = "index-bitwidth=64 use-bare-ptr-memref-call-conv=true"
_COMMON = (
    # Numbers in 32 bits: half of the registers, and few instructions where they are divided.
    "arith-int-range-narrowing{int-bitwidths-supported=32},"
    "expand-strided-metadata,lower-affine,convert-vector-to-scf{full-unroll=true},"
    "convert-scf-to-cf,convert-vector-to-llvm"
)
_CLEANUP = "canonicalize,cse,reconcile-unrealized-casts"
NVVM = (
    f"convert-nvgpu-to-nvvm,{_COMMON},convert-gpu-to-nvvm{{{_CONVERSION}}},"
    f"convert-nvvm-to-llvm,{_CLEANUP}"
)


def rocdl(chip: str) -> str:
    """The passes for an AMD chip ("gfx90a")."""
    return f"{_COMMON},convert-gpu-to-rocdl{{chipset={chip} runtime=HIP {_CONVERSION}}},{_CLEANUP}"


def gpu_modules(module: ir.Operation) -> list[ir.Operation]:
    """The gpu.modules of a builtin.module."""
    operations = ops_of(module.regions[0].blocks[0])
    return [op for op in operations if op.name == "gpu.module"]


def lower(
    gpu_module: ir.Operation,
    pipeline: str,
    dialects: tuple[str, ...],
    kernel: str,
) -> None:
    """Lower a gpu.module, of which `lower_math` has been asked, to the llvm dialect, in place.

    dialects: what it may be made of then, the GPU's own dialect last; kernel: the attribute that
    marks kernels. Raises PassFailure at the operation that cannot be lowered.
    """
    requests = fixups.Requests.of(gpu_module)
    keep_wide_shifts(gpu_module)
    manager = PassManager.parse(f"gpu.module({pipeline})", gpu_module.context)
    _run(manager, gpu_module, dialects[-1])
    fixups.apply(gpu_module, requests, kernel)
    refuse_leftovers(gpu_module, dialects)


class _Error(NamedTuple):
    """One of MLIR's: where, and what."""

    location: ir.Location
    message: str


def _run(manager: PassManager, gpu_module: ir.Operation, dialect: str) -> None:
    context = gpu_module.context
    errors: list[_Error] = []

    def note(diagnostic: ir.Diagnostic) -> bool:
        errors.append(_Error(diagnostic.location, diagnostic.message))
        return True

    before = context.emit_error_diagnostics
    handler = context.attach_diagnostic_handler(note)
    context.emit_error_diagnostics = True  # to the handler, not into the exception
    try:
        manager.run(gpu_module)
    except ir.MLIRError as error:
        blamed = errors[0] if errors else _Error(gpu_module.location, str(error))
        message = f"cannot be lowered to {dialect}: {blamed.message}; {REMEDY}"
        raise PassFailure(blamed, message) from error
    finally:
        context.emit_error_diagnostics = before
        handler.detach()
