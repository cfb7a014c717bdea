"""The operands of a product on their way through shared memory, a part of the reduction at a time.

start the copies of the first parts
for each part of the reduction:                       (as many buffers as parts are under way)
    every thread stores the elements that it has computed to shared memory
    every thread waits for its copies of the part
    barrier: now the part is there, and nobody reads the one before
    every thread starts the copies of the part that follows those under way, into that one's buffer
    every thread computes its elements of the next part
    every thread multiplies what it needs
"""

from __future__ import annotations

from collections.abc import Callable

from rcompiler.kernelgen.simt.carriers import AsynchronousCarrier, Carrier, RegisterCarrier, Stored
from rcompiler.kernelgen.simt.emitter import SimtEmitter
from rcompiler.kernelgen.simt.evaluator import SimtEvaluator
from rcompiler.kernelgen.simt.product import Product
from rcompiler.kernelgen.simt.source import Reading
from rcompiler.kernelgen.value import Val
from rcompiler.linalg.affine import Linear

# Of each operand, the elements in front of the buffer that a part lies in.
Starts = tuple[Linear, Linear]
# The sums after a part, from those before it, its number of steps and where it lies.
Multiply = Callable[[list[Val], int, Starts], list[Val]]


class OperandRing:
    """Moves the operands of one product and calls who multiplies them."""

    def __init__(
        self,
        evaluator: SimtEvaluator,
        emitter: SimtEmitter,
        product: Product,
        reading: Reading,
        granule: int,
        stored: Stored,
    ) -> None:
        """granule: steps that are multiplied at once: what the last part lacks of whole ones is
        filled with zeros.
        """
        self._e, self._product, self._granule = emitter, product, granule
        self._registers: list[RegisterCarrier] = []
        self._copies: list[AsynchronousCarrier] = []
        self._all: list[Carrier] = []
        for operand in product.operands:
            carrier: Carrier
            if operand.asynchronous:
                carrier = AsynchronousCarrier(evaluator, emitter, reading, operand)
                self._copies.append(carrier)
            else:
                carrier = RegisterCarrier(evaluator, emitter, reading, operand, stored)
                self._registers.append(carrier)
            self._all.append(carrier)
        # parts whose copies are started before one is multiplied: the first one at least
        self._ahead = max(max((c.operand.slots for c in self._copies), default=1) - 1, 1)

    def pointer(self, operand: int) -> str:
        """To the first buffer of the first or the second operand."""
        return self._all[operand].pointer()

    def run(self, sums: list[Val], multiply: Multiply) -> list[Val]:
        """The sums after all parts."""
        e, steps, count = self._e, self._product.steps, len(sums)
        parts, rest = divmod(self._product.form.steps, steps)
        e.barrier()  # who still reads what was in the workspace before

        def body(part: Linear, carried: list[Val]) -> list[Val]:
            self._keep(carried[count:], part, steps)
            self._wait(self._ahead - 1)
            e.barrier()
            self._copy_ahead(part + self._ahead, parts)
            fetched = self._fetch_next(part, parts)
            return [*multiply(carried[:count], steps, self._starts(part)), *fetched]

        if parts:
            for part in range(self._ahead):
                self._copy(Linear(part), steps, steps)
            first = self._fetch(Linear(), steps, steps)
            sums = e.rolled(parts, [*sums, *first], body)[:count]
        if rest:
            last, padded = Linear(parts), -(-rest // self._granule) * self._granule
            self._copy(last, padded, rest)
            self._keep(self._fetch(last, padded, rest), last, padded)
            self._wait(0)
            e.barrier()
            sums = multiply(sums, padded, self._starts(last))
        return sums

    def _starts(self, part: Linear) -> Starts:
        first, second = self._all
        return first.start(part), second.start(part)

    # -- by way of registers
    def _fetch(self, part: Linear, steps: int, valid: int) -> list[Val]:
        return [v for carrier in self._registers for v in carrier.fetch(part, steps, valid)]

    def _fetch_next(self, part: Linear, parts: int) -> list[Val]:
        """The part behind, behind the last one itself again."""
        if not self._registers:
            return []
        following = Linear(min(part.constant + 1, parts - 1))
        if not part.is_constant:
            following, _ = self._e.at_most(part + 1, parts, parts + 1)
        return self._fetch(following, self._product.steps, self._product.steps)

    def _keep(self, fetched: list[Val], part: Linear, steps: int) -> None:
        for carrier in self._registers:
            count = carrier.moved(steps)
            carrier.keep(fetched[:count], part, steps)
            fetched = fetched[count:]

    # -- copies
    def _copy(self, part: Linear, steps: int, valid: int, there: str | None = None) -> None:
        """Start the copies of a part, if it is there. Groups are counted: one of none counts."""
        if not self._copies:
            return

        def start() -> None:
            for carrier in self._copies:
                carrier.copy(part, steps, valid)

        self._e.only(there, start)
        self._e.commit_copies()

    def _copy_ahead(self, part: Linear, parts: int) -> None:
        """Start those of a part of the loop, which ends before it in the last iterations."""
        e, steps = self._e, self._product.steps
        if not part.is_constant:
            self._copy(part, steps, steps, e.compare("slt", part, parts).name)
        elif part.constant < parts:
            self._copy(part, steps, steps)

    def _wait(self, groups: int) -> None:
        """Until no more than so many groups of copies of this thread are under way."""
        if self._copies:
            self._e.wait_for_copies(groups)
