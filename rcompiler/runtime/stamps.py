"""When each RUN of a launch began and ended: written by the threads of a model that is timed."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from rcompiler.runtime import tables
from rcompiler.runtime.memory import address, arena
from rcompiler.runtime.thread_schedule import Stream, ThreadSchedule

_WORD = 8


class Stamps:
    """The clock readings of the last launch of one schedule."""

    def __init__(self, schedule: ThreadSchedule) -> None:
        """Raises DeviceError when there is no memory."""
        self._starts = [piece.start for piece in schedule.threads]
        self._own = [[run for _, run in _runs(piece)] for piece in schedule.threads]
        # of the queues, by word: any thread may run them, in any order
        self._queued = dict(run for piece in schedule.queues for run in _runs(piece))
        self._words = []
        self._places = []
        for own in self._own:
            room = max(1, len(own) + len(self._queued))
            words = arena(2 * room * _WORD, "times of the runs")
            self._words.append(words.view(np.int64).reshape(-1, 2)[:room])
            places = arena(room * _WORD, "places of the runs").view(np.int64)[:room]
            self._places.append(places)  # code that notes none has no queues
        self._began = 0

    def addresses(self) -> list[tuple[int, int]]:
        """Where each thread writes times and places."""
        return [
            (address(words), address(places))
            for words, places in zip(self._words, self._places, strict=True)
        ]

    def start(self, launch: Callable[[int | bytes], int], bases: int | bytes) -> int:
        """Run a launch; its times count from here."""
        for words in self._words:
            words[:, 0] = 0  # a thread need not run as much as the last time
        self._began = time.monotonic_ns()
        return launch(bases)

    def columns(self) -> dict[str, list[Any]]:
        """operator, first (rTask), eu (thread), start_ns, end_ns: an entry for each RUN."""
        rows = []
        for eu, start in enumerate(self._starts):
            own = iter(self._own[eu])
            times = zip(self._places[eu].tolist(), self._words[eu].tolist(), strict=True)
            for place, (begin, end) in times:
                if begin:
                    run = self._queued.get(start + place) or next(own)
                    rows.append((*run, eu, begin - self._began, end - self._began))
        names = ("operator", "first", "eu", "start_ns", "end_ns")
        return {name: [row[i] for row in rows] for i, name in enumerate(names)}


def _runs(piece: Stream) -> Iterator[tuple[int, tuple[str, int]]]:
    """Of each RUN of a piece, in order: its word in the block, and operator and first rTask."""
    names = iter(piece.operators)
    for place, opcode, operands in tables.instructions(piece.stream):
        if opcode == tables.RUN:
            yield piece.start + place, (next(names), operands[1])
