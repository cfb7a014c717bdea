"""The loops of instruction streams, read and checked: what each instruction is in each iteration.

Streams come from files that may be damaged: whatever a stream says, what is read here is bounded.
Its format: `runtime.tables`.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from rcompiler.errors import ArtifactError
from rcompiler.runtime.control import BARRIER_OP, END, REPEAT, RUN, SIGNAL, TAKE, WAIT

MAX_DEPTH = 8  # loops inside of each other
MAX_INSTRUCTIONS = 1 << 22  # that a stream goes through; models have thousands
MAX_STEP = 1 << 46  # bytes, like any distance in memory
_COUNTED = {RUN: 6, REPEAT: 5}
_OFFSET = 6  # operand of a RUN that is the first offset; every second one from there on is one
_ITERATION = 3  # word of a REPEAT
_LENGTH = {WAIT: 3, SIGNAL: 2, BARRIER_OP: 1, END: 1, TAKE: 4}

Steps = tuple[tuple[int, int], ...]


class Line(NamedTuple):
    """An instruction of a stream.

    position: its word; operands: as in the first iteration; counts: of the loops around it,
    outermost first; steps: (operand, step from one iteration to the next) in each of them.
    """

    position: int
    opcode: int
    operands: tuple[int, ...]
    counts: tuple[int, ...] = ()
    steps: tuple[Steps, ...] = ()

    @property
    def times(self) -> int:
        """How often it is executed."""
        return math.prod(self.counts)

    def at(self, index: Iterable[int]) -> tuple[int, ...]:
        """Operands in one iteration of each loop around."""
        now = list(self.operands)
        for i, steps in zip(index, self.steps, strict=True):
            for operand, step in steps:
                now[operand] += i * step
        return tuple(now)

    def extremes(self) -> list[tuple[int, ...]]:
        """Operands among which each has the least and the greatest value that it ever has, and
        each of its steps is taken once.

        A bound of all these, or a number that divides them, is one of all iterations.
        """
        if not any(self.steps):
            return [self.operands]
        depth = len(self.counts)
        once = [self.at(int(i == level) for i in range(depth)) for level in range(depth)]
        return [self.operands, self._extreme(min), self._extreme(max), *once]

    def _extreme(self, pick: Callable[[int, int], int]) -> tuple[int, ...]:
        now = list(self.operands)
        for count, steps in zip(self.counts, self.steps, strict=True):
            for operand, step in steps:
                now[operand] += pick(0, (count - 1) * step)
        return tuple(now)

    def values(self, operand: int) -> list[int]:
        """One operand in all iterations, in their order."""
        found = [self.operands[operand]]
        for count, steps in zip(self.counts, self.steps, strict=True):
            step = dict(steps).get(operand, 0)
            found = [number + i * step for number in found for i in range(count)]
        return found

    def moves(self, operand: int) -> bool:
        """Whether a loop may change this operand: an event, a count, a first task, an offset."""
        if self.opcode == RUN:
            return operand == 1 or operand in range(_OFFSET, len(self.operands), 2)
        return 0 <= operand < len(self.operands)


@dataclass(frozen=True, slots=True)
class Loop:
    """A body that is gone through `count` times.

    position: the word of its REPEAT, behind the body; depth: of loops inside of each other, this
    one included.
    """

    position: int
    count: int
    body: tuple["Item", ...]
    depth: int


Item = Line | Loop


def lines(items: Iterable[Item]) -> Iterator[Line]:
    """All instructions of items, each once, in the order of their words."""
    for item in items:
        if isinstance(item, Line):
            yield item
        else:
            yield from lines(item.body)


def executed(
    items: Iterable[Item], index: tuple[int, ...] = ()
) -> Iterator[tuple[Line, tuple[int, ...]]]:
    """What is executed, in order: an instruction and the iteration of each loop around it."""
    for item in items:
        if isinstance(item, Line):
            yield item, index
        else:
            for i in range(item.count):
                yield from executed(item.body, (*index, i))


def iterations(items: Iterable[Item], position: int, stream: np.ndarray) -> Iterator[int]:
    """The iterations that a thread is in when it is at a word of the stream that it walks."""
    for item in items:
        if isinstance(item, Loop):
            first = next(lines(item.body)).position
            if first <= position < item.position:
                yield int(stream[item.position + _ITERATION])
                yield from iterations(item.body, position, stream)


def parse(stream: np.ndarray) -> list[Item]:
    """The instructions and loops of a stream, END included.

    Raises:
        ArtifactError: unknown opcode, cut-off instruction, END missing or before the end; a loop
            that jumps into an instruction or another loop, changes what it may not change, or goes
            on for too long.
    """
    reader = _Reader(stream.tolist())
    while reader.position < len(reader.words) and not reader.ended:
        reader.step()
    if not reader.ended or reader.position < len(reader.words):
        raise ArtifactError("schedule: a stream does not end with END; compile the model again")
    return reader.items


class _Reader:
    """items: what was read, loops closed so far; starts, times: of each its first word and how many
    instructions it executes."""

    def __init__(self, words: list[int]) -> None:
        self.words = words
        self.position = 0
        self.items: list[Item] = []
        self.starts: list[int] = []
        self.times: list[int] = []
        self.ended = False

    def step(self) -> None:
        """Read one instruction."""
        words, position = self.words, self.position
        opcode = words[position]
        length = _LENGTH.get(opcode, 0)
        head = _COUNTED.get(opcode, 0)  # the last word of it says how many pairs follow
        if head and position + head <= len(words) and words[position + head - 1] >= 0:
            length = head + 2 * words[position + head - 1]
        if not length or position + length > len(words):
            raise ArtifactError(
                f"schedule: no valid instruction at word {position} (opcode {opcode}); "
                "compile the model again"
            )
        operands = tuple(words[position + 1 : position + length])
        self.position += length
        if opcode == REPEAT:
            self._close(position, operands)
        else:
            self._add(Line(position, opcode, operands), position, 1)
            self.ended = opcode == END

    def _add(self, item: Item, start: int, times: int) -> None:
        self.items.append(item)
        self.starts.append(start)
        self.times.append(times)

    def _close(self, position: int, operands: tuple[int, ...]) -> None:
        """Make a loop of the last items."""
        count, length, iteration, _ = operands[:4]
        first = bisect_left(self.starts, position - length)
        if first == len(self.starts) or self.starts[first] != position - length:
            raise _fault(position, f"there is no instruction {length} words in front of it")
        body = self.items[first:]
        times = count * sum(self.times[first:])
        depth = 1 + max(item.depth if isinstance(item, Loop) else 0 for item in body)
        if count < 2 or times > MAX_INSTRUCTIONS or depth > MAX_DEPTH or iteration:
            raise _fault(position, f"{count} times, {depth} deep, from iteration {iteration}")
        steps = self._steps(position, body, operands)
        del self.items[first:], self.starts[first:], self.times[first:]
        loop = Loop(position, count, tuple(_inside(body, count, steps)), depth)
        self._add(loop, position - length, times)

    def _steps(
        self, position: int, body: list[Item], operands: tuple[int, ...]
    ) -> dict[int, list[tuple[int, int]]]:
        """(operand, step) of each line of a body that a loop changes, by the line's position."""
        inside = list(lines(body))
        places = [line.position for line in inside]
        begin, before = places[0], -1
        found: dict[int, list[tuple[int, int]]] = {}
        for word, step in zip(operands[4::2], operands[5::2], strict=True):
            line = inside[bisect_right(places, begin + word) - 1] if word >= 0 else inside[0]
            operand = begin + word - line.position - 1
            if word <= before or not line.moves(operand) or abs(step) > MAX_STEP:
                raise _fault(position, f"it adds {step} to word {word} of its body")
            before = word
            found.setdefault(line.position, []).append((operand, step))
        return found


def _inside(
    items: Iterable[Item], count: int, steps: dict[int, list[tuple[int, int]]]
) -> Iterator[Item]:
    """The same items in a further loop around all that they are in."""
    for item in items:
        if isinstance(item, Line):
            mine = tuple(steps.get(item.position, ()))
            yield item._replace(counts=(count, *item.counts), steps=(mine, *item.steps))
        else:
            yield replace(item, body=tuple(_inside(item.body, count, steps)))


def _fault(position: int, what: str) -> ArtifactError:
    return ArtifactError(
        f"schedule: the loop that ends at word {position} is none: {what}; compile the model again"
    )
