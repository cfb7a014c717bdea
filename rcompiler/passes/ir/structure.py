"""A key of what an rOperator computes that is much cheaper than its text."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence

from torch_mlir import ir

from rcompiler.linalg.values import ops_of


def structure(operator: ir.Operation, blank: Collection[ir.Operation] = ()) -> Hashable:
    """Equal for operators of one kind with equal bodies: the same ops in the same order, with the
    same attributes, on values of the same types.

    Names, locations and which tensors the body captures do not count. Operators with equal keys
    have equal texts (`roller_tile.Body.signature`), so it is enough to print one of them. A key is
    only good in the context that the operator lives in. blank: ops in it whose attributes do not
    count, either.
    """
    return operator.attributes["kind"], body_structure(operator.regions, blank)


def body_structure(regions: Sequence[ir.Region], blank: Collection[ir.Operation] = ()) -> Hashable:
    """The same of what some regions hold."""
    found: list[Hashable] = []
    _append(regions, found, {}, frozenset(blank))
    return tuple(found)


def _append(
    regions: Sequence[ir.Region],
    found: list[Hashable],
    numbers: dict[ir.Value, int],
    blank: frozenset[ir.Operation],
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
            for op in ops_of(block):
                name, operands, results, inner = op.name, list(op.operands), op.results, op.regions
                add(name)
                add(() if op in blank else tuple(op.attributes.items()))
                add((len(operands), len(inner), len(results)))
                for value in operands:
                    number = numbers.get(value)
                    if number is None:  # a captured one
                        number = numbers[value] = len(numbers)
                        add(value.type)
                    add(number)
                if len(inner):
                    _append(inner, found, numbers, blank)
                for value in results:
                    numbers[value] = len(numbers)
                    add(value.type)
