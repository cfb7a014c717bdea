"""What is checked: plain data out of a file, and the refusal."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
MOST = 1 << 46  # of any number in the notes: sums and products of a few stay exact in int64
_MOST_AT_ONCE = 1 << 25


class Refused(Exception):
    """A schedule that may not run. rule: the law that it breaks."""

    def __init__(self, rule: str, text: str) -> None:
        super().__init__(text)
        self.rule = rule


def refuse(rule: str, text: str) -> NoReturn:
    """Raises Refused."""
    raise Refused(rule, text)


@dataclass(frozen=True)
class Launch:
    """One program. streams: of each EU or queue; operators: names of the runs of each; operands:
    buffer numbers by operator. lines: of a dynamic program (taken_by > 0) the line of each queue:
    those of one line come after one another.
    """

    name: str
    streams: Sequence[Ints]
    operators: Sequence[Sequence[str]]
    taken_by: int
    operands: Mapping[str, Sequence[int]]
    lines: Sequence[int]


@dataclass(frozen=True)
class Facts:
    """boxes: [grid, reads, writes, in_place] of each kernel, an access being [shape, itemsize,
    [axis, scale, offset, extent] of each dim]; sizes: (tasks, operand bytes, results, pinned
    operands) of each; buffers: [name, kind, offset, bytes, index, name of the viewed one, content];
    arena, constants, inputs, outputs, pinned: bytes. clocks: the certificate, as bytes.
    """

    boxes: Sequence[Any]
    names: Sequence[str]
    sizes: Sequence[tuple[int, Sequence[int], int, Sequence[int]]]
    buffers: Sequence[Any]
    launches: Sequence[Launch]
    arena: int
    constants: int
    inputs: Sequence[int]
    outputs: Sequence[int]
    pinned: int
    clocks: bytes


def whole(value: Any) -> int:
    """A number of the notes."""
    if type(value) is not int or not -MOST <= value <= MOST:
        refuse("notes", "a number is none")
    return value


def wholes(values: Sequence[Any]) -> Ints:
    """Many numbers of the notes."""
    if {*map(type, values)} - {int} or not all(-MOST <= x <= MOST for x in set(values)):
        refuse("notes", "a number is none")
    return np.array(values, np.int64)


def ramp(sizes: Ints) -> Ints:
    """0, 1, .. of each of n groups of these sizes."""
    if (total := int(sizes.sum())) > _MOST_AT_ONCE:
        refuse("notes", "the schedule is too large to be checked")
    return np.arange(total) - np.repeat(np.cumsum(sizes) - sizes, sizes)
