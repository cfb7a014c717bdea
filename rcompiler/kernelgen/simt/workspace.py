"""How the operands of a product are laid out in the shared memory of a block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rcompiler.errors import CompilerError
from rcompiler.kernelgen.simt.evaluator import SimtEvaluator
from rcompiler.kernelgen.simt.operand import Operand, Side
from rcompiler.kernelgen.simt.source import Reading
from rcompiler.linalg.product import Form

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
            first, second = self._placed(sides, pitches, steps, widths, loads, slots)
            if second.end <= self.room:
                return first, second
        return None

    def fits(self, form: Form, sides: Sequence[Side], pitches: Sequence[int], steps: int) -> bool:
        """Whether `operands` finds a place for the factors of a tile, whatever brings them."""
        slots = min(2, -(-form.steps // steps))
        _, second = self._placed(sides, pitches, steps, (0, 0), (1, 1), slots)
        return second.end <= self.room

    def _placed(
        self,
        sides: Sequence[Side],
        pitches: Sequence[int],
        steps: int,
        widths: Sequence[int],
        loads: Sequence[int],
        slots: int,
    ) -> tuple[Operand, Operand]:
        """widths: elements of the copies of a factor, 0: threads bring it, `loads` of them as one;
        slots: buffers of a part.
        """
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
        return placed[0], placed[1]


def no_room(workspace: Workspace) -> CompilerError:
    """What is said where not even the smallest part of a product fits. Schedules that keep no more
    than a share of the shared memory (`rcompiler.roller.staged.kept_room`) never come here.
    """
    return CompilerError(
        f"a product has {workspace.room - workspace.start} of {workspace.room} bytes of shared "
        "memory beside what its tasks keep there, too few for the smallest part of its factors; "
        "cut what they keep into smaller tiles"
    )
