"""How many elements of a factor may be moved as one, found without writing code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rcompiler.kernelgen.buffer import Buffer
from rcompiler.kernelgen.reader import NeedsScalars
from rcompiler.kernelgen.simt.operand import Side
from rcompiler.kernelgen.simt.source import Buffers, Reading, peeled, split_run
from rcompiler.linalg.affine import LANE, Linear

# Whether so many elements of a buffer may be moved as one.
Accepted = Callable[[Buffer, int], bool]


def run_width(
    reading: Reading,
    side: Side,
    steps: int,
    buffers: Buffers,
    ranges: Mapping[str, int],
    counts: Sequence[int],
    accepted: Accepted,
) -> int:
    """The first of `counts` that elements of a factor in parts of `steps` steps may be moved by: as
    many neighbours always lie at a multiple of their size. 0: none, or they are computed.

    Operands of rKernels start at multiples of 16 bytes (`runtime.gpu.image.ALIGNMENT`), so offsets
    decide. ranges: of the symbols in the starts of the tile.
    """
    total = reading.form.steps
    along = (total, steps) if side.by_steps else (side.positions, side.filled)
    for count in counts:
        if any(n % count for n in along):
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
        if place is None:
            return 0
        if place.is_run(count) and accepted(place.buffer, count):
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
        if value.stride:
            return split_run(value, divisor, self._count, self.split)
        known, _ = peeled(value, divisor)
        self._made += 1
        quotient, remainder = f"<quotient {self._made}>", f"<remainder {self._made}>"
        self._ranges[remainder] = divisor
        return known + Linear.of(quotient), Linear.of(remainder)
