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
    """Every rtask.operator, function by function, as they are now; see `with_own_scalars`."""
    found = [v.operation for body in bodies(module) for v in with_own_scalars(body).operations]
    return [op for op in found if op.name == "rtask.operator"]


def with_own_scalars(body: ir.Block) -> ir.Block:
    """A function's body whose rOperators take nothing but tensors from it.

    MLIR's canonicalize moves the constants of all regions that are not isolated to the function:
    each rOperator gets copies of the scalars that it uses, and what is left over goes.
    """
    for view in list(body.operations):
        op = view.operation
        if op.name == "arith.constant" and not isinstance(op.results[0].type, ir.RankedTensorType):
            _move_into_operators(op)
    return body


def _move_into_operators(constant: ir.Operation) -> None:
    value = constant.results[0]
    copies: dict[ir.Operation, ir.Value] = {}
    for use in list(value.uses):
        top = use.owner.operation
        while top.parent is not None and top.parent.operation.name != "func.func":
            top = top.parent.operation
        if top.name != "rtask.operator":
            continue
        if top not in copies:
            with ir.InsertionPoint.at_block_begin(top.regions[0].blocks[0]):
                copies[top] = constant.clone().results[0]
        use.owner.operation.operands[use.operand_number] = copies[top]
    if copies and not list(value.uses):
        constant.erase()
