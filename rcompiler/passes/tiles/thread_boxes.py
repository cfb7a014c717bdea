"""What the points of a forall of threads cover, all of them at once.

    tensor.parallel_insert_slice %t into %o[%a * 64 + %l] [2] [32],  %a below 3, %l below 32

%l has 32 neighbours, the tile 2 elements 32 apart, and %a steps of 64: together each element of
[0, 192) once. Large tensors have millions of points, and only a few such positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch_mlir import ir

from rcompiler.errors import CompilerError
from rcompiler.linalg.affine import Linear
from rcompiler.linalg.maps import compile_expression
from rcompiler.linalg.values import defining, integers, last_of
from rcompiler.passes.tiles.indices import DYNAMIC

_SIZES = ("static_sizes", "static_low", "static_high")


@dataclass(frozen=True)
class Forall:
    """A forall in the body of a task.

    variables, counts: of its dims, a count is a number or an index value; puts: what its points put
    into tensors.
    """

    op: ir.Operation
    variables: list[ir.Value]
    counts: list[int | ir.Value]
    puts: list[ir.Operation]

    @staticmethod
    def of(op: ir.Operation) -> Forall | None:
        """None for one that does not count from 0 in steps of 1."""
        low, high, step = (
            integers(op, f"static{name}") for name in ("LowerBound", "UpperBound", "Step")
        )
        if set(low) != {0} or set(step) != {1}:
            return None
        block, dynamic = op.regions[0].blocks[0], iter(op.operands)
        counts = [next(dynamic) if n == DYNAMIC else n for n in high]
        puts = [view.operation for view in last_of(block).regions[0].blocks[0].operations]
        return Forall(op, list(block.arguments)[: len(high)], counts, puts)

    @property
    def inner(self) -> ir.Block:
        return self.op.regions[0].blocks[0]

    def is_linear(self) -> bool:
        """Whether all positions that a point computes are sums of multiples of the variables, and
        the sizes that it takes are known.
        """
        for view in self.inner.operations:
            op = view.operation
            if op.name == "affine.apply" and _linear(op) is None:
                return False
            if op.name in ("affine.min", "affine.max"):
                return False
            if any(DYNAMIC in integers(op, name) for name in _SIZES if name in op.attributes):
                return False
        return True

    def covers_once(self, put: ir.Operation) -> bool:
        """Whether each element of a box has one point that puts it there, as far as can be told."""
        dynamic, used = iter(list(put.operands)[2:]), set[ir.Value]()
        sizes, strides = integers(put, "static_sizes"), integers(put, "static_strides")
        if DYNAMIC in sizes or DYNAMIC in strides:
            return False
        offsets = [next(dynamic) if n == DYNAMIC else n for n in integers(put, "static_offsets")]
        for offset, size, stride in zip(offsets, sizes, strides, strict=True):
            factors = {} if isinstance(offset, int) else self._factors(offset)
            if factors is None or used & factors.keys():
                return False
            used |= factors.keys()
            steps: list[tuple[int, int | ir.Value]] = [(stride, size)] if size != 1 else []
            steps += [(f, self.counts[self.variables.index(v)]) for v, f in factors.items()]
            steps = [(step, count) for step, count in steps if count != 1]
            steps.sort(key=lambda each: each[0])
            if not _is_dense(steps):
                return False
        idle = [n for v, n in zip(self.variables, self.counts, strict=True) if v not in used]
        return all(n == 1 for n in idle)

    def _factors(self, value: ir.Value) -> dict[ir.Value, int] | None:
        """Of the variables in a position; None for one that is no sum of multiples of them."""
        if value in self.variables:
            return {value: 1}
        op = defining(value)
        if op is None or not self._is_inside(op):
            return {}
        linear = _linear(op) if op.name == "affine.apply" else None
        if linear is None:
            return None
        found: dict[ir.Value, int] = {}
        for name, factor in linear.terms:
            inner = self._factors(op.operands[int(name)])
            if inner is None:
                return None
            for variable, own in inner.items():
                found[variable] = found.get(variable, 0) + own * factor
        return {variable: factor for variable, factor in found.items() if factor}

    def _is_inside(self, op: ir.Operation) -> bool:
        return op.block == self.inner


def _linear(op: ir.Operation) -> Linear | None:
    """An affine.apply over its operands, by their numbers; None if it divides."""
    map_ = ir.AffineMapAttr(op.attributes["map"]).value

    def divided(value: Linear, divisor: int) -> tuple[Linear, Linear]:
        raise CompilerError("no sum of multiples")

    dims = [Linear.of(str(number)) for number in range(len(op.operands))]
    try:
        return compile_expression(map_.results[0])(dims, divided)
    except CompilerError:
        return None


def _is_dense(steps: Sequence[tuple[int, int | ir.Value]]) -> bool:
    """Whether steps, the smallest first, reach each of neighbouring positions once: each step is as
    long as all of the smaller ones together. Of a count that only a run knows, none may be longer.
    """
    reached: int | None = 1
    for step, count in steps:
        if step != reached:
            return False
        reached = step * count if isinstance(count, int) else None
    return True
