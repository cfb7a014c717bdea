"""Groups whose results have several shapes become several rOperators.

The rTasks of an rOperator are tiles of its first result. A result of another shape has no such
tiles: the total of a tensor beside the tensor itself would be computed by every rTask, or by none.
So each shape gets an rOperator of its own, which reads what those before it have computed and
repeats the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from torch_mlir import ir

from rcompiler.linalg.values import defining, operations, shape_of
from rcompiler.passes.forming.fusion import Group


def parts(group: Group, outputs: Sequence[ir.Value]) -> Iterator[tuple[Group, list[ir.Value]]]:
    """The rOperators of a group, in order: their ops, and which of its outputs they compute.

    A loop stays whole, whatever it carries: it is one rTask.
    """
    shapes = dict.fromkeys(shape_of(value) for value in outputs)
    if len(shapes) == 1 or group.ops[-1].name == "scf.for":
        yield group, [*outputs]
        return
    made: list[ir.Value] = []
    for shape in shapes:
        results = [value for value in outputs if shape_of(value) == shape]
        needed = _needed(group, results, made)
        ops = [op for op in group.ops if op in needed]
        yield (
            replace(group, ops=ops, borrowed=[op for op in group.borrowed if op in needed]),
            results,
        )
        made += results


def _needed(
    group: Group, results: Sequence[ir.Value], made: Sequence[ir.Value]
) -> set[ir.Operation]:
    """The ops of a group that its results need, when some values are there already."""
    inside, found = set(group.ops), set[ir.Operation]()
    left = [*results]
    while left:
        value = left.pop()
        op = None if value in made else defining(value)
        if op is not None and op in inside and op not in found:
            found.add(op)
            left += [read for reader in (op, *operations(op)) for read in reader.operands]
    return found
