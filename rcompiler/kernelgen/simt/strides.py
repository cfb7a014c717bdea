"""How far apart in memory the elements of a factor lie, for factors that are there as they are.

Found with a symbol for each loop, so it holds for every tile: what brings a factor (TMA) and what
multiplies it (wgmma) are then chosen by the operator, and no tile changes a bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch_mlir import ir

from rcompiler.kernelgen.buffer import Buffer
from rcompiler.kernelgen.reader import NeedsScalars
from rcompiler.kernelgen.simt.source import Buffers, traced
from rcompiler.linalg.affine import Linear
from rcompiler.linalg.product import Form
from rcompiler.linalg.values import STAGE


@dataclass(frozen=True)
class Strides:
    """A factor of a product in memory.

    buffer: of the rKernel's operand that it is. constant: elements in front of the one at loop
    coordinates 0; by_loop: elements from one coordinate to the next of every loop that it depends
    on, loops of one iteration left out.
    """

    buffer: Buffer
    constant: int
    by_loop: dict[int, int]

    @property
    def inner(self) -> int | None:
        """The loop along which neighbours lie, None if that is not one."""
        found = [loop for loop, stride in self.by_loop.items() if stride == 1]
        return found[0] if len(found) == 1 else None

    def at(self, loops: dict[int, Linear]) -> Linear:
        """Elements in front of the one at these loop coordinates; loops that are missing are 0."""
        known = [loop for loop in self.by_loop if loop in loops]
        steps = [self.by_loop[loop] for loop in known]
        return Linear.weighted([loops[loop] for loop in known], steps) + self.constant


def strides_of(
    form: Form, factor: int, buffers: Buffers, is_source: Callable[[Buffer], bool]
) -> Strides | None:
    """None if the factor is computed or padded, comes from a stage, or lies on no line."""
    root, number = form.root, form.factors[factor]
    value = root.operands[number]
    if _passes_stage(value, buffers):
        return None
    symbols = {f"<{loop}>": loop for loop, size in enumerate(root.sizes) if size > 1}
    loops = [Linear.of(f"<{j}>") if size > 1 else Linear() for j, size in enumerate(root.sizes)]
    ranges = {symbol: root.sizes[loop] for symbol, loop in symbols.items()}

    def split(value: Linear, divisor: int) -> tuple[Linear, Linear]:
        done = value.split(divisor, ranges)
        if done is None:
            raise NeedsScalars
        return done

    try:
        at = [expression(loops, split) for expression in root.expressions[number]]
        place = traced(value, at, buffers, split)
    except NeedsScalars:
        return None
    if place is None or place.tests or not is_source(place.buffer):
        return None
    by_loop = {symbols[symbol]: stride for symbol, stride in place.offset.terms}
    return Strides(place.buffer, place.offset.constant, by_loop)


def _passes_stage(value: ir.Value, buffers: Buffers) -> bool:
    """Whether a stage lies between a value and the operand that it is read from."""
    while value not in buffers and not isinstance(value.owner, ir.Block):
        op = value.owner.operation
        if op.name == STAGE:
            return True
        if not len(op.operands):
            return False
        value = op.operands[0]
    return False
