"""Instruction streams as a table: loops gone through, barriers as signals and waits."""

import numpy as np

from rcompiler.checker.facts import MOST, Bools, Facts, Ints, forbid, ramp, refuse, within

END, RUN, WAIT, SIGNAL, BARRIER, REPEAT = range(6)
_HEAD = np.array([1, 6, 3, 2, 1, 5, MOST])  # words of each, without pairs, and of what is none
_MOST_WORDS = 1 << 25


class Steps:
    """All instructions of all streams, in their order.

    rows: (n, width) the words of each, then zeros; thread: (n,) whose it is. A barrier is there as
    what it does: a signal of an event of its own, and a wait for those of all EUs of the program.
    Events of barriers have negative numbers, others have not.
    """

    def __init__(self, facts: Facts) -> None:
        words, (end, launch, _) = facts.words, facts.streams.T
        within(words + MOST, 2 * MOST, "stream", "a word is too large")
        starts, sizes = _instructions(words)
        code = words[starts]
        ends = code == END
        if not np.array_equal(starts[ends] + 1, end):
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
        self.rows[barrier, 2] = np.bincount(launch)[launch[whose]]
        self.rows[barrier, 0] = np.resize([SIGNAL, WAIT], len(barrier))


def _instructions(words: Ints) -> tuple[Ints, Ints]:
    """(first word, words) of each instruction."""
    sizes = _HEAD[np.where((words >= END) & (words <= REPEAT), words, -1)]
    some = np.flatnonzero((words == RUN) | (words == REPEAT))
    pairs = words[np.minimum(some + sizes[some], len(words)) - 1]
    sizes[some] += 2 * np.where((pairs < 0) | (pairs > len(words)), len(words), pairs)
    starts, at, steps = list[int](), 0, sizes.tolist()
    while at < len(steps):
        starts.append(at)
        at += steps[at]
    forbid(at > len(steps), "stream", f"no instruction at word {starts[-1:]}")
    found = np.array(starts, np.int64)
    return found, sizes[found]


def _unrolled(words: Ints, starts: Ints, thread: Ints, table: Ints) -> tuple[Ints, Ints]:
    """Rows as loops go through them, and the number of each in the file."""
    loop = np.flatnonzero(table[:, 0] == REPEAT)
    count, length, iteration, pairs = table[loop, 1:5].T
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
    if again or not (inside & _movable(table[moved, 0], column)).all():
        refuse("stream", "a loop changes what it may not")
    rows, number, repeats = table, np.arange(len(table)), loop[of]
    bodies = np.zeros(len(table), np.int64)
    bodies[loop] = loop - first
    while len(loop := np.flatnonzero(rows[:, 0] == REPEAT)):
        own = number[loop]
        first = loop - bodies[own]
        # those in no other loop; the others are in the next of these
        outer = np.append(np.minimum.accumulate(first[::-1])[-2::-1], len(rows)) > loop
        inside = np.searchsorted(loop[outer], loop)
        forbid(first < first[outer][inside], "stream", "loops cross one another")
        # pieces of rows: each second one is the body of a loop, others lie between them
        cut = np.append(0, np.stack([first[outer], loop[outer] + 1], axis=1))
        size, times = np.diff(cut, append=len(rows)), np.ones(len(cut), np.int64)
        size[1::2], times[1::2] = size[1::2] - 1, table[own[outer], 1]
        total = size * times
        forbid(total.sum() * rows.shape[1] > _MOST_WORDS, "stream", "the loops are too long")
        piece = np.repeat(np.arange(len(cut)), total)
        turn, place = divmod(ramp(total), size[piece])
        number, rows = number[cut[piece] + place], rows[cut[piece] + place]
        some, sort = np.flatnonzero(np.isin(repeats, own[outer])), np.argsort(number)
        low, high = (np.searchsorted(number, moved[some], s, sort) for s in ("left", "right"))
        which, at = np.repeat(some, high - low), np.repeat(low, high - low) + ramp(high - low)
        rows[sort[at], column[which]] += turn[sort[at]] * step[which]
    return rows, number


def _movable(code: Ints, column: Ints) -> Bools:
    """What a loop may change: events, counts of waits, first tasks and offsets."""
    run = (column == 2) | ((column > 6) & (column % 2 == 1))
    return np.where(code == RUN, run, ((code == WAIT) | (code == SIGNAL)) & (column > 0))
