"""Shifts of 64 bits that stay shifts of 64 bits.

`arith-int-range-narrowing` makes a shift one of 32 bits where operand, amount and result are
numbers of 32 bits. An amount of 32 is such a number, and to shift 32 bits by 32 is poison: of the
high half of an index that travels between threads,

    %high = arith.shrui %index, %c32 : i64      with %index in 0..3

became `llvm.lshr %index, %c32 : i32`, which LLVM replaced by a register that nothing writes (139
cases of ONNX's suite on an H200, where such a register holds what was there before). The llvm
dialect's shifts, which these become, the pass leaves alone. Upstream: ArithIntRangeNarrowing checks
that amounts fit the narrow type, not that they are less than its width (LLVM 23 snapshot).
"""

from __future__ import annotations

from torch_mlir import ir

from rcompiler.linalg.values import integer
from rcompiler.passes.gpu.nested import nested

_SHIFTS = {"arith.shli": "llvm.shl", "arith.shrui": "llvm.lshr", "arith.shrsi": "llvm.ashr"}
_NARROW = 32


def keep_wide_shifts(gpu_module: ir.Operation) -> None:
    """Shifts of i64 by 32 and more, or by nobody knows what, in the llvm dialect; in place."""
    for op in nested(gpu_module):
        if op.name not in _SHIFTS or str(op.results[0].type) != "i64" or _is_narrow(op):
            continue
        with ir.InsertionPoint(op), op.location:
            wide = ir.Operation.create(_SHIFTS[op.name], [op.results[0].type], list(op.operands))
        op.results[0].replace_all_uses_with(wide.results[0])
        op.erase()


def _is_narrow(op: ir.Operation) -> bool:
    """Whether the amount is known to be less than 32."""
    owner = op.operands[1].owner
    if isinstance(owner, ir.Block) or owner.operation.name != "arith.constant":
        return False
    return 0 <= integer(owner.operation, "value") < _NARROW
