"""Who waited for whom when a launch stopped: read from where every EU was and what was counted."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from rcompiler.runtime import tables
from rcompiler.runtime.loops import executed, iterations, lines, parse
from rcompiler.runtime.thread_schedule import Stream, ThreadSchedule

Place = tuple[int, tuple[int, ...]]  # word of a stream, iterations of the loops around it


def at_word(
    schedule: ThreadSchedule, words: np.ndarray, positions: Sequence[int], eu: int
) -> tuple[Stream, Place]:
    """Where an EU is. positions: the word that each EU is at, counted from the start of its stream;
    words: of the schedule, as the EUs left them, because loops count in them.
    """
    piece, position = schedule.find(eu, positions[eu])
    stream = words[piece.start : piece.start + len(piece.stream)]
    turns = iterations(parse(piece.stream), position, stream)
    return piece, (position, tuple(turns))


def after_steps(schedule: ThreadSchedule, steps: Sequence[int], eu: int) -> tuple[Stream, Place]:
    """Where an EU is. steps: instructions that each EU has executed; jumps of loops are none."""
    piece = schedule.threads[eu]
    found: Place = (0, ())
    for line, index in islice(executed(parse(piece.stream)), steps[eu] + 1):
        found = line.position, index
    return piece, found


@dataclass(frozen=True)
class PostMortem:
    """A launch of `schedule` as it stopped.

    Attributes:
        place: what an EU was walking, and where in it.
        counts: how often each event was counted up, over all launches.
        before: launches before this one.
    """

    schedule: ThreadSchedule
    place: Callable[[int], tuple[Stream, Place]]
    counts: Sequence[int]
    before: int

    def at_event(self, eu: int, event: int, expected: int) -> str:
        """That an EU waits for a count of an event; `expected`: over all launches."""
        earlier = self._earlier(event)
        return (
            f"{self._where(eu)} signal {expected - earlier} of event "
            f"'{self.schedule.events[event]}', which came {self.counts[event] - earlier} times"
            f"{self._signallers(event)}"
        )

    def waits(self) -> list[str]:
        """What every EU waits for an event for, those that nobody is left to signal first."""
        found = []
        for eu in range(len(self.schedule.threads)):
            piece, place = self.place(eu)
            for line, index in executed(parse(piece.stream)):
                if (line.position, index) == place and line.opcode == tables.WAIT:
                    event, count = line.at(index)
                    expected = self._earlier(event) + count
                    if self.counts[event] < expected:
                        found.append((any(self._late(event)), self.at_event(eu, event, expected)))
        return [text for _, text in sorted(found, key=lambda pair: pair[0])]

    def at_barrier(self, eu: int, missing: int) -> str:
        """That an EU waits for `missing` others at a barrier."""
        return f"{self._where(eu)} {missing} more EU(s) at a barrier"

    def at_boxes(self, eu: int) -> str:
        """That an EU waits inside of an rTask for boxes of tensors that it has asked for."""
        return f"{self._where(eu)} a box of a tensor that it has asked for, in its rTask"

    def _where(self, eu: int) -> str:
        piece, (position, turns) = self.place(eu)
        queue = f" in queue {piece.queue}" if piece.queue >= 0 else ""
        turn = f", iteration {'.'.join(map(str, turns))}" if turns else ""
        near = _neighbours(piece, (position, turns))
        return f"EU {eu}{queue} at word {position}{turn}{near} waits for"

    def _earlier(self, event: int) -> int:
        """The count of an event at the start of the launch."""
        return self.before * self.schedule.totals[event]

    def _signallers(self, event: int) -> str:
        late = list(self._late(event))
        if late:
            return f" (still to come from {', '.join(late[:4])})"
        past = [
            f"EU {eu} at word {line.position}"
            for eu, piece in enumerate(self.schedule.threads)
            for line in lines(parse(piece.stream))
            if line.opcode == tables.SIGNAL and event in line.values(0)
        ]
        return " (nobody is left to" + (f": past is {', '.join(past[:4])})" if past else ")")

    def _late(self, event: int) -> Iterator[str]:
        """Who has not yet signalled an event, and where it will."""
        for who, piece, now in self._open():
            gone = False
            for line, index in executed(parse(piece.stream)):
                gone = gone or (line.position, index) == now
                if gone and line.opcode == tables.SIGNAL and line.at(index)[0] == event:
                    yield f"{who} at word {line.position}"

    def _open(self) -> Iterator[tuple[str, Stream, Place]]:
        """What is not over: whose it is, and from where on."""
        for eu, own in enumerate(self.schedule.threads):
            piece, now = self.place(eu)
            if piece is not own:
                yield f"EU {eu} in queue {piece.queue}", piece, now
                now = _take(own, piece.event)
            yield f"EU {eu}", own, now
        for piece in self.schedule.queues:
            if piece.queue >= self.counts[piece.event] - self._earlier(piece.event):
                yield f"queue {piece.queue}", piece, (0, ())


def _take(own: Stream, event: int) -> Place:
    """Where in its stream a thread is that runs one of the queues that this event counts."""
    for line in lines(parse(own.stream)):
        if line.opcode == tables.TAKE and line.operands[0] == event:
            return line.position, ()
    raise AssertionError(f"no thread takes queues of event {event}")


def _neighbours(piece: Stream, now: Place) -> str:
    names = piece.operators
    done = 0
    for line, index in executed(parse(piece.stream)):
        if (line.position, index) == now:
            break
        done += line.opcode == tables.RUN
    after = f"after operator '{names[done - 1]}'" if done else ""
    before = f"before operator '{names[done]}'" if done < len(names) else ""
    return f" ({', '.join(filter(None, (after, before)))})" if after or before else ""
