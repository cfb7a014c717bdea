"""MLIR's own passes from gpu, nvgpu, vector, memref, scf and arith to the llvm dialect.

What must not reach the code generator is refused behind them: MLIR's translation of a module to
LLVM IR ends the process with a segmentation fault on an operation that it does not know. LLVM 22's
back end for NVIDIA drops the ordering of atomicrmw: only relaxed ones are what they say (fixed
upstream after the branch, pull requests 176015 and 179553).
"""

from __future__ import annotations

from typing import NamedTuple

from torch_mlir import ir
from torch_mlir.passmanager import PassManager

from rcompiler.linalg.values import number_of
from rcompiler.passes import PassFailure
from rcompiler.passes.gpu import fixups
from rcompiler.passes.ir.operators import nested

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


_MONOTONIC = 2  # llvm::AtomicOrdering, of `ordering` and of both orderings of cmpxchg
_ORDERINGS = ("ordering", "success_ordering", "failure_ordering")
_CAST = "builtin.unrealized_conversion_cast"
_REMEDY = (
    "kernels take static memrefs, scalars and !llvm.ptr, and hold operations that have a lowering "
    "for this GPU"
)
_SHIFTS = {"arith.shli": "llvm.shl", "arith.shrui": "llvm.lshr", "arith.shrsi": "llvm.ashr"}
_NARROW = 32


def rocdl(chip: str) -> str:
    """The passes for an AMD chip ("gfx90a")."""
    return f"{_COMMON},convert-gpu-to-rocdl{{chipset={chip} runtime=HIP {_CONVERSION}}},{_CLEANUP}"


def lower(
    gpu_module: ir.Operation,
    pipeline: str,
    dialect: str,
    chip: str,
) -> None:
    """Lower a gpu.module, of which `lower_math` has been asked, to the llvm dialect, in place.

    dialect: the GPU's own, the only other that it may be made of then. Raises PassFailure at the
    operation that cannot be lowered.
    """
    requests = fixups.Requests.of(gpu_module)
    keep_wide_shifts(gpu_module)
    manager = PassManager.parse(f"gpu.module({pipeline})", gpu_module.context)
    _run(manager, gpu_module, dialect)
    fixups.apply(gpu_module, requests, f"{dialect}.kernel")
    refuse_leftovers(gpu_module, ("llvm", dialect))
    target = f'[#{dialect}.target<O = 3, chip = "{chip}">]'
    gpu_module.attributes["targets"] = ir.Attribute.parse(target)


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
        message = f"cannot be lowered to {dialect}: {blamed.message}; {_REMEDY}"
        raise PassFailure(blamed, message) from error
    finally:
        context.emit_error_diagnostics = before
        handler.detach()


def refuse_leftovers(gpu_module: ir.Operation, dialects: tuple[str, ...]) -> None:
    """PassFailure for an operation outside of these dialects.

    Raises also for an atomic read-modify-write with an ordering of its own.
    """
    ops = nested(gpu_module)[:-1]
    left = [op for op in ops if op.name.partition(".")[0] not in dialects]
    # casts are left because of the others
    for op in sorted(left, key=lambda op: op.name == _CAST):
        types = f" of {op.operands[0].type} to {op.results[0].type}" if op.name == _CAST else ""
        raise PassFailure(
            op, f"'{op.name}'{types} is left after lowering to {dialects[-1]}; {_REMEDY}"
        )
    for op in ops:
        found = [op.attributes[name] for name in _ORDERINGS if name in op.attributes]
        changes = op.name in ("llvm.atomicrmw", "llvm.cmpxchg")
        if changes and any(ir.IntegerAttr(order).value != _MONOTONIC for order in found):
            raise PassFailure(
                op,
                f"'{op.name}' with an ordering of its own, which LLVM drops; make it monotonic, "
                "with llvm.fence before or after it",
            )


def keep_wide_shifts(gpu_module: ir.Operation) -> None:
    """Shifts of i64 by 32 and more, or by nobody knows what, in the llvm dialect; in place.

    `arith-int-range-narrowing` makes a shift one of 32 bits where operand, amount and result are
    numbers of 32 bits. An amount of 32 is such a number, and to shift 32 bits by 32 is poison: of
    the high half of an index that travels between threads,

        %high = arith.shrui %index, %c32 : i64      with %index in 0..3

    became `llvm.lshr %index, %c32 : i32`, which LLVM replaced by a register that nothing writes
    (139 cases of ONNX's suite on an H200, where such a register holds what was there before). The
    llvm dialect's shifts, which these become, the pass leaves alone. Upstream:
    ArithIntRangeNarrowing checks that amounts fit the narrow type, not that they are less than its
    width (LLVM 23 snapshot).
    """
    for op in nested(gpu_module):
        if op.name not in _SHIFTS or str(op.results[0].type) != "i64" or _is_narrow(op):
            continue
        with ir.InsertionPoint(op), op.location:
            wide = ir.Operation.create(_SHIFTS[op.name], [op.results[0].type], list(op.operands))
        op.results[0].replace_all_uses_with(wide.results[0])
        op.erase()


def _is_narrow(op: ir.Operation) -> bool:
    """Whether the amount is known to be less than 32."""
    amount = number_of(op.operands[1])
    return amount is not None and 0 <= amount < _NARROW
