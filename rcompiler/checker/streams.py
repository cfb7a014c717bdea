"""Instruction streams with their loops gone through."""

from collections.abc import Sequence

import numpy as np

from rcompiler.checker.facts import Ints, ramp, refuse

END, RUN, WAIT, SIGNAL, BARRIER, REPEAT = range(6)
MOST_WORDS = 1 << 27


class Steps:
    """All instructions of all streams, in their order.

    words: of the streams, loops gone through; at: (n,) first word of each instruction; opcode,
    thread: (n,) what it is and whose.
    """

    def __init__(self, streams: Sequence[Ints]) -> None:
        parts, places, at = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], 0
        for stream in streams:
            words, starts = _unrolled(np.asarray(stream, np.int64))
            parts.append(words)
            places.append(starts[:-1] + at)  # without END
            at += len(words)
            if at > MOST_WORDS:
                refuse("stream", "the streams are too long")
        self.words = np.concatenate(parts)
        self.at = np.concatenate(places)
        self.opcode = self.words[self.at]
        self.thread = np.repeat(np.arange(len(streams)), [len(p) for p in places[1:]])

    def word(self, number: int, which: Ints) -> Ints:
        """The n-th word behind the opcode of some instructions."""
        return self.words[self.at[which] + number]


def _lengths(words: Ints) -> Ints:
    """(n,): words of the instruction that begins at each word, -1 for none that is there."""
    behind = np.concatenate([words, np.full(6, -1)])
    pairs = np.zeros(len(words), np.int64)
    for opcode, place in ((RUN, 5), (REPEAT, 4)):
        here = np.flatnonzero(words == opcode)
        pairs[here] = behind[here + place]
    known = (words >= END) & (words <= REPEAT) & (pairs >= 0) & (pairs <= len(words))
    head = np.array([1, 6, 3, 2, 1, 5])[np.where(known, words, 0)]
    size = head + 2 * np.where(known, pairs, 0)
    return np.where(known & (np.arange(len(words)) + size <= len(words)), size, -1)


def _unrolled(words: Ints) -> tuple[Ints, Ints]:
    """The words without loops, and the places of the instructions in them, the last one END."""
    sizes, starts, at = _lengths(words).tolist(), [], 0
    while at < len(sizes):
        starts.append(at)
        if sizes[at] < 0:
            refuse("stream", f"no instruction at word {at}")
        at += sizes[at]
    begin = np.array(starts, np.int64)
    opcode = words[begin] if starts else np.zeros(0, np.int64)
    if np.flatnonzero(opcode == END).tolist() != [len(starts) - 1]:
        refuse("stream", "END is not its last instruction, and only that")
    if not (opcode == REPEAT).any():
        return words, begin
    return _without_loops(words, begin, opcode)


def _without_loops(words: Ints, begin: Ints, opcode: Ints) -> tuple[Ints, Ints]:
    first = np.zeros(len(words), bool)
    first[begin] = True
    moves = _movable(words, begin, opcode)
    # pieces in order: (word of the file that it begins at, the words of the file that it is made
    # of, and what is added to each)
    pieces: list[tuple[int, Ints, Ints]] = []
    done = 0
    for end in begin[opcode == REPEAT].tolist():
        count, length, iteration, n = words[end + 1 : end + 5].tolist()
        start = end - length
        if not (count >= 2 and 0 < length <= end and first[start] and iteration == 0):
            refuse("stream", f"the loop that ends at word {end} is none")
        for low, high in ((done, max(done, start)), (max(done, start), end)):
            if low < high:
                pieces.append((low, np.arange(low, high), words[low:high]))
        body: list[tuple[int, Ints, Ints]] = []
        while pieces and pieces[-1][0] >= start:
            body.insert(0, pieces.pop())
        if pieces and (not body or body[0][0] > start):  # it begins in the middle of one
            low, origin, values = pieces.pop()
            if not start - low < len(origin) or origin[-1] - low >= len(origin):
                refuse("stream", f"the loop that ends at word {end} begins inside of another")
            pieces.append((low, origin[: start - low], values[: start - low]))
            body.insert(0, (start, origin[start - low :], values[start - low :]))
        which, steps = words[end + 5 : end + 5 + 2 * n].reshape(n, 2).T
        if n and not ((0 <= which) & (which < length) & moves[start + which % length]).all():
            refuse("stream", f"the loop that ends at word {end} changes what it may not")
        if len(set(which.tolist())) < n or (abs(steps) > 1 << 46).any():
            refuse("stream", f"the loop that ends at word {end} has impossible steps")
        added = np.zeros(length, np.int64)
        added[which] = steps
        origin, values = (np.concatenate([piece[i] for piece in body]) for i in (1, 2))
        if count * len(values) > MOST_WORDS:
            refuse("stream", f"the loop that ends at word {end} is too long")
        turns = np.arange(count)[:, None] * added[origin - start]
        pieces.append((start, np.tile(origin, count), (values + turns).ravel()))
        done = end + 5 + 2 * n
    pieces.append((done, np.arange(done, len(words)), words[done:]))
    origin, values = (np.concatenate([piece[i] for piece in pieces]) for i in (1, 2))
    return values, np.flatnonzero(first[origin])


def _movable(words: Ints, begin: Ints, opcode: Ints) -> np.ndarray:
    """(words,): what a loop may change: events, counts of waits, first tasks and offsets."""
    found = np.zeros(len(words), bool)
    runs = begin[opcode == RUN]
    found[runs + 2] = True
    pairs = words[runs + 5]
    found[np.repeat(runs, pairs) + 7 + 2 * ramp(pairs)] = True
    for code, number in ((WAIT, 1), (WAIT, 2), (SIGNAL, 1)):
        found[begin[opcode == code] + number] = True
    return found
