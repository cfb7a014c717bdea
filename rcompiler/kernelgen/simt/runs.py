"""How many elements of a factor one asynchronous copy may take, found without writing code."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rcompiler.kernelgen.affine import LANE, Linear
from rcompiler.kernelgen.evaluate import Buffer, NeedsScalars
from rcompiler.kernelgen.simt.operand import Side
from rcompiler.kernelgen.simt.source import Buffers, Reading, peeled, split_run

COPIES = (16, 8, 4)  # bytes of an asynchronous copy, the most first (PTX ISA, "cp.async")


def copy_width(
    reading: Reading,
    side: Side,
    steps: int,
    buffers: Buffers,
    ranges: Mapping[str, int],
    is_source: Callable[[Buffer], bool],
) -> int:
    """Elements of the longest asynchronous copies of a factor in parts of `steps` steps.

    0: none do, it is computed or lies in no memory that `is_source` of. Operands of rKernels start
    at multiples of 16 bytes (`runtime.gpu.arrays.ALIGNMENT`), so offsets decide. ranges: of the
    symbols in the starts of the tile.
    """
    total = reading.form.steps
    along = (total, steps) if side.by_steps else (side.positions, side.filled)
    for count in (size // side.item for size in COPIES):
        if not count or any(n % count for n in along):
            continue
        known = {**ranges, "<part>": -(-total // steps), LANE: count}
        known["<line>"] = side.filled if side.by_steps else steps
        known["<run>"] = along[1] // count
        line, part = Linear.of("<line>"), Linear.of("<part>", steps)
        run = Linear.of("<run>", count) + (Linear.of(LANE) if count > 1 else Linear())
        step, position = (part + run, line) if side.by_steps else (part + line, run)
        try:
            place = reading.place(side, step, position, buffers, _Symbols(known, count).split)
        except NeedsScalars:
            continue
        if place is None or place.buffer.element != side.element or not is_source(place.buffer):
            return 0
        if place.is_run(count):
            return count
    return 0


class _Symbols:
    """Divides as an evaluator does, with a name for what is not linear."""

    def __init__(self, ranges: dict[str, int], count: int) -> None:
        self._ranges, self._count, self._made = ranges, count, 0

    def split(self, value: Linear, divisor: int) -> tuple[Linear, Linear]:
        """Quotient and remainder by a constant."""
        done = value.split(divisor, self._ranges)
        if done is not None:
            return done
        if value.coefficient(LANE):
            return split_run(value, divisor, self._count, self.split)
        known, _ = peeled(value, divisor)
        self._made += 1
        quotient, remainder = f"<quotient {self._made}>", f"<remainder {self._made}>"
        self._ranges[remainder] = divisor
        return known + Linear.of(quotient), Linear.of(remainder)
