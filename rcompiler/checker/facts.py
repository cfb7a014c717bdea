"""What is checked: plain data out of a file, and the refusal."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
MOST = 1 << 46  # of any number in the notes: sums and products of a few stay exact in int64
MOST_AT_ONCE = 1 << 25  # tasks, or pieces of them


class Refused(Exception):
    """A schedule that may not run. rule: the law that it breaks."""

    def __init__(self, rule: str, text: str) -> None:
        super().__init__(text)
        self.rule = rule


@dataclass(frozen=True)
class Facts:
    """Numbers are ints of at most MOST. boxes: [grid, reads, writes, in_place] of each kernel, of
    which a pair with a third number has to lie in one place; an access being [shape, itemsize,
    [axis, scale, offset, extent] of each dim], with arrays of numbers; sizes: (tasks, operand
    bytes, results, pinned operands) of each, as its code has them.

    names: of the operators; kernels, uses: (operators,) the kernel of each, and how many operands
    it has; operands: (n, 3) those of all operators, one after the other, as value, base, offset: a
    number for what is read and written there, and where the streams say it lies.

    words: of the streams of EUs or queues, one behind the other; streams: (n, 3) of each the word
    behind it, its launch, and its line (those of one line come after one another); dynamic:
    (launches,) whether EUs take the streams as queues; runs: of each run its operator.

    arena, constants, inputs, outputs, pinned: bytes. updates: (input, output) of each state whose
    next value is written in the place of its last one, which is there when the first launch begins.
    clocks: the certificate, integers (segments, 1
    + lines): a turn and how many runs are over of each line.
    """

    boxes: Sequence[Any]
    sizes: Sequence[tuple[int, Sequence[int], int, Sequence[int]]]
    names: Sequence[str]
    kernels: Ints
    uses: Ints
    operands: Ints
    words: Ints
    streams: Ints
    dynamic: Bools
    runs: Ints
    arena: int
    constants: int
    inputs: Sequence[int]
    outputs: Sequence[int]
    pinned: int
    clocks: NDArray[Any]
    updates: Sequence[tuple[int, int]] = ()


def forbid(wrong: Any, rule: str, text: str) -> None:
    """Refuses what is wrong: a truth, or any of an array of them."""
    if wrong.any() if isinstance(wrong, np.ndarray) else wrong:
        raise Refused(rule, text)


def within(values: Ints, end: int, rule: str, text: str) -> None:
    """Refuses what is not one of 0, 1, .. end - 1."""
    forbid((values < 0) | (values >= end), rule, text)


def distinct(values: Ints) -> Ints:
    """All that are different, sorted; numpy's own hashes them, which takes 15 times as long."""
    return (own := np.sort(values))[np.append(True, own[1:] != own[:-1])[: len(own)]]


def spans(begin: Ints, sizes: Ints) -> Ints:
    """begin, begin + 1, .. of each of n groups of these sizes."""
    forbid(sizes.sum() > MOST_AT_ONCE, "notes", "the schedule is too large to be checked")
    return np.repeat(begin - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())


def ramp(sizes: Ints) -> Ints:
    """0, 1, .. of each of n groups of these sizes."""
    return spans(np.zeros_like(sizes), sizes)
