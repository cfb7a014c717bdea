"""Instruction streams as a table: loops gone through, barriers as signals and waits."""

from collections.abc import Sequence

import numpy as np

from rcompiler.checker.facts import MOST, Bools, Ints, Launch, forbid, ramp, refuse, within

END, RUN, WAIT, SIGNAL, BARRIER, REPEAT = range(6)
_HEAD = np.array([1, 6, 3, 2, 1, 5, 0])  # words of each, without pairs, and of what is none
_MOST_WORDS = 1 << 25


class Steps:
    """All instructions of all streams, in their order.

    rows: (n, width) the words of each, then zeros; thread: (n,) whose it is. A barrier is there as
    what it does: a signal of an event of its own, and a wait for those of all EUs of the program.
    Events of barriers have negative numbers, others have not.
    """

    def __init__(self, launches: Sequence[Launch]) -> None:
        streams = [np.asarray(stream, np.int64) for x in launches for stream in x.streams]
        eus = np.array([len(x.streams) for x in launches for _ in x.streams], np.int64)
        words = np.concatenate([np.zeros(0, np.int64), *streams])
        within(words + MOST, 2 * MOST, "stream", "a word is too large")
        starts, sizes = _instructions(words)
        code = words[starts]
        ends = code == END
        if not np.array_equal(starts[ends] + 1, np.cumsum([*map(len, streams)])):
            refuse("stream", "END is not the last instruction of a stream")
        each = np.repeat(np.arange(len(code)), np.where(ends, 0, 1 + (code == BARRIER)))
        thread = (np.cumsum(ends) - ends)[each]
        column = np.arange(sizes[code != REPEAT].max(initial=_HEAD[RUN]))
        forbid(len(each) * len(column) > _MOST_WORDS, "stream", "the streams are too long")
        places = np.minimum(starts[each, None] + column, len(words) - 1)
        table = np.where(column < sizes[each, None], words[places], 0)
        self.rows, number = _unrolled(words, starts[each], thread, table)
        self.thread, code = thread[number], self.rows[:, 0]
        forbid(self.rows[code != RUN, 1] < 0, "stream", "an event has no number")
        barrier = np.flatnonzero(code == BARRIER)
        whose = self.thread[barrier]
        self.rows[barrier, 1] = ~((np.arange(len(whose)) - np.searchsorted(whose, whose)) // 2)
        self.rows[barrier, 2] = eus[whose]
        self.rows[barrier, 0] = np.resize([SIGNAL, WAIT], len(barrier))


def _instructions(words: Ints) -> tuple[Ints, Ints]:
    """(first word, words) of each instruction."""
    sizes = _HEAD[np.where((words >= END) & (words <= REPEAT), words, -1)]
    some = np.flatnonzero((words == RUN) | (words == REPEAT))
    pairs = words[np.minimum(some + sizes[some], len(words)) - 1]
    sizes[some] += 2 * np.where((pairs < 0) | (pairs > len(words)), len(words), pairs)
    starts, at, steps = list[int](), 0, sizes.tolist()
    while at < len(steps):
        if not 0 < steps[at] <= len(steps) - at:
            refuse("stream", f"no instruction at word {at}")
        starts.append(at)
        at += steps[at]
    found = np.array(starts, np.int64)
    return found, sizes[found]


def _unrolled(words: Ints, starts: Ints, thread: Ints, rows: Ints) -> tuple[Ints, Ints]:
    """Rows as loops go through them, and the number of each in the file."""
    loop = np.flatnonzero(rows[:, 0] == REPEAT)
    count, length, iteration, pairs = (words[starts[loop] + n] for n in range(1, 5))
    begin = starts[loop] - length
    first = np.searchsorted(starts, begin)  # row of each body
    own = np.minimum(first, loop)
    fits = (first < loop) & (starts[own] == begin) & (thread[own] == thread[loop])
    if not (fits & (iteration == 0) & (count > 1) & (count <= _MOST_WORDS)).all():
        refuse("stream", "a loop has no body, or does not repeat it")
    of = np.repeat(np.arange(len(loop)), pairs)
    low = starts[loop[of]] + 5 + 2 * ramp(pairs)
    word, step = words[low], words[low + 1]
    moved = np.searchsorted(starts, begin[of] + word, side="right") - 1
    column = begin[of] + word - starts[moved]
    inside = (word >= 0) & (word < length[of]) & (abs(step) <= MOST // count[of])
    again = len(of) - len(np.unique(of * len(words) + word))
    if again or not (inside & _movable(rows[moved, 0], column)).all():
        refuse("stream", "a loop changes what it may not")
    number, left = np.arange(len(rows)), np.arange(len(loop))
    while len(left):
        inner = np.append(-1, loop[left[:-1]]) < first[left]  # has no other loop in it
        own, left = left[inner], left[~inner]
        some, change = np.isin(of, own), np.zeros((len(starts), rows.shape[1]), np.int64)
        change[moved[some], column[some]] = step[some]
        # pieces of rows: each second one is the body of a loop, others lie between them
        cut = np.append(0, np.stack([first[own], loop[own] + 1], axis=1))
        size, turns = np.diff(cut, append=len(rows)), np.ones(len(cut), np.int64)
        size[1::2], turns[1::2] = size[1::2] - 1, count[own]
        total = size * turns
        forbid(total.sum() * rows.shape[1] > _MOST_WORDS, "stream", "the loops are too long")
        piece = np.repeat(np.arange(len(cut)), total)
        turn, place = divmod(ramp(total), size[piece])
        number, rows = number[cut[piece] + place], rows[cut[piece] + place]
        rows += turn[:, None] * change[number]
        for row in first, loop:
            piece = np.searchsorted(cut, row[left], side="right") - 1
            inside = (piece % 2 == 1) & (cut[piece] != row[left])
            forbid(inside, "stream", "loops cross one another")
            row[left] += (np.cumsum(total) - total - cut)[piece]
    return rows, number


def _movable(code: Ints, column: Ints) -> Bools:
    """What a loop may change: events, counts of waits, first tasks and offsets."""
    run = (column == 2) | ((column > 6) & (column % 2 == 1))
    return np.where(code == RUN, run, ((code == WAIT) | (code == SIGNAL)) & (column > 0))
