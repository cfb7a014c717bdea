"""The ops of a module by kind: functions and their generics, rOperators, rKernels."""

from __future__ import annotations

from torch_mlir import ir

from rcompiler.linalg.values import ops_of, string


def ops_in_module(module: ir.Operation, name: str = "") -> list[ir.Operation]:
    """The ops that stand directly in a module; those of one name."""
    return [op for op in ops_of(module.regions[0].blocks[0]) if name in ("", op.name)]


def replace_ops(module: ir.Operation, made: ir.Module) -> None:
    """Let the ops of another module take the place of all of a module's own."""
    block = module.regions[0].blocks[0]
    for op in reversed(ops_of(block)):
        op.erase()
    for op in ops_of(made.body):
        block.append(op)


def kernels_by_name(module: ir.Operation) -> dict[str, ir.Operation]:
    """Every rtask.kernel."""
    return {string(op, "sym_name"): op for op in ops_in_module(module, "rtask.kernel")}


def bodies(module: ir.Operation) -> list[ir.Block]:
    """The body of each function of a module that has one."""
    functions = ops_in_module(module, "func.func")
    return [f.regions[0].blocks[0] for f in functions if f.regions[0].blocks]


def generics(body: ir.Block) -> list[ir.Operation]:
    """Every linalg.generic of a function, as they are now."""
    return [op for op in ops_of(body) if op.name == "linalg.generic"]


def operators(module: ir.Operation) -> list[ir.Operation]:
    """Every rtask.operator, function by function, as they are now; see `with_own_scalars`."""
    found = [op for body in bodies(module) for op in ops_of(with_own_scalars(body))]
    return [op for op in found if op.name == "rtask.operator"]


def nested(module: ir.Operation) -> list[ir.Operation]:
    """All ops in a module, its own last; a list, as an error must not be raised out of a walk."""
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        found.append(op)
        return ir.WalkResult.ADVANCE

    module.walk(visit)
    return found


def top_level(op: ir.Operation) -> ir.Operation:
    """The op of a function's block that `op` is or is nested in."""
    while op.parent is not None and op.parent.operation.name != "func.func":
        op = op.parent.operation
    return op


def with_own_scalars(body: ir.Block) -> ir.Block:
    """A function's body whose rOperators take nothing but tensors from it.

    MLIR's canonicalize moves the constants of all regions that are not isolated to the function:
    each rOperator gets copies of the scalars that it uses, and what is left over goes.
    """
    for op in ops_of(body):
        if op.name == "arith.constant" and not isinstance(op.results[0].type, ir.RankedTensorType):
            _move_into_operators(op)
    return body


def _move_into_operators(constant: ir.Operation) -> None:
    value = constant.results[0]
    copies: dict[ir.Operation, ir.Value] = {}
    for use in list(value.uses):
        top = top_level(use.owner.operation)
        if top.name != "rtask.operator":
            continue
        if top not in copies:
            with ir.InsertionPoint.at_block_begin(top.regions[0].blocks[0]):
                copies[top] = constant.clone().results[0]
        use.owner.operation.operands[use.operand_number] = copies[top]
    if copies and not list(value.uses):
        constant.erase()
