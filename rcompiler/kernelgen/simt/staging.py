"""The operands of a product on their way through shared memory, a part of the reduction at a time.

for each part of the reduction:                       (double-buffered: one barrier per part)
    every thread stores the elements that it has fetched to shared memory
    barrier
    every thread fetches its elements of the next part
    every thread multiplies what its register tile needs
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from rcompiler.kernelgen.affine import Linear
from rcompiler.kernelgen.evaluate import Evaluator
from rcompiler.kernelgen.region import Generic
from rcompiler.kernelgen.simt.emitter import SHARED, SimtEmitter
from rcompiler.kernelgen.simt.product import Operand, Product
from rcompiler.kernelgen.value import Val

# The sums after a part, from those before it, its number of steps and which buffer it lies in.
Multiply = Callable[[list[Val], int, Linear], list[Val]]
# A fetched element as it is stored.
Stored = Callable[[Val], Val]


class Staging:
    """Moves the operands of one product and calls who multiplies them."""

    def __init__(
        self,
        evaluator: Evaluator,
        emitter: SimtEmitter,
        product: Product,
        starts: Sequence[Linear],
        granule: int,
        stored: Stored,
    ) -> None:
        """starts: of the tile; granule: steps that are multiplied at once: what the last part lacks
        of whole ones is filled with zeros.
        """
        self._evaluator, self._e, self._product = evaluator, emitter, product
        self._starts, self._granule, self._stored = starts, granule, stored

    def run(self, sums: list[Val], multiply: Multiply) -> list[Val]:
        """The sums after all parts."""
        e, steps, count = self._e, self._product.steps, len(sums)
        parts, rest = divmod(self._product.form.steps, steps)
        e.barrier()  # who still reads what was in the workspace before

        def body(part: Linear, carried: list[Val]) -> list[Val]:
            half = self._half(part)
            self._keep(carried[count:], steps, half)
            e.barrier()
            ahead = self._fetch(self._next(part, parts), steps, steps)
            return [*multiply(carried[:count], steps, half), *ahead]

        if parts:
            first = self._fetch(Linear(), steps, steps)
            sums = e.loop(Linear(0), Linear(parts), 1, [*sums, *first], body)[:count]
        if rest:
            padded, half = -(-rest // self._granule) * self._granule, self._half(Linear(parts))
            self._keep(self._fetch(Linear(parts), padded, rest), padded, half)
            e.barrier()
            sums = multiply(sums, padded, half)
        return sums

    def pointer(self, operand: Operand) -> str:
        """To the first buffer of an operand."""
        e = self._e
        text = f"llvm.getelementptr %workspace[{operand.offset}] : ({SHARED}) -> {SHARED}, i8"
        return e.pointer(e.pure(text, [], "p"), SHARED)

    def _half(self, part: Linear) -> Linear:
        """Which of the two buffers a part lies in."""
        if part.is_constant:
            return Linear(part.constant % 2)
        number, two = self._e.index(part), self._e.index(Linear(2))
        name = self._e.pure(f"arith.remui {number}, {two} : i64", [number, two])
        self._e.ranges[name] = 2
        return Linear.of(name)

    def _next(self, part: Linear, parts: int) -> Linear:
        """The part behind, of the last one itself."""
        if part.is_constant:
            return Linear(min(part.constant + 1, parts - 1))
        return self._e.at_most(part + 1, parts, parts + 1)[0]

    def _slots(self, operand: Operand, steps: int) -> list[tuple[Linear, Linear, str | None]]:
        """Of each element that this thread moves: step, position, and where it has one at all."""
        e, split = self._e, self._evaluator.split
        size, found = operand.filled * steps, []
        for first in range(0, size, e.threads):
            number, active = e.at_most(Linear.of(e.thread), size - first, e.threads)
            number = number + first
            if operand.by_steps:
                position, step = split(number, steps)
            else:
                step, position = split(number, operand.filled)
            found.append((step, position, active))
        return found

    def _fetch(self, part: Linear, steps: int, valid: int) -> list[Val]:
        """The elements of a part that this thread moves; those of steps from `valid` on are 0."""
        e, before, values = self._e, part * self._product.steps, []
        for operand in self._product.operands:
            for step, position, _ in self._slots(operand, steps):
                there, inside = e.at_most(step, valid, steps)
                place, _ = e.at_most(position, operand.positions, operand.filled)
                value = self._stored(self._element(operand, before + there, place))
                if inside is not None:
                    value = e.select(inside, value, e.constant(0, value.element))
                values.append(value)
        return values

    def _element(self, operand: Operand, step: Linear, position: Linear) -> Val:
        """What the root multiplies at a step of the reduction and a position."""
        evaluator, form = self._evaluator, self._product.form
        inside = operand.coordinates(position, evaluator.split)
        at = self._reduction(form.root, step)
        for j, place in enumerate(form.loops):
            if place is not None:
                d, distance = place
                at[j] = self._starts[d] + inside[d] + distance if d in inside else Linear(distance)
        loops = [at[j] for j in range(len(form.loops))]
        return evaluator.operand(form.root, operand.number, loops, 0)

    def _reduction(self, root: Generic, step: Linear) -> dict[int, Linear]:
        """The coordinates of a step of the reduction."""
        at: dict[int, Linear] = {}
        for d in reversed(root.reduction_dims[1:]):
            step, at[d] = self._evaluator.split(step, root.sizes[d])
        at[root.reduction_dims[0]] = step
        return at

    def _keep(self, fetched: list[Val], steps: int, half: Linear) -> None:
        """Store fetched elements to shared memory."""
        e, values = self._e, iter(fetched)
        for operand in self._product.operands:
            pointer, start = self.pointer(operand), half * operand.half(self._product.steps)
            for step, position, active in self._slots(operand, steps):
                place = start + step * operand.row + position
                e.only(active, partial(e.store, next(values), pointer, place))
