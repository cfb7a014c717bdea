"""The operations of a gpu.module."""

from __future__ import annotations

from torch_mlir import ir

from rcompiler.linalg.values import ops_of


def functions(gpu_module: ir.Operation) -> list[ir.Operation]:
    """Functions and globals."""
    return ops_of(gpu_module.regions[0].blocks[0])


def nested(gpu_module: ir.Operation) -> list[ir.Operation]:
    """All of them, its own last; a list, as an error must not be raised out of a walk."""
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        found.append(op)
        return ir.WalkResult.ADVANCE

    gpu_module.walk(visit)
    return found
