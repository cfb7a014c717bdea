"""The rOperators of a module."""

from __future__ import annotations

from torch_mlir import ir


def operators(module: ir.Operation) -> list[ir.Operation]:
    """Every rtask.operator, function by function, as they are now."""
    found = []
    for view in module.regions[0].blocks[0].operations:
        if view.operation.name == "func.func" and view.operation.regions[0].blocks:
            body = view.operation.regions[0].blocks[0].operations
            found += [v.operation for v in body if v.operation.name == "rtask.operator"]
    return found
