"""The function bodies of a module, and the rOperators in them."""

from __future__ import annotations

from torch_mlir import ir


def bodies(module: ir.Operation) -> list[ir.Block]:
    """The body of each function of a module that has one."""
    functions = [v.operation for v in module.regions[0].blocks[0].operations]
    return [
        f.regions[0].blocks[0] for f in functions if f.name == "func.func" and f.regions[0].blocks
    ]


def operators(module: ir.Operation) -> list[ir.Operation]:
    """Every rtask.operator, function by function, as they are now."""
    found = [v.operation for body in bodies(module) for v in body.operations]
    return [op for op in found if op.name == "rtask.operator"]
