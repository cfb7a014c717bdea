"""How the operands of a product are laid out in the shared memory of a block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rcompiler.kernelgen.simt.evaluator import SimtEvaluator
from rcompiler.kernelgen.simt.operand import Operand, Side
from rcompiler.kernelgen.simt.source import Reading

_MOST_SLOTS = 4  # parts under way at a time, the one that is multiplied included


@dataclass(frozen=True)
class Workspace:
    """Shared memory behind what a kernel keeps there.

    start: its first free byte; room: bytes of all of it. asynchronous: whether threads copy to it
    without waiting.
    """

    start: int
    room: int
    asynchronous: bool

    def operands(
        self,
        evaluator: SimtEvaluator,
        reading: Reading,
        sides: Sequence[Side],
        pitches: Sequence[int],
        steps: int,
    ) -> tuple[Operand, Operand] | None:
        """The factors of a tile in parts of `steps` steps, with as many buffers as fit and parts
        fill; None if two do not fit. pitches: elements from one line to the next.
        """
        parts = -(-reading.form.steps // steps)
        widths = [
            evaluator.copy_width(reading, s, steps) if self.asynchronous else 0 for s in sides
        ]
        loads = [evaluator.load_width(reading, s, steps) for s in sides]
        for slots in range(min(_MOST_SLOTS, parts), min(2, parts) - 1, -1):
            placed, end = list[Operand](), self.start
            for k, side in enumerate(sides):
                # a thread keeps one part in its registers: one is read and one is written
                copied = widths[k] > 0
                own = slots if copied else min(slots, 2)
                width = widths[k] or loads[k]
                placed.append(
                    Operand(
                        **vars(side),
                        steps=steps,
                        pitch=pitches[k],
                        width=width,
                        asynchronous=copied,
                        slots=own,
                        offset=end,
                    )
                )
                end = placed[-1].end
            if end <= self.room:
                return placed[0], placed[1]
        return None
