"""A reduction in parts: the running sums of a task tile wait on the task's stack between the parts.

A weight panel that is longer than the first cache is read again for every register tile. Cut into
parts along the outermost reduction dim, with all register tiles of the task inside the loop over
parts, a part of the panel is read from the first cache by all of them but one. Every result element
still adds in the same order, so its bits do not depend on the parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from torch_mlir import ir

from rcompiler.errors import CompilerError
from rcompiler.kernelgen.affine import LANE, Linear
from rcompiler.kernelgen.buffer import Buffer
from rcompiler.kernelgen.dot_group import dot_group
from rcompiler.kernelgen.evaluate import Evaluator
from rcompiler.kernelgen.region import Generic, element_of
from rcompiler.kernelgen.scratch import STACK_LIMIT, stack_memory
from rcompiler.kernelgen.stages import STAGE
from rcompiler.kernelgen.value import item_bytes
from rcompiler.kernelgen.views import VIEWS

Positions = list[list[Linear]]


def sums_in_parts(result: ir.Value) -> ir.Operation | None:
    """The product reduction that each element of `result` needs one element of, whose sums are no
    wider than its results; see `reduction_root`.
    """
    return reduction_root(result, _has_plain_sums, frozenset({*VIEWS, "tensor.pad"}))


def reduction_root(
    result: ir.Value, suits: Callable[[Generic], bool], views: frozenset[str]
) -> ir.Operation | None:
    """The one reduction that each element of `result` needs one element of: an elementwise epilogue
    and `views` may follow. None if there is no such one, or if it does not suit. Earlier stages of
    the body do not count.
    """
    roots = [op for op in ops_below(result) if reduces(op)]
    if len(roots) != 1 or not suits(Generic(roots[0])):
        return None
    value = roots[0].result
    while value != result:
        uses = list(value.uses)
        if len(uses) != 1:
            return None
        user = uses[0].owner.operation
        if user.name == "tensor.pad" and user.name in views:
            return roots[0]
        if user.name == "linalg.generic":
            map_ = Generic(user).maps[uses[0].operand_number]
            if not map_.is_permutation or len(user.results) != 1:
                return None
        elif user.name not in views:
            return None
        value = user.result
    return roots[0] if len(list(value.uses)) == 1 else None


def ops_below(result: ir.Value) -> list[ir.Operation]:
    """The ops that compute `result` from arguments and earlier stages."""
    found: list[ir.Operation] = []
    pending = [result]
    while pending:
        owner = pending.pop().owner
        if isinstance(owner, ir.Block) or owner.operation.name == STAGE:
            continue
        if owner.operation not in found:
            found.append(owner.operation)
            pending += owner.operation.operands
    return found


def reduces(op: ir.Operation) -> bool:
    """Whether an op adds up, or otherwise combines, elements of its operands."""
    return op.name == "linalg.generic" and Generic(op).accumulates


def _has_plain_sums(root: Generic) -> bool:
    """Whether running sums are values of the result's type, one per result element."""
    if root.outputs != 1 or element_of(root.inits[0]) not in ("f32", "f64", "i32"):
        return False
    if dot_group(root) is not None:  # a part is whole groups
        return len(root.reduction_dims) > 1
    return root.lane_dim is None and root.factors is not None


@dataclass(frozen=True)
class RunningSums:
    """The sums of one task tile: `buffer` holds the box from `origin` on."""

    evaluator: Evaluator
    root: Generic
    buffer: Buffer
    origin: list[Linear]
    vector_dim: int

    @staticmethod
    def of(
        evaluator: Evaluator, root: Generic, origin: list[Linear], extents: list[int], vector: int
    ) -> RunningSums:
        """Sums of a box of result elements.

        Raises CompilerError when they do not fit on the stack.
        """
        shape = tuple(n for d, n in enumerate(extents) if d != vector)
        shape += (extents[vector],) if vector >= 0 else ()
        element = element_of(root.inits[0])
        size = math.prod(shape) * item_bytes(element)
        if size > STACK_LIMIT:
            raise CompilerError(
                f"{root.op.location}: the running sums of a task need {size} bytes of stack, at "
                f"most {STACK_LIMIT} are there; take a smaller tile or no reduction_tile"
            )
        pointer = stack_memory(evaluator.emitter, math.prod(shape), element)
        return RunningSums(evaluator, root, Buffer(pointer, shape, element, False), origin, vector)

    def begin(self, results: Positions, roots: Positions, lanes: int) -> None:
        """Store the initial sums of a register tile."""
        values = self.evaluator.reducer.begin(self.root, roots, lanes)
        for at, value in zip(results, values, strict=True):
            self.evaluator.emitter.store(value, self.buffer.pointer, self._offset(at))

    def advance(
        self, results: Positions, roots: Positions, lanes: int, part: tuple[Linear, int]
    ) -> None:
        """Add one part of the reduction to the sums of a register tile."""
        e, reducer = self.evaluator.emitter, self.evaluator.reducer
        values = [self.evaluator.load(self.buffer, self._inner(at), lanes) for at in results]
        values = reducer.advance(self.root, roots, lanes, values, part)
        for at, value in zip(results, values, strict=True):
            e.store(value, self.buffer.pointer, self._offset(at))

    def finish(self, results: Positions, roots: Positions, lanes: int) -> None:
        """Make the sums of a register tile known as the values of the reduction."""
        for at, root in zip(results, roots, strict=True):
            value = self.evaluator.load(self.buffer, self._inner(at), lanes)
            self.evaluator.reducer.preset(self.root, root, lanes, value)

    def _inner(self, at: list[Linear]) -> list[Linear]:
        inside = [c + first * -1 for c, first in zip(at, self.origin, strict=True)]
        if self.vector_dim >= 0:
            inside.append(inside.pop(self.vector_dim))
        return inside

    def _offset(self, at: list[Linear]) -> Linear:
        return self.buffer.offset(self._inner(at)).without(LANE)
