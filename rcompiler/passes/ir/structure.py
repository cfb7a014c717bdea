"""A key of what an rOperator computes that is much cheaper than its text."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from torch_mlir import ir


def structure(operator: ir.Operation) -> Hashable:
    """Equal for operators of one kind with equal bodies: the same ops in the same order, with the
    same attributes, on values of the same types.

    Names, locations and which tensors the body captures do not count. Operators with equal keys
    have equal texts (`roller_tile.Body.signature`), so it is enough to print one of them. A key is
    only good in the context that the operator lives in.
    """
    found: list[Hashable] = [operator.attributes["kind"]]
    _append(operator.regions, found, {})
    return tuple(found)


def _append(
    regions: Sequence[ir.Region], found: list[Hashable], numbers: dict[ir.Value, int]
) -> None:
    """Append what some regions hold. numbers: every value so far, in order of appearance."""
    add = found.append
    for region in regions:
        for block in region.blocks:
            arguments = list(block.arguments)
            add(len(arguments))
            for value in arguments:
                numbers[value] = len(numbers)
                add(value.type)
            for view in block.operations:
                op = view.operation
                operands, results, inner = list(op.operands), list(op.results), op.regions
                add(op.name)
                add(tuple(op.attributes.items()))
                add((len(operands), len(inner), len(results)))
                for value in operands:
                    if value not in numbers:  # a captured one
                        numbers[value] = len(numbers)
                        add(value.type)
                    add(numbers[value])
                if len(inner):
                    _append(inner, found, numbers)
                for value in results:
                    numbers[value] = len(numbers)
                    add(value.type)
