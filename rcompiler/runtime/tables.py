"""Instruction streams: the schedule of one EU as int64 words.

    RUN     kernel, first, count, stride, n, (base, byte offset) * n
    WAIT    event, count          until `count` signals of this launch have come
    SIGNAL  event
    BARRIER                       the n-th of every EU meet
    REPEAT  count, words, 0, n, (word, step) * n
    END                           last word of a stream
    TAKE    event, queues, table  not in files: run queues until none of so many is left

base: ARENA (temporaries), CONSTANTS, EXTERNAL + i (inputs, then outputs), or PINNED (the memory of
the EU itself, where it keeps boxes that its rTasks read again and again).

REPEAT stands behind the body of a loop, which are the `words` words in front of it: they are gone
through `count` times in all, and from time to time `step` is added to the word number `word` of
them. That is an event, the count of a wait, the first task of a run or a byte offset: a loop moves
over events and bytes, and does the same in each iteration. Its third operand belongs to the thread
that walks the stream, which counts there. Loops may lie inside of loops.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from rcompiler.runtime.control import BARRIER_OP as BARRIER
from rcompiler.runtime.control import END, REPEAT, RUN, SIGNAL, TAKE, WAIT
from rcompiler.runtime.loops import Item, Line, Loop, executed, parse

__all__ = ["BARRIER", "END", "REPEAT", "RUN", "SIGNAL", "TAKE", "WAIT", "Stream", "instructions"]

ARENA, CONSTANTS, EXTERNAL = range(3)
# By their numbers in the notes. As in `rammer.program`, which nothing here imports.
BUFFER_KINDS = ("input", "output", "constant", "temp", "pinned")
PINNED = -1

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

    def repeat(self, count: int, words: int, steps: Sequence[tuple[int, int]]) -> None:
        """Go through the last `words` words `count` times; steps: (word, step) in order."""
        self._words += [REPEAT, count, words, 0, len(steps)]
        for word, step in steps:
            self._words += [word, step]

    def items(self, items: Iterable[Item]) -> None:
        """Instructions and loops that were parsed, wherever their words are now."""
        self._items(items, 0)

    def _items(self, items: Iterable[Item], depth: int) -> list[tuple[int, Line]]:
        """Writes items `depth` loops deep; the place of each line's first operand."""
        places: list[tuple[int, Line]] = []
        for item in items:
            start = len(self._words)
            if isinstance(item, Line):
                self._words += [item.opcode, *item.operands]
                places.append((start + 1, item))
                continue
            inside = self._items(item.body, depth + 1)
            steps = [
                (place + operand - start, step)
                for place, line in inside
                for operand, step in line.steps[depth]
            ]
            self.repeat(item.count, len(self._words) - start, steps)
            places += inside
        return places

    def end(self) -> np.ndarray:
        """Finish the stream: int64[words]."""
        return np.array([*self._words, END], np.int64)


def instructions(stream: np.ndarray) -> Iterator[Instruction]:
    """What a stream does, in order, loops gone through: (position, opcode, operands), END included.

    Raises:
        ArtifactError: unknown opcode, cut-off instruction, END missing or before the end; a loop
            that is none.
    """
    for line, index in executed(parse(stream)):
        yield line.position, line.opcode, line.at(index) if index else line.operands


def loops(stream: np.ndarray) -> bool:
    """Whether a stream has loops: the thread that walks it writes to it."""
    return any(isinstance(item, Loop) for item in parse(stream))
