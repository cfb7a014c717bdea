"""Several rOperators as one, with stages between their bodies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch_mlir import ir

from rcompiler.dialects import rtask
from rcompiler.dialects.uses import captures, tensors_used
from rcompiler.linalg.constants import is_constant
from rcompiler.linalg.values import STAGE, ops_of, string, yielded
from rcompiler.passes.ir.clone import remap


@dataclass(frozen=True)
class OperatorTree:
    """An rOperator and those that may join it, each with its own.

    producers: what only `operator` reads, each with one result. number: equal for trees that
    compute the same.
    """

    operator: ir.Operation
    producers: tuple[OperatorTree, ...]
    number: int

    def operators(self) -> Iterator[ir.Operation]:
        """All of them, readers first."""
        yield self.operator
        for tree in self.producers:
            yield from tree.operators()

    def join(self, order: Sequence[int]) -> None:
        """Move the bodies of all producers into `operator`; order: `stage_order` of what `joined`
        makes of an equal tree.
        """
        self._join()
        _sort(self.operator, order)

    def _join(self) -> None:
        for tree in self.producers:
            tree._join()
            _join(tree.operator, self.operator)

    def joined(self) -> tuple[ir.Operation, list[int]]:
        """In front of `operator`, what `join` makes of it, and the order of its body."""
        with ir.InsertionPoint(self.operator):
            found = self._copied()
        order = stage_order(found)
        _sort(found, order)
        return found, order

    def _copied(self) -> ir.Operation:
        copies = [tree._copied() for tree in self.producers]
        own = self.operator.clone()
        pairs = zip(self.producers, copies, strict=True)
        remap(own, {tree.operator.results[0]: copy.results[0] for tree, copy in pairs})
        for copy in copies:
            _join(copy, own)
        return own


def _join(producer: ir.Operation, reader: ir.Operation) -> None:
    """Move the body of `producer` into `reader`, with a stage in between."""
    first = next(iter(reader.regions[0].blocks[0].operations)).operation
    [inner] = yielded(producer.regions[0].blocks[0])
    *body, _ = ops_of(producer.regions[0].blocks[0])
    for op in body:
        op.move_before(first)
    with ir.InsertionPoint(first), reader.location:
        stage = rtask.StageOp(value=inner, output=inner.type).operation
    producer.results[0].replace_all_uses_with(stage.results[0])
    producer.erase()


def stage_order(operator: ir.Operation) -> list[int]:
    """Numbers of the ops of a body in an order in which stages that wait for no other one come
    first, then those that wait for these: threads that share in a task go through all of a level
    before they meet. As they are where stages stand so already.
    """
    *body, _ = ops_of(operator.regions[0].blocks[0])
    level: dict[ir.Value, int] = {}
    levels = []
    for op in body:
        own = max((level.get(value, 0) for value in tensors_used(op)), default=0)
        levels.append(own)
        level.update(dict.fromkeys(op.results, own + (op.name == STAGE)))
    order = list(range(len(body)))
    stages = [own for op, own in zip(body, levels, strict=True) if op.name == STAGE]
    return order if stages == sorted(stages) else sorted(order, key=levels.__getitem__)


def _sort(operator: ir.Operation, order: Sequence[int]) -> None:
    *body, end = ops_of(operator.regions[0].blocks[0])
    if [*order] != [*range(len(body))]:
        for number in order:
            body[number].move_before(end)


def unpacks_constants(op: ir.Operation) -> bool:
    """Whether an operator computes something of constants alone, element by element."""
    if op.name != "rtask.operator" or string(op, "kind") != "elementwise":
        return False
    found = captures(op)
    return bool(found) and all(map(is_constant, found))
