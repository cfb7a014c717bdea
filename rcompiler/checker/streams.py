"""Instruction streams as a table: loops gone through, barriers as signals and waits."""

import numpy as np

from rcompiler.checker.facts import MOST, Facts, Ints, forbid, ramp, within

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
        ends = (code := words[starts]) == END
        forbid(not np.array_equal(starts[ends] + 1, end), "stream", "a stream ends without END")
        each = np.repeat(np.arange(len(code)), np.where(ends, 0, 1 + (code == BARRIER)))
        thread = (np.cumsum(ends) - ends)[each]
        column = np.arange(sizes[code != REPEAT].max(initial=_HEAD[RUN]))
        forbid(len(each) * len(column) > _MOST_WORDS, "stream", "the streams are too long")
        places = np.minimum(starts[each, None] + column, len(words) - 1)
        table = np.where(column < sizes[each, None], words[places], 0)
        self.rows, number = _unrolled(words, starts[each], thread, table)
        self.thread, code = thread[number], self.rows[:, 0]
        within(self.rows[code != RUN, 1], MOST, "stream", "an event has no number")
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
    fits = (first < loop) & (starts[own] == begin) & (thread[own] == thread[loop]) & (count > 1)
    fits &= (iteration == 0) & (count <= _MOST_WORDS)
    forbid(~fits, "stream", "a loop has no body, or does not repeat it")
    of = np.repeat(np.arange(len(loop)), pairs)
    low = starts[loop[of]] + 5 + 2 * ramp(pairs)
    word, step = words[low], words[low + 1]
    moved = np.searchsorted(starts, begin[of] + word, side="right") - 1
    column = begin[of] + word - starts[moved]
    own = (word >= 0) & (word < length[of]) & (abs(step) <= MOST // count[of])
    # events, counts of waits, first tasks and offsets may change
    code, run = table[moved, 0], (column == 2) | ((column > 6) & (column % 2 == 1))
    own &= np.where(code == RUN, run, ((code == WAIT) | (code == SIGNAL)) & (column > 0))
    again = len(of) != len({*zip(of.tolist(), word.tolist(), strict=True)})
    forbid(again or not own.all(), "stream", "a loop changes what it may not")
    rows, number, repeats = table, np.arange(len(table)), loop[of]
    table[loop, 2] = loop - first  # rows of the body
    while len(loop := np.flatnonzero(rows[:, 0] == REPEAT)):
        first = loop - rows[loop, 2]
        # those in no other loop; the others are in the next of these
        outer = np.append(np.minimum.accumulate(first[::-1])[-2::-1], len(rows)) > loop
        inside = np.searchsorted(loop[outer], loop)
        forbid(first < first[outer][inside], "stream", "loops cross one another")
        # pieces of rows: each second one is the body of a loop, others lie between them
        cut = np.append(0, np.stack([first[outer], loop[outer] + 1], axis=1))
        size, times = np.diff(cut, append=len(rows)), np.ones(len(cut), np.int64)
        size[1::2], times[1::2] = size[1::2] - 1, rows[loop[outer], 1]
        total = size * times
        forbid(total.sum() * rows.shape[1] > _MOST_WORDS, "stream", "the loops are too long")
        piece = np.repeat(np.arange(len(cut)), total)
        turn, place = divmod(ramp(total), size[piece])
        some = np.flatnonzero(np.isin(repeats, number[loop[outer]]))
        number, rows = number[cut[piece] + place], rows[cut[piece] + place]
        sort = np.argsort(number)
        low, high = (np.searchsorted(number, moved[some], s, sort) for s in ("left", "right"))
        which, at = np.repeat(some, high - low), np.repeat(low, high - low) + ramp(high - low)
        rows[sort[at], column[which]] += turn[sort[at]] * step[which]
    return rows, number
