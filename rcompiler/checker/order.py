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

import numpy as np

from rcompiler.checker.facts import MOST, Bools, Facts, Ints, forbid, within
from rcompiler.checker.streams import RUN, SIGNAL, WAIT, Steps

_MOST, _MOST_LAUNCHES = 1 << 28, 1 << 15  # clocks, and so that events stay exact in int64


class Order:
    """line, place, turn: (runs,) of each run: its line, how many runs of all launches are before it
    there, and the turn of its segment; program: (runs,) its launch; clocks: (runs, lines) what is
    over when it starts.
    """

    def __init__(self, facts: Facts, steps: Steps) -> None:
        opcode, self._thread = steps.code, steps.thread
        self._signals, waits, runs = (np.flatnonzero(opcode == c) for c in (SIGNAL, WAIT, RUN))
        opens = (opcode == WAIT) & (np.append(RUN, opcode[:-1])[: len(opcode)] != WAIT)
        opens[np.searchsorted(self._thread, self._thread)] = True
        self._segment = np.cumsum(opens) - 1
        self._first = np.flatnonzero(opens)  # instruction of each segment
        self._stand_in_lines(facts, opcode == RUN)
        size = len(self._first), 1 + self._bases.shape[1]
        wrong = facts.clocks.shape != size or len(runs) * size[1] > _MOST
        forbid(wrong, "clocks", "the certificate is not of this schedule")
        self._when = facts.clocks[self._segment, 0]  # turn of each instruction
        # claims that cannot be are others, to be checked like any
        small = np.uint16 if len(runs) < 1 << 16 else np.int32
        self._claims = facts.clocks[:, 1:].clip(0, len(runs)).astype(small, order="C")
        self._number_events(steps, waits)
        self._check_turns(facts.dynamic)
        self._check_clocks()
        self.line, self.place, self.program = self._line[runs], self._place[runs], self._of[runs]
        self.turn, self.clocks = self._when[runs], self._claims[self._segment[runs]]
        self.clocks[np.arange(len(runs)), self.line] = self.place

    def before(self, one: Ints, two: Ints) -> Bools:
        """Whether runs are over, always, before others start."""
        return self.clocks[two, self.line[one]] > self.place[one]

    def _stand_in_lines(self, facts: Facts, run: Bools) -> None:
        """Count runs along lines: before each instruction, and before each launch."""
        within(facts.streams[:, 2], len(facts.streams), "notes", "a stream stands in no line")
        _, self._of, line = facts.streams[self._thread].T
        size = len(facts.dynamic), facts.streams[:, 2].max(initial=-1) + 1
        wrong = size[0] > _MOST_LAUNCHES or size[0] * size[1] > _MOST >> 4
        forbid(wrong, "notes", "the streams are too many")
        sort = np.argsort(line, kind="stable")
        before: Ints = np.cumsum(run[sort]) - run[sort]
        self._line, self._place = line, np.empty_like(line)
        self._place[sort] = before - before[np.searchsorted(line[sort], line[sort])]
        runs = np.bincount(self._of[run] * size[1] + line[run], minlength=size[0] * size[1])
        self._bases = np.cumsum(runs.reshape(size), axis=0) - runs.reshape(size)

    def _number_events(self, steps: Steps, waits: Ints) -> None:
        """Signals by event and turn, and waits; events numbered through all launches."""
        both = np.append(self._signals, waits)
        event = steps.words[steps.begin[both] + 1] + 2 * MOST * self._of[both]
        event = np.unique(event, return_inverse=True)[1]
        own = event[: len(self._signals)]
        self._signals = self._signals[np.lexsort((self._when[self._signals], own))]
        total = np.bincount(own, minlength=int(event.max(initial=-1)) + 1)
        waited, count = event[len(own) :], steps.words[steps.begin[waits] + 2]
        self._waits, self._count, self._waited = waits, count, waited
        forbid((count < 1) | (count > total[waited]), "deadlock", "a wait is for too many signals")
        self._total, self._from = total, np.cumsum(total) - total

    def _check_turns(self, dynamic: Bools) -> None:
        last = self._signals[self._from[self._waited] + self._count - 1]
        forbid(self._when[last] >= self._when[self._waits], "deadlock", "a wait has late signals")
        who = np.where(dynamic[self._of], -1 - self._of, self._thread)[self._first]
        turn = self._when[self._first]
        back = (who[1:] == who[:-1]) & (turn[1:] <= turn[:-1])
        forbid(back, "deadlock", "the turns of an EU do not grow")

    def _check_clocks(self) -> None:
        first, segments = self._first, np.arange(len(self._first))
        thread, line = self._thread[first], self._line[first]
        known = self._bases.astype(self._claims.dtype)[self._of[first]]
        follows = np.flatnonzero(thread[1:] == thread[:-1]) + 1
        known[follows] = self._claims[follows - 1]
        waits = self._segment[self._waits]
        segment, begin, size = np.unique(waits, return_index=True, return_counts=True)
        found, which = self._bring()
        brought = smallest(found, which, begin, size, size - 1)
        known[segment] = np.maximum(known[segment], brought)
        behind = known[segments, line] >= self._place[np.searchsorted(self._thread, thread)]
        known[segments, line] = self._place[first]
        forbid(self._claims > known, "clocks", "what is said to be over nobody knows")
        forbid(~behind, "clocks", "the streams of a line are not known to follow one another")

    def _bring(self) -> tuple[Ints, Ints]:
        """(n, lines): what signals that are waited for know; (waits,): which row a wait brings."""
        says = self._claims[self._segment[self._signals]]
        says[every := np.arange(len(says)), self._line[self._signals]] = self._place[self._signals]
        each, which = np.unique(self._waited * len(says) + self._count - 1, return_inverse=True)
        event, last = divmod(each, len(says))
        return smallest(says, every, self._from[event], self._total[event], last), which


def smallest(rows: Ints, order: Ints, begin: Ints, sizes: Ints, which: Ints) -> Ints:
    """Of groups in an order of rows, column by column, the smallest number, the second or so."""
    found = np.empty((len(begin), rows.shape[1]), rows.dtype)
    for size, n in {*zip(sizes.tolist(), which.tolist(), strict=True)}:
        some = np.flatnonzero((sizes == size) & (which == n))
        own, end = rows[order[begin[some, None] + np.arange(size)]], {0: np.min, size - 1: np.max}
        found[some] = end[n](own, 1) if n in end else np.partition(own, n, axis=1)[:, n]
    return found
