"""A reduction in parts: the running sums of a task tile wait on the task's stack between the parts.

A weight panel that is longer than the first cache is read again for every register tile. Cut into
parts along the outermost reduction dim, with all register tiles of the task inside the loop over
parts, a part of the panel is read from the first cache by all of them but one. Every result element
still adds in the same order, so its bits do not depend on the parts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from rcompiler.errors import CompilerError
from rcompiler.kernelgen.buffer import Buffer
from rcompiler.kernelgen.evaluate import Evaluator
from rcompiler.kernelgen.scratch import STACK_LIMIT, stack_memory
from rcompiler.linalg.affine import LANE, Linear
from rcompiler.linalg.element_types import item_bytes
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.values import element_of

Positions = list[list[Linear]]


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
