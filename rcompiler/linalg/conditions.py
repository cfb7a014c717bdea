"""Which values of a block matter only under conditions: what a choice between tensors reads.

    %r = linalg.generic ... ins(%c, %a, %b) {     %a matters where %c is true, %b where it is false
    ^bb0(%p: i1, %x: f32, %y: f32, ...):
      %s = arith.select %p, %x, %y : f32

A condition is a tensor<i1> of rank 0. What is computed for such values alone matters under the same
conditions, and need not be computed where one of them does not hold.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from torch_mlir import ir

from rcompiler.linalg.generic import Generic
from rcompiler.linalg.values import defining, operations, ops_of, shape_of

OPERATOR = "rtask.operator"
LEAST_WORK = 1 << 15
"""Steps of loops, of all that matters under one condition, below which leaving them out saves less
than it takes to look."""


@dataclass(frozen=True)
class Condition:
    """That a tensor<i1> of rank 0 is true, or that it is not."""

    value: ir.Value
    holds: bool


Conditions = frozenset[Condition]
_ALWAYS: Conditions = frozenset()


class Conditional:
    """The conditions of a function's body, or of that of an rOperator."""

    def __init__(self, block: ir.Block) -> None:
        self._found: dict[ir.Value, Conditions] = {}
        self._block = block
        ops = ops_of(block)
        condition = ir.Type.parse("tensor<i1>", block.owner.context)
        results = (result for op in ops for result in op.results)
        if _whole_model(block) and not any(
            value.type == condition for value in (*block.arguments, *results)
        ):
            return  # as in nearly all models
        for op in reversed(ops):
            own = self._of_results(op)
            if own is not None:
                for value, more in _reads(op):
                    self._meet(value, own | more)

    def __getitem__(self, value: ir.Value) -> Conditions:
        """Those under which a value matters: all of them have to hold."""
        return self._found.get(value, _ALWAYS)

    def of(self, op: ir.Operation) -> Conditions:
        """Those under which what an op makes matters."""
        return self._of_results(op) or _ALWAYS

    def reads(self) -> Iterator[tuple[ir.Value, Conditions]]:
        """What the body reads of outside of it."""
        inside = {*self._block.arguments, *(r for op in ops_of(self._block) for r in op.results)}
        yield from ((v, conditions) for v, conditions in self._found.items() if v not in inside)

    def kept(self) -> dict[ir.Operation, Conditions]:
        """Of each op that makes something the conditions that are known in front of it, without
        those under which there is little to do.
        """
        known = {op: self.of(op) for op in ops_of(self._block) if len(op.results)}
        work: dict[Condition, int] = {}
        for op, conditions in known.items():
            for condition in conditions:
                work[condition] = work.get(condition, 0) + _work(op)
        return {
            op: frozenset(c for c in conditions if work[c] >= LEAST_WORK and _is_known(c, op))
            for op, conditions in known.items()
        }

    def _meet(self, value: ir.Value, conditions: Conditions) -> None:
        before = self._found.get(value)
        self._found[value] = conditions if before is None else before & conditions

    def _of_results(self, op: ir.Operation) -> Conditions | None:
        """None for what nobody reads."""
        if not len(op.results):
            return _ALWAYS
        read = [self._found[r] for r in op.results if r in self._found]
        return frozenset.intersection(*read) if read else None


def _whole_model(block: ir.Block) -> bool:
    """Whether all that a block reads is its own, as in a function."""
    return block.owner.name == "func.func"


def _is_known(condition: Condition, op: ir.Operation) -> bool:
    """Whether a condition is there before an op of its block is reached."""
    owner = defining(condition.value)
    return owner is None or owner.operation.is_before_in_block(op)


def _work(op: ir.Operation) -> int:
    """Steps of the loops of an op and of those inside of it."""
    if op.name == "linalg.generic":
        return math.prod(Generic(op).sizes)
    own = [math.prod(shape_of(r)) for r in op.results if isinstance(r.type, ir.RankedTensorType)]
    inner = (_work(o) for region in op.regions for block in region.blocks for o in ops_of(block))
    return sum(inner) if op.name == OPERATOR else max(own, default=0)


def _reads(op: ir.Operation) -> Iterator[tuple[ir.Value, Conditions]]:
    """What an op reads, and under which conditions beside its own that matters to it."""
    if op.name == OPERATOR:
        yield from Conditional(op.regions[0].blocks[0]).reads()
        return
    chosen = _chosen(op) if op.name == "linalg.generic" else {}
    for number, value in enumerate(op.operands):
        yield value, chosen.get(number, _ALWAYS)
    for inner in operations(op):
        for value in inner.operands:
            if isinstance(value.type, ir.RankedTensorType):
                yield value, _ALWAYS


def _chosen(op: ir.Operation) -> dict[int, Conditions]:
    """Of the operands of a generic those that its body chooses by conditions."""
    block = op.regions[0].blocks[0]
    scalars = {
        argument: value
        for argument, value in zip(block.arguments, op.operands, strict=True)
        if not shape_of(value) and str(argument.type) == "i1"
    }
    ops = ops_of(block)
    if not scalars or not any(o.name in ("arith.select", "arith.andi") for o in ops):
        return {}
    found: dict[ir.Value, Conditions] = {}

    def meet(value: ir.Value, conditions: Conditions) -> None:
        before = found.get(value)
        found[value] = conditions if before is None else before & conditions

    for inner in reversed(ops):
        read = [found[r] for r in inner.results if r in found]
        if len(inner.results) and not read:
            continue
        own = frozenset.intersection(*read) if read else _ALWAYS
        values = list(inner.operands)
        more = [_ALWAYS] * len(values)
        first = scalars.get(values[0]) if values else None
        if first is not None and inner.name == "arith.select":
            more[1:] = [frozenset({Condition(first, holds)}) for holds in (True, False)]
        elif first is not None and inner.name == "arith.andi":
            more[1] = frozenset({Condition(first, True)})
        for value, conditions in zip(values, more, strict=True):
            meet(value, own | conditions)
    return {k: found.get(a, _ALWAYS) for k, a in enumerate(block.arguments)}
