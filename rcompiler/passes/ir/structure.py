"""A key of what an rOperator computes that is much cheaper than its text."""

from __future__ import annotations

from collections.abc import Hashable

from torch_mlir import ir


def structure(operator: ir.Operation) -> Hashable:
    """Equal for operators of one kind with equal bodies: the same ops in the same order, with the
    same attributes, on values of the same types.

    Names, locations and which tensors the body captures do not count. Operators with equal keys
    have equal texts (`roller_tile.Body.signature`), so it is enough to print one of them. A key is
    only good in the context that the operator lives in.
    """
    found: list[Hashable] = [operator.attributes["kind"]]
    _append(operator, found, {})
    return tuple(found)


def _append(op: ir.Operation, found: list[Hashable], numbers: dict[ir.Value, int]) -> None:
    """Append what the regions of `op` hold. numbers: every value so far, in order of appearance."""
    for region in op.regions:
        for block in region.blocks:
            arguments = list(block.arguments)
            found.append(len(arguments))
            for value in arguments:
                numbers[value] = len(numbers)
                found.append(value.type)
            for view in block.operations:
                _append_op(view.operation, found, numbers)


def _append_op(op: ir.Operation, found: list[Hashable], numbers: dict[ir.Value, int]) -> None:
    operands, results = list(op.operands), list(op.results)
    sizes = len(operands), len(op.regions), len(results)
    found += (op.name, tuple(op.attributes.items()), sizes)
    for value in operands:
        if value not in numbers:  # a captured one
            numbers[value] = len(numbers)
            found.append(value.type)
        found.append(numbers[value])
    _append(op, found, numbers)
    for value in results:
        numbers[value] = len(numbers)
        found.append(value.type)
