"""Instruction streams with their loops gone through."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from rcompiler.checker.facts import Ints, ramp, refuse

END, RUN, WAIT, SIGNAL, BARRIER, REPEAT = range(6)
_HEAD = np.array([1, 6, 3, 2, 1, 5])  # words of each, without pairs
_MOST_WORDS = 1 << 27


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
            if at > _MOST_WORDS:
                refuse("stream", "the streams are too long")
        self.words = np.concatenate(parts)
        self.at = np.concatenate(places)
        self.opcode = self.words[self.at]
        self.thread = np.repeat(np.arange(len(streams)), [len(p) for p in places[1:]])

    def word(self, number: int, which: Ints) -> Ints:
        """The n-th word behind the opcode of some instructions."""
        return self.words[self.at[which] + number]


def _unrolled(words: Ints) -> tuple[Ints, Ints]:
    """The words without loops, and the places of the instructions in them, the last one END."""
    # words of the instruction that would begin at each word
    opcode = np.where((words >= END) & (words <= REPEAT), words, END)
    pairs = np.where((opcode == RUN) | (opcode == REPEAT), 2, 0)
    pairs *= np.append(words, [0] * 5)[np.arange(len(words)) + _HEAD[opcode] - 1]
    sizes = np.where((opcode == words) & (pairs >= 0), _HEAD[opcode] + pairs, 0).tolist()
    starts, at = [], 0
    while at < len(sizes):
        starts.append(at)
        if not 0 < sizes[at] <= len(sizes) - at:
            refuse("stream", f"no instruction at word {at}")
        at += sizes[at]
    begin = np.array(starts, np.int64)
    if np.flatnonzero(opcode[begin] == END).tolist() != [len(starts) - 1]:
        refuse("stream", "END is not its last instruction, and only that")
    loops = begin[opcode[begin] == REPEAT]
    return _without_loops(words, begin, loops.tolist()) if len(loops) else (words, begin)


def _without_loops(words: Ints, begin: Ints, loops: list[int]) -> tuple[Ints, Ints]:
    first = np.zeros(len(words), bool)
    first[begin] = True
    moves = _movable(words, begin)
    heads = [words[end : end + 5].tolist() for end in loops]
    for end, (_, count, length, iteration, _) in zip(loops, heads, strict=True):
        if not (count >= 2 and 0 < length <= end and first[end - length] and iteration == 0):
            refuse("stream", f"the loop that ends at word {end} is none")
    behind = [end + 5 + 2 * head[4] for end, head in zip(loops, heads, strict=True)]
    starts = [end - head[2] for end, head in zip(loops, heads, strict=True)]
    cuts = sorted({0, *starts, *loops, *behind, len(words)})
    straight = [(low, high) for low, high in pairwise(cuts) if high not in behind]
    # pieces in order: its words in the file, the word that each of its words comes from, its words
    pieces: list[tuple[int, int, Ints, Ints]] = []
    for end, after, start, (_, count, length, _, n) in zip(
        loops, behind, starts, heads, strict=True
    ):
        while straight and straight[0][1] <= end:
            low, high = straight.pop(0)
            pieces.append((low, high, np.arange(low, high), words[low:high]))
        which, steps = words[end + 5 : after].reshape(n, 2).T
        inside = (0 <= which) & (which < length)
        if not (inside & moves[start + which % length]).all() or len({*which.tolist()}) < n:
            refuse("stream", f"the loop that ends at word {end} changes what it may not")
        if (abs(steps) > 1 << 46).any():
            refuse("stream", f"the loop that ends at word {end} has impossible steps")
        inner = [piece for piece in pieces if piece[1] > start]
        del pieces[len(pieces) - len(inner) :]
        if inner[0][0] < start:
            refuse("stream", f"the loop that ends at word {end} begins inside of another")
        origin, values = (np.concatenate([piece[i] for piece in inner]) for i in (2, 3))
        if count * len(values) > _MOST_WORDS:
            refuse("stream", f"the loop that ends at word {end} is too long")
        added = np.zeros(length, np.int64)
        added[which] = steps
        turns = values + np.arange(count)[:, None] * added[origin - start]
        pieces.append((start, after, np.tile(origin, count), turns.ravel()))
    pieces += [(low, high, np.arange(low, high), words[low:high]) for low, high in straight]
    origin, values = (np.concatenate([piece[i] for piece in pieces]) for i in (2, 3))
    return values, np.flatnonzero(first[origin])


def _movable(words: Ints, begin: Ints) -> np.ndarray:
    """(words,): what a loop may change: events, counts of waits, first tasks and offsets."""
    found = np.zeros(len(words), bool)
    runs = begin[words[begin] == RUN]
    pairs = words[runs + 5]
    found[runs + 2] = True
    found[np.repeat(runs, pairs) + 7 + 2 * ramp(pairs)] = True
    for code, number in ((WAIT, 1), (WAIT, 2), (SIGNAL, 1)):
        found[begin[words[begin] == code] + number] = True
    return found
