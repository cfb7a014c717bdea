"""Reads tensor elements for one thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch_mlir import ir

from rcompiler.kernelgen.buffer import Buffer
from rcompiler.kernelgen.evaluate import Evaluator
from rcompiler.kernelgen.reader import Reader
from rcompiler.kernelgen.reduction import Reducer
from rcompiler.kernelgen.simt.emitter import ACCESS, GLOBAL, SimtEmitter
from rcompiler.kernelgen.simt.operand import Side
from rcompiler.kernelgen.simt.runs import Accepted, run_width
from rcompiler.kernelgen.simt.source import Place, Reading, peeled, split_run
from rcompiler.linalg.affine import LANE, Linear
from rcompiler.linalg.element_types import item_bytes

_COPIES = (16, 8, 4)  # bytes of an asynchronous copy, the most first (PTX ISA, "cp.async")
_LOADS = (16, 8, 4, 2)  # elements


class SimtEvaluator(Evaluator):
    """Reads tensor elements for one thread."""

    def __init__(
        self,
        emitter: SimtEmitter,
        buffers: dict[ir.Value, Buffer],
        *,
        new_reducer: Callable[[Reader], Reducer],
    ) -> None:
        """new_reducer: as of `Evaluator`. Rows in a memory of each thread would be slower than to
        compute their values again.
        """
        super().__init__(emitter, buffers, new_reducer, keeps_rows=False, shuffles=False)

    def split(self, value: Linear, divisor: int) -> tuple[Linear, Linear]:
        """As `Evaluator.split`, of no more than what must be divided; of the elements of an
        asynchronous copy, too.
        """
        if value.stride:
            done = value.split(divisor, {**self.emitter.ranges, LANE: self._lane_count})
            return done or split_run(value, divisor, self._lane_count, self.split)
        known, rest = peeled(value, divisor)
        quotient, remainder = super().split(rest, divisor)
        return known + quotient, remainder

    def copy_width(self, reading: Reading, side: Side, steps: int) -> int:
        """Elements of the longest asynchronous copies of a factor, 0 if none take it."""
        if side.turned:
            return 0
        counts = [size // side.item for size in _COPIES if size >= side.item]

        def accepted(buffer: Buffer, _: int) -> bool:
            is_global = self.emitter.pointer_type(buffer.pointer) == GLOBAL
            return is_global and buffer.element == side.element

        return self._width(reading, side, steps, counts, accepted)

    def load_width(self, reading: Reading, side: Side, steps: int) -> int:
        """Elements of a factor that are loaded to registers, and stored, as one."""

        def accepted(buffer: Buffer, count: int) -> bool:
            return count * max(item_bytes(buffer.element), side.item) <= ACCESS

        return self._width(reading, side, steps, _LOADS, accepted) or 1

    def _width(
        self, reading: Reading, side: Side, steps: int, counts: Sequence[int], accepted: Accepted
    ) -> int:
        ranges = self.emitter.ranges
        return run_width(reading, side, steps, self.buffers, ranges, counts, accepted)

    def place(self, reading: Reading, side: Side, step: Linear, position: Linear) -> Place:
        """Where the element lies; those from there on if a coordinate has lanes."""
        place = reading.place(side, step, position, self.buffers, self.split)
        assert place is not None  # it has a width
        return place

    def run_of(self, lanes: int) -> Linear:
        """The distance of each of so many lanes from the first one, until it is asked again."""
        self._lane_count = lanes
        return Linear.of(LANE) if lanes > 1 else Linear()

    def is_there(self, place: Place) -> str | bool:
        """Whether there is an element, or the name of an i1."""
        tests = []
        for coordinate, bound in place.tests:
            below = self._below(coordinate.first, bound)
            tests.append(below if bound else self._negated(below))
        return self._all(tests)
