"""Which runs are over before which, in every execution: the certificate, checked step by step.

An EU goes through segments: waits, then runs and signals. The certificate says of each segment the
turn in which it can be executed, and of each EU how many runs are over when it begins. Both are
checked where they stand:

- turns grow along an EU; before a wait's turn, as many signals have come as it waits for. So one
  execution comes to its end; signals only add up, so all do.
- what is said to be over is known from the segment before, or from what waits bring: for n of m
  signals what the n-th smallest knows, EU by EU, whichever n come; for all of them what any knows.
  The first false claim of an execution would have had true reasons.

Of a dynamic program the queues are the streams, and nobody knows who takes which. They stand in
lines, and the certificate must show of each but the first that the one before it is over. Turns
grow along all of them: so one EU could take all, and so can more, as the first queue that is not
over waits for nothing.
"""

from typing import Any

import numpy as np

from rcompiler.checker.facts import MOST, Bools, Facts, Ints, distinct, forbid, within
from rcompiler.checker.streams import RUN, SIGNAL, WAIT, Instructions

_MOST, _AT_ONCE = 1 << 28, 1 << 9  # clocks; rows compared, so that a cache holds them


class Order:
    """line, place, turn: (runs,) of each run: its line, how many runs of all launches are before it
    there, and the turn of its segment; program: (runs,) its launch; runs: which instructions they
    are.
    """

    def __init__(self, facts: Facts, steps: Instructions) -> None:
        opcode, self._thread, wait = steps.code, steps.thread, steps.code == WAIT
        self._signals, waits, runs = (np.flatnonzero(opcode == c) for c in (SIGNAL, WAIT, RUN))
        opens = wait & np.diff(wait, prepend=False) | (np.diff(self._thread, prepend=-1) > 0)
        # of instructions, and the first one of each
        self._segment, self._first = np.cumsum(opens) - 1, np.flatnonzero(opens)
        self._stand_in_lines(facts, opcode == RUN)
        size = len(self._first), 1 + self._bases.shape[1]
        wrong = facts.clocks.shape != size or len(runs) * size[1] > _MOST
        wrong |= self._place.max(initial=0) >= np.iinfo(facts.clocks.dtype).max
        forbid(wrong, "clocks", "the certificate is not of this schedule")
        self._when = facts.clocks[self._segment, 0].astype(np.int64)  # turn of each instruction
        self._claims = facts.clocks[:, 1:]
        self._number_events(steps, waits)
        self._check_turns(facts.dynamic)
        self._check_clocks()
        self.line, self.place, self.program = self._line[runs], self._place[runs], self._of[runs]
        self.turn, self.runs = self._when[runs], runs

    def before(self, one: Ints, two: Ints) -> Bools:
        """Whether runs are over, always, before others start."""
        line, start = self.line[one], self._claims[self._segment[self.runs[two]], self.line[one]]
        return np.where(line == self.line[two], self.place[two], start) > self.place[one]

    def smallest(self, at: Ints, begin: Ints, sizes: Ints, nth: Ints) -> Ints:
        """(groups, lines) what is over at some instructions, see `raise_to`."""
        found = np.zeros_like(self._claims, shape=(len(begin), self._claims.shape[1]))
        raise_to(found, np.arange(len(found)), self._known, at, begin, sizes, nth)
        return found

    def _known(self, at: Ints) -> Ints:
        """(instructions, lines) what is over when some instructions are executed: what is claimed
        of their segments, and of their own lines what is before them there.
        """
        found = self._claims[self._segment[at]]
        found[np.arange(len(at)), self._line[at]] = self._place[at]
        return found

    def _stand_in_lines(self, facts: Facts, run: Bools) -> None:
        """Count runs along lines: before each instruction, and before each launch."""
        within(facts.streams[:, 2], len(facts.streams), "notes", "a stream stands in no line")
        _, of, line = facts.streams.T
        # fewer than 2 ** 15 launches, so that events stay exact in int64
        size = len(facts.dynamic), line.max(initial=-1) + 1
        forbid(size[0] * max(size[1], 1 << 9) > _MOST >> 4, "notes", "the streams are too many")
        self._line, self._of = line[self._thread], of[self._thread]
        sort, runs = np.lexsort([line]), np.bincount(self._thread[run], None, len(line))
        before = (np.cumsum(runs[sort]) - runs[sort])[np.argsort(sort)]
        before -= before[sort[np.searchsorted(line[sort], line)]]
        self._place = np.cumsum(run) - run + (before - np.cumsum(runs) + runs)[self._thread]
        own = np.bincount(of * size[1] + line, runs, size[0] * size[1]).reshape(size).astype(int)
        self._bases = np.cumsum(own, axis=0) - own

    def _number_events(self, steps: Instructions, waits: Ints) -> None:
        """Signals by event and turn, and waits; events numbered through all launches."""
        both = np.append(self._signals, waits)
        event = steps.words[steps.begin[both] + 1] + 2 * MOST * self._of[both]
        event = np.unique(event, return_inverse=True)[1]
        own = event[: len(self._signals)]
        self._signals = self._signals[np.lexsort((self._when[self._signals], own))]
        total = np.bincount(own, minlength=int(event.max(initial=-1)) + 1)
        waited, count = event[len(own) :], steps.words[steps.begin[waits] + 2]
        forbid((count < 1) | (count > total[waited]), "deadlock", "a wait is for too many signals")
        # what is waited for, as groups of signals, and which of it each wait brings
        each, self._brings = np.unique(waited * len(own) + count - 1, return_inverse=True)
        event, nth = divmod(each, len(own))
        self._waits, self._groups = waits, ((np.cumsum(total) - total)[event], total[event], nth)

    def _check_turns(self, dynamic: Bools) -> None:
        when = self._when[self._signals[self._groups[0] + self._groups[2]]][self._brings]
        forbid(when >= self._when[self._waits], "deadlock", "a wait has late signals")
        who = np.where(dynamic[self._of], -1 - self._of, self._thread)[self._first]
        back = (np.diff(who) == 0) & (np.diff(self._when[self._first]) <= 0)
        forbid(back, "deadlock", "the turns of an EU do not grow")

    def _check_clocks(self) -> None:
        first, segments = self._first, np.arange(len(self._first))
        thread, line = self._thread[first], self._line[first]
        known = self._bases.astype(self._claims.dtype)[self._of[first]]
        follows = np.flatnonzero(thread[1:] == thread[:-1]) + 1
        known[follows] = self._claims[follows - 1]
        at, begin, size = np.unique(self._segment[self._waits], True, return_counts=True)
        found = self.smallest(self._signals, *self._groups)
        raise_to(known, at, found.__getitem__, self._brings, begin, size, size - 1)
        behind = known[segments, line] >= self._place[np.searchsorted(self._thread, thread)]
        known[segments, line] = self._place[first]
        forbid(self._claims > known, "clocks", "what is said to be over nobody knows")
        forbid(~behind, "clocks", "the streams of a line are not known to follow one another")


def raise_to(to: Ints, at: Ints, rows: Any, of: Ints, begin: Ints, sizes: Ints, nth: Ints) -> None:
    """Raise rows `at` (groups,) of a table `to` (n, lines) to what is, line by line, the n-th
    smallest (from 0) of each group of other rows. rows: gives those of some numbers, (numbers,
    lines); of: the numbers of all groups, one group behind the other; begin, sizes, nth: (groups,).
    """
    for kind in distinct(sizes * _MOST + nth).tolist():
        size, n = divmod(kind, _MOST)
        every, end = np.flatnonzero((sizes == size) & (nth == n)), {0: np.min, size - 1: np.max}
        for some in np.array_split(every, 1 + len(every) * size // _AT_ONCE):
            own = rows(of[begin[some] + np.arange(size)[:, None]].reshape(-1))
            own = own.reshape(size, len(some), own.shape[1])
            low = end[n](own, 0) if n in end else np.partition(own, n, axis=0)[n]
            to[at[some]] = np.maximum(to[at[some]], low)
