"""Instruction streams as a table: loops gone through, barriers as signals and waits."""

import numpy as np

from rcompiler.checker.facts import MOST, MOST_AT_ONCE, Facts, Ints, forbid, ramp, spans, within

END, RUN, WAIT, SIGNAL, BARRIER, REPEAT = range(6)
_HEAD = np.array([1, 6, 3, 2, 1, 5, MOST])  # words of each, without pairs, and of what is none


class Instructions:
    """All instructions of all streams, in their order.

    words: of all of them, one behind the other; begin: (n,) where those of each are, all of a run,
    and five of others, of which those behind its own are any; code, thread: (n,) what it is, and
    whose. A barrier is there as what it does: a signal of an event of its own, and a wait for those
    of all EUs of the program. Events of barriers have negative numbers, others have not.
    """

    def __init__(self, facts: Facts) -> None:
        words, (end, launch, _) = facts.words, facts.streams.T
        within(words + MOST, 2 * MOST, "stream", "a word is too large")
        starts, sizes = _instructions(words)
        ends = (code := words[starts]) == END
        forbid(not np.array_equal(starts[ends] + 1, end), "stream", "a stream ends without END")
        each = np.repeat(np.arange(len(code)), np.where(ends, 0, 1 + (code == BARRIER)))
        thread = (np.cumsum(ends) - ends)[each]
        room = np.where(code == RUN, sizes, _HEAD[REPEAT])[each]
        starts, begin = starts[each], np.cumsum(room) - room
        table = words.take(spans(starts, room), mode="clip")
        self.words, self.begin, number = _unrolled(words, starts, thread, table, begin)
        self.thread, self.code = thread[number], self.words[self.begin]
        within(self.words[self.begin[self.code != RUN] + 1], MOST, "stream", "an event is negative")
        barrier = np.flatnonzero(self.code == BARRIER)
        whose, begin = self.thread[barrier], self.begin[barrier]
        self.words[begin + 1] = ~((np.arange(len(whose)) - np.searchsorted(whose, whose)) // 2)
        self.words[begin + 2] = np.bincount(launch)[launch[whose]]
        self.code[barrier] = np.resize([SIGNAL, WAIT], len(barrier))


def _instructions(words: Ints) -> tuple[Ints, Ints]:
    """(first word, words) of each instruction."""
    sizes = _HEAD[np.minimum(words.view(np.uint64), REPEAT + 1)]
    some = np.flatnonzero((words == RUN) | (words == REPEAT))
    pairs = words[np.minimum(some + sizes[some], len(words)) - 1]
    sizes[some] += 2 * np.where((pairs < 0) | (pairs > len(words)), len(words), pairs)
    starts, at, steps, most = list[int](), 0, sizes.data, len(words)
    while at < most:
        starts.append(at)
        at += steps[at]
    forbid(at > most, "stream", f"no instruction at word {starts[-1:]}")
    found = np.array(starts, np.int64)
    return found, sizes[found]


def _unrolled(words: Ints, starts: Ints, thread: Ints, table: Ints, begin: Ints) -> list[Ints]:
    """The words as loops go through them, where each instruction begins, its number in the file."""
    loop = np.flatnonzero(words[starts] == REPEAT)
    count, length, iteration, pairs = words[starts[loop] + np.c_[1:5]]
    body = starts[loop] - length
    first = np.searchsorted(starts, body)  # instruction of each body
    own = np.minimum(first, loop)
    fits = (first < loop) & (starts[own] == body) & (thread[own] == thread[loop]) & (count > 1)
    fits &= (iteration == 0) & (count <= MOST_AT_ONCE)
    forbid(~fits, "stream", "a loop has no body, or does not repeat it")
    of = np.repeat(np.arange(len(loop)), pairs)
    low = starts[loop[of]] + 5 + 2 * ramp(pairs)
    word, step = words[low], words[low + 1]
    moved = np.searchsorted(starts, body[of] + word, side="right") - 1
    column = body[of] + word - starts[moved]
    own = (word >= 0) & (word < length[of]) & (abs(step) <= MOST // count[of])
    # events, counts of waits, first tasks and offsets may change
    code, run = words[starts[moved]], (column == 2) | ((column > 6) & (column % 2 == 1))
    own &= np.where(code == RUN, run, ((code == WAIT) | (code == SIGNAL)) & (column > 0))
    again = len(of) != len({*zip(of.tolist(), word.tolist(), strict=True)})
    forbid(again or not own.all(), "stream", "a loop changes what it may not")
    number, repeats = np.arange(len(begin)), loop[of]
    table[begin[loop] + 2] = loop - first  # instructions of the body
    while len(loop := np.flatnonzero(table[begin] == REPEAT)):
        first = loop - table[begin[loop] + 2]
        # those in no other loop; the others are in the next of these
        outer = np.append(np.minimum.accumulate(first[::-1])[-2::-1], len(begin)) > loop
        inside = np.searchsorted(loop[outer], loop)
        forbid(first < first[outer][inside], "stream", "loops cross one another")
        # pieces of them: each second one is the body of a loop, others lie between them
        cut = np.append(0, np.stack([first[outer], loop[outer] + 1], axis=1))
        size, times = np.diff(cut, append=len(begin)), np.ones(len(cut), np.int64)
        size[1::2], times[1::2] = size[1::2] - 1, table[begin[loop[outer]] + 1]
        place = ramp(size * times)
        piece = np.repeat(np.arange(len(cut)), size * times)
        turn, place = divmod(place, size[piece])
        some = np.flatnonzero(np.isin(repeats, number[loop[outer]]))
        ends = np.append(begin, len(table))
        each = np.stack([ends[cut], ends[cut + size], times]).T
        forbid((each[:, 1] - each[:, 0]) @ times > MOST_AT_ONCE, "notes", "loops are too long")
        table = np.concatenate([part for a, b, n in each.tolist() for part in [table[a:b]] * n])
        number, room = (column[cut[piece] + place] for column in (number, np.diff(ends)))
        begin, sort = np.cumsum(room) - room, np.argsort(number)
        low, high = (np.searchsorted(number, moved[some], s, sort) for s in ("left", "right"))
        which, at = np.repeat(some, high - low), spans(low, high - low)
        table[begin[sort[at]] + column[which]] += turn[sort[at]] * step[which]
    return [table, begin, number]
