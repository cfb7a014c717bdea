"""Who is over before whom, in every execution: the certificate, checked step by step.

An EU goes through segments: a barrier or waits, then runs and signals. The certificate
says of each segment the turn in which it can be executed, and of each EU how many instructions are
over when its runs begin. Both are checked where they stand:

- turns grow along an EU; before a wait's turn, as many signals have come as it waits for; EUs meet
  at a barrier in one turn. So one execution comes to its end; signals only add up, so all do.
- what is said to be over is known from the segment before, or from what waits and barriers bring.
  A wait for all signals brings what any of them knows; one for n of m what the n-th smallest knows,
  EU by EU, whichever n come. The first false claim of an execution would have had true reasons.

Of a dynamic program the queues are the threads, and nobody knows who takes which. They stand in
lines, and the certificate must show of each but the first that the one before it is over.
"""

import zlib
from collections.abc import Sequence

import numpy as np

from rcompiler.checker.facts import Ints, Launch, refuse
from rcompiler.checker.streams import BARRIER, RUN, SIGNAL, WAIT, Steps

_MOST = 1 << 28  # numbers of a certificate


class Order:
    """line, place: (n,) of each instruction, counted along its line through all launches.

    segment: (n,); clocks: (segments, lines).
    """

    def __init__(self, launches: Sequence[Launch], steps: Steps, certificate: bytes) -> None:
        self._launches, self._steps = launches, steps
        self._threads()
        opcode, thread = steps.opcode, steps.thread
        opens = np.ones(len(opcode), bool)
        opens[1:] = (thread[1:] != thread[:-1]) | (opcode[1:] == BARRIER)
        opens[1:] |= (opcode[1:] == WAIT) & (opcode[:-1] != WAIT)
        self.segment = np.cumsum(opens) - 1
        self.first = np.flatnonzero(opens)  # instruction of each segment
        self.turn, self.clocks = _certificate(certificate, len(self.first), self.lines)
        self._own = self.line[self.first]
        self._check_turns()
        self._check_clocks()

    def before(self, one: Ints, two: Ints) -> np.ndarray:
        """Whether instructions are over, always, before others start."""
        line = self.line[one]
        known = self.clocks[self.segment[two], line]
        return np.where(line == self.line[two], self.place[two], known) > self.place[one]

    def thread_program(self, which: Ints) -> Ints:
        """Number of the launch of instructions."""
        return self.program[self._steps.thread[which]]

    def clock(self, which: Ints) -> np.ndarray:
        """(n, lines): what is over when these instructions start."""
        found = self.clocks[self.segment[which]]
        found[np.arange(len(which)), self.line[which]] = self.place[which]
        return found

    def _threads(self) -> None:
        """Number lines and places."""
        thread, runs = self._steps.thread, self._steps.opcode == RUN
        sizes = np.bincount(thread, minlength=sum(len(x.streams) for x in self._launches))
        place = np.arange(len(thread)) - (np.cumsum(sizes) - sizes)[thread]
        last = np.zeros(len(sizes), np.int64)  # end of the last run of each thread
        np.maximum.at(last, thread[runs], place[runs] + 1)
        base: list[int] = []  # instructions of each line so far
        bases: list[list[int]] = []
        # line, first place, and what must be over before it goes on with its line: the runs there
        rows: list[tuple[int, int, int, int]] = []
        for number, launch in enumerate(self._launches):
            queues = len(launch.streams)
            lines = list(launch.lines) if launch.taken_by else list(range(queues))
            if len(lines) != queues or not all(0 <= x < queues for x in lines):
                refuse("notes", f"program '{launch.name}': its queues are not in lines")
            base += [0] * (max(lines, default=-1) + 1 - len(base))
            bases.append(list(base))
            reached = list(base)
            for x in lines:
                queue = len(rows)
                rows.append((number, x, base[x], reached[x]))
                if last[queue]:
                    reached[x] = base[x] + int(last[queue])
                base[x] += int(sizes[queue])
        self.lines = len(base)
        self.program, line, first, self._needs = np.array(rows, np.int64).reshape(-1, 4).T
        padded = [own + [0] * (self.lines - len(own)) for own in bases]
        self._bases = np.array(padded, np.int64).reshape(len(bases), self.lines)
        self.line, self.place = line[thread], first[thread] + place

    def _signals(self) -> None:
        """Signals and waits by event, events numbered through all launches."""
        steps = self._steps
        self._all = [np.flatnonzero(steps.opcode == code) for code in (SIGNAL, WAIT, BARRIER)]
        signals, waits, _ = self._all
        both = np.concatenate([signals, waits])
        names, event = np.unique(steps.word(1, both), return_inverse=True)
        event = event.reshape(-1) + len(names) * self.program[steps.thread[both]]
        sort = np.lexsort((self.turn[self.segment[signals]], event[: len(signals)]))
        self._signal, self._event = signals[sort], event[: len(signals)][sort]
        self._waited = event[len(signals) :]
        self._total = np.bincount(self._event, minlength=int(event.max(initial=-1)) + 1)
        self._from = np.cumsum(self._total) - self._total
        self._count = steps.word(2, waits)

    def _check_turns(self) -> None:
        self._signals()
        _, waits, barriers = self._all
        thread = self._steps.thread[self.first]
        later = (thread[1:] == thread[:-1]) & (self.turn[1:] <= self.turn[:-1])
        if later.any():
            refuse("deadlock", "the turns of an EU do not grow")
        if (self._count < 0).any() or (self._count > self._total[self._waited]).any():
            refuse("deadlock", "a wait is for more signals than there are")
        needs = self._count > 0
        last = self._signal[self._from[self._waited[needs]] + self._count[needs] - 1]
        if (self.turn[self.segment[last]] >= self.turn[self.segment[waits[needs]]]).any():
            refuse("deadlock", "the signals of a wait come too late")
        dynamic = np.array([bool(launch.taken_by) for launch in self._launches], bool)
        if dynamic[self.program[self._steps.thread[barriers]]].any():
            refuse("deadlock", "EUs that take queues meet in no barrier")
        # one EU alone takes the queues in their order
        order = np.lexsort((self._signal, self._event))
        nth = self._signal[order][self._from[self._waited[needs]] + self._count[needs] - 1]
        mine = dynamic[self.program[self._steps.thread[last]]]
        if (nth[mine] > waits[needs][mine]).any():
            refuse("deadlock", "a queue waits for one that is taken later")

    def _check_clocks(self) -> None:
        steps, first, own = self._steps, self.first, self._own
        segments = np.arange(len(first))
        thread = steps.thread[first]
        known = self._bases[self.program[thread]].astype(np.int32)
        follows = np.flatnonzero(thread[1:] == thread[:-1]) + 1
        known[follows] = self.clocks[follows - 1]
        starts = self._needs[thread]
        own_known = self.clocks[segments, own] >= starts  # that its line is over before it
        self._meet(known)
        self._bring(known, own_known)
        # the place behind the waits: where the runs of the segment begin
        opcode = steps.opcode
        blocks = np.concatenate([[0], np.cumsum((opcode == WAIT) | (opcode == BARRIER))])
        ends = np.append(first[1:], len(opcode))
        here = self.place[first] + (blocks[ends] - blocks[first])
        mine = known[segments, own]
        known[segments, own] = np.where(mine >= starts, np.maximum(mine, here), mine)
        if (self.clocks > known).any():
            refuse("clocks", "the certificate says that something is over which nobody knows")
        if not own_known[self.segment[opcode == RUN]].all():
            refuse("clocks", "the queues of a line are not known to come after one another")

    def _meet(self, known: np.ndarray) -> None:
        """Barriers: what any EU of the program knows when it arrives."""
        barriers = self._all[2]
        if not len(barriers):
            return
        thread = self._steps.thread[barriers]
        number = np.arange(len(thread)) - np.searchsorted(thread, thread)  # of those of its EU
        key = self.program[thread] * len(thread) + number
        sort = np.argsort(key, kind="stable")
        met, new, sizes = np.unique(key[sort], return_index=True, return_counts=True)
        eus = np.array([len(launch.streams) for launch in self._launches], np.int64)
        if (sizes != eus[met // len(thread)]).any():
            refuse("deadlock", "not all EUs meet at a barrier")
        segment = self.segment[barriers[sort]]
        arrive = known[segment]
        arrive[np.arange(len(sort)), self.line[barriers[sort]]] = self.place[barriers[sort]]
        turn = self.turn[segment]
        if (turn != np.repeat(turn[new], sizes)).any():
            refuse("deadlock", "EUs meet at a barrier in different turns")
        known[segment] = np.repeat(np.maximum.reduceat(arrive, new, axis=0), sizes, axis=0)

    def _bring(self, known: np.ndarray, own_known: np.ndarray) -> None:
        """Waits: what their signals know."""
        waits, signals = self._all[1], self._signal
        if not len(signals) or not len(waits):
            return
        segment = self.segment[signals]
        says = self.clocks[segment]
        rows = np.flatnonzero(own_known[segment])
        says[rows, self.line[signals[rows]]] = self.place[signals[rows]]
        full = (self._count == self._total[self._waited]) & (self._count > 0)
        joined, _ = _largest(says, self._event)
        row = np.cumsum(self._total > 0) - 1
        target = self.segment[waits[full]]
        brought, target = _largest(joined[row[self._waited[full]]], target)
        known[target] = np.maximum(known[target], brought)
        for wait in np.flatnonzero(~full & (self._count > 0)).tolist():
            event, count = self._waited[wait], self._count[wait]
            low = self._from[event]
            nth = np.partition(says[low : low + self._total[event]], count - 1, axis=0)[count - 1]
            row_of = self.segment[waits[wait]]
            known[row_of] = np.maximum(known[row_of], nth)


def _largest(rows: np.ndarray, group: Ints) -> tuple[np.ndarray, Ints]:
    """Of neighbours of one group the maximum of each column, and the groups.

    Pair by pair: numpy's reduceat takes several times as long for small groups of long rows.
    """
    while (group[1:] == group[:-1]).any():
        first = np.append(True, group[1:] != group[:-1])
        place = np.arange(len(group))
        odd = (place - np.maximum.accumulate(np.where(first, place, 0))) % 2 == 1
        before = np.flatnonzero(odd[1:])
        kept = before - np.cumsum(odd)[before]
        rows, later = rows[~odd], rows[odd]
        rows[kept] = np.maximum(rows[kept], later)
        group = group[~odd]
    return rows, group


def _certificate(data: bytes, segments: int, lines: int) -> tuple[Ints, np.ndarray]:
    """(turns, clocks): rows of int32 (turn, clock of each line), as differences, compressed."""
    size = 4 * segments * (lines + 1)
    if size > _MOST:
        refuse("clocks", "the certificate is too large")
    unpacker = zlib.decompressobj()
    try:
        raw = unpacker.decompress(data, size + 1)
    except zlib.error:
        refuse("clocks", "the certificate is damaged")
    if len(raw) != size or not unpacker.eof:
        refuse("clocks", "the certificate is not of this schedule")
    rows = np.frombuffer(raw, "<i4").reshape(lines + 1, segments)
    table = np.cumsum(rows, axis=1, dtype=np.int32)
    return table[0].astype(np.int64), np.ascontiguousarray(table[1:].T)
