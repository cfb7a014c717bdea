"""Instruction streams as a table: loops gone through, barriers as signals and waits."""

from collections.abc import Sequence
from itertools import chain

import numpy as np

from rcompiler.checker.facts import MOST, Launch, refuse

END, RUN, WAIT, SIGNAL, BARRIER, REPEAT = range(6)
_HEAD = [1, 6, 3, 2, 1, 5]  # words of each, without pairs
_MOST_WORDS = 1 << 25


class Steps:
    """All instructions of all streams, in their order.

    rows: (n, width) the words of each, then zeros; thread: (n,) whose it is. A barrier is there as
    what it does: a signal of an event of its own, and a wait for those of all EUs of the program.
    Events of barriers have negative numbers, others have not.
    """

    def __init__(self, launches: Sequence[Launch]) -> None:
        streams = [(stream, len(x.streams)) for x in launches for stream in x.streams]
        found = [_unrolled(np.asarray(stream, np.int64).tolist()) for stream, _ in streams]
        thread = np.repeat(np.arange(len(found)), [*map(len, found)])
        sizes = np.array([len(row) for rows in found for row in rows], np.int64)
        width = int(sizes.max(initial=_HEAD[RUN]))
        if len(sizes) * width > _MOST_WORDS:
            refuse("stream", "the streams are too long")
        rows = np.zeros((len(sizes), width), np.int64)
        words = chain.from_iterable(chain.from_iterable(found))
        rows[np.arange(width) < sizes[:, None]] = np.fromiter(words, np.int64)
        if (rows[rows[:, 0] != RUN, 1] < 0).any():
            refuse("stream", "an event has no number")
        barrier = rows[:, 0] == BARRIER
        before = np.cumsum(barrier) - barrier
        rows[barrier, 1] = (before[np.searchsorted(thread, thread)] - before)[barrier] - 1
        rows[barrier, 2] = np.array([eus for _, eus in streams], np.int64)[thread[barrier]]
        each = np.repeat(np.arange(len(rows)), 1 + barrier)
        self.rows, self.thread = rows[each], thread[each]
        self.rows[barrier[each], 0] = np.tile([SIGNAL, WAIT], np.count_nonzero(barrier))


def _unrolled(words: list[int]) -> list[list[int]]:
    """The instructions that a stream goes through, without END."""
    rows: list[list[int]] = []
    places: list[int] = []  # first word of each in the file
    at = 0
    while at < len(words) and words[at] != END:
        size = _HEAD[words[at]] if RUN <= words[at] <= REPEAT else 0
        if words[at] in (RUN, REPEAT) and at + size <= len(words):
            size += 2 * words[at + size - 1] if words[at + size - 1] >= 0 else len(words)
        if not 0 < size < len(words) - at:
            refuse("stream", f"no instruction at word {at}")
        if words[at] == REPEAT:
            _repeat(rows, places, words[at : at + size], at)
        else:
            rows.append(words[at : at + size])
            places.append(at)
        at += size
    if at != len(words) - 1:
        refuse("stream", "END is not the last instruction of a stream")
    return rows


def _repeat(rows: list[list[int]], places: list[int], loop: list[int], end: int) -> None:
    """Go through the last rows again. end: the word at which the loop ends, behind its body."""
    _, count, length, iteration, _, *pairs = loop
    first = places.index(end - length) if end - length in places else len(rows)
    body, inside = rows[first:], places[first:]
    if count < 2 or iteration != 0 or min(inside, default=-1) < end - length:
        refuse("stream", f"the loop that ends at word {end} is none")
    if count * sum(map(len, body)) > _MOST_WORDS:
        refuse("stream", f"the loop that ends at word {end} is too long")
    steps = dict(zip([end - length + word for word in pairs[::2]], pairs[1::2], strict=True))
    moves = [
        (number, column, steps[place + column])
        for number, (place, row) in enumerate(zip(inside, body, strict=True))
        for column in _movable(row)
        if place + column in steps
    ]
    moved = {inside[number] + column for number, column, _ in moves}
    if len(moved) < len(pairs) // 2 or max(map(abs, steps.values()), default=0) > MOST:
        refuse("stream", f"the loop that ends at word {end} changes what it may not")
    for turn in range(1, count):
        again = [row[:] for row in body]
        for number, column, step in moves:
            again[number][column] += turn * step
        rows += again
        places += inside


def _movable(row: list[int]) -> Sequence[int]:
    """Columns that a loop may change: events, counts of waits, first tasks and offsets."""
    return [2, *range(7, len(row), 2)] if row[0] == RUN else range(1, len(row))
