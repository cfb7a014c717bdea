"""Kernel functions (scf, arith, vector, math, llvm memory) -> the llvm dialect."""

from __future__ import annotations

from torch_mlir import ir
from torch_mlir.passmanager import PassManager

# No canonicalize or CSE on the way: the emitter has hoisted and shared already, and its order is
# the schedule.
PIPELINE = (
    "builtin.module(convert-scf-to-cf,convert-vector-to-llvm{reassociate-fp-reductions=true},convert-math-to-llvm,"
    "convert-arith-to-llvm,convert-func-to-llvm,convert-cf-to-llvm,reconcile-unrealized-casts)"
)


def lower_to_llvm(module: ir.Module) -> None:
    """In place; raises ir.MLIRError if an op has no lowering."""
    with module.context:
        manager = PassManager.parse(PIPELINE)
        # the result is verified by the pass that called us: after each step it takes as long again
        manager.enable_verifier(False)
        manager.run(module.operation)
