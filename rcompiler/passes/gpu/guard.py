"""What must not reach the code generator: it would end the process, or miscompile it silently.

MLIR's translation of a module to LLVM IR ends the process with a segmentation fault on an operation
that it does not know. LLVM 22's back end for NVIDIA drops the ordering of atomicrmw: only relaxed
ones are what they say (fixed upstream after the branch, pull requests 176015 and 179553).
"""

from __future__ import annotations

from torch_mlir import ir

from rcompiler.passes import PassFailure
from rcompiler.passes.gpu.nested import nested

_MONOTONIC = 2  # llvm::AtomicOrdering, of `ordering` and of both orderings of cmpxchg
_ORDERINGS = ("ordering", "success_ordering", "failure_ordering")


_CAST = "builtin.unrealized_conversion_cast"
REMEDY = (
    "kernels take static memrefs, scalars and !llvm.ptr, and hold operations that have a lowering "
    "for this GPU"
)


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
            op, f"'{op.name}'{types} is left after lowering to {dialects[-1]}; {REMEDY}"
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
