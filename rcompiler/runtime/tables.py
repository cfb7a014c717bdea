"""Instruction streams: the schedule of one EU as int64 words.

    RUN     kernel, first, count, stride, n, (base, byte offset) * n
    WAIT    event, count          until `count` signals of this launch have come
    SIGNAL  event
    BARRIER                       the n-th of every EU meet
    END                           last word of a stream

base: ARENA (temporaries), CONSTANTS, or EXTERNAL + i (inputs, then outputs).
"""

from collections.abc import Iterator, Sequence

import numpy as np

from rcompiler.errors import ArtifactError
from rcompiler.runtime.control import BARRIER_OP as BARRIER
from rcompiler.runtime.control import END, RUN, SIGNAL, WAIT

__all__ = ["BARRIER", "END", "RUN", "SIGNAL", "WAIT", "Stream", "instructions"]

ARENA, CONSTANTS, EXTERNAL = range(3)
_RUN_HEAD = 6
_LENGTH = {WAIT: 3, SIGNAL: 2, BARRIER: 1, END: 1}

Instruction = tuple[int, int, tuple[int, ...]]  # position, opcode, operands


class Stream:
    """Writes the stream of one EU.

    Example: `s = Stream(); s.wait(0, 2); s.run(3, 0, 8, 1, [(ARENA, 64)]); words = s.end()`
    """

    def __init__(self) -> None:
        self._words: list[int] = []

    def run(
        self,
        kernel: int,
        first: int,
        count: int,
        stride: int,
        operands: Sequence[tuple[int, int]],
    ) -> None:
        """rTasks first, first + stride, ... (`count` of them) on operands (base, byte offset)."""
        self._words += [RUN, kernel, first, count, stride, len(operands)]
        for base, offset in operands:
            self._words += [base, offset]

    def wait(self, event: int, count: int) -> None:
        """Go on when `event` was signalled `count` times in this launch."""
        self._words += [WAIT, event, count]

    def signal(self, event: int) -> None:
        """Signal `event` once: what this EU wrote before is visible to who waited."""
        self._words += [SIGNAL, event]

    def barrier(self) -> None:
        """Meet all EUs of the program."""
        self._words.append(BARRIER)

    def end(self) -> np.ndarray:
        """Finish the stream: int64[words]."""
        return np.array([*self._words, END], np.int64)


def instructions(stream: np.ndarray) -> Iterator[Instruction]:
    """Decode a stream: (position, opcode, operands), END included.

    Raises:
        ArtifactError: unknown opcode, cut-off instruction, END missing or before the end.
    """
    words = stream.tolist()
    position = 0
    while position < len(words):
        opcode = words[position]
        length = _LENGTH.get(opcode, 0)
        if opcode == RUN and position + _RUN_HEAD <= len(words) and words[position + 5] >= 0:
            length = _RUN_HEAD + 2 * words[position + 5]
        if not length or position + length > len(words):
            raise ArtifactError(
                f"schedule: no valid instruction at word {position} (opcode {opcode}); "
                "compile the model again"
            )
        yield position, opcode, tuple(words[position + 1 : position + length])
        position += length
        if opcode == END:
            break
    if position == len(words) and len(words) and words[-1] == END:
        return
    raise ArtifactError("schedule: a stream does not end with END; compile the model again")
