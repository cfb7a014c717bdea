"""When each RUN of a launch began and ended: written by the threads of a model that is timed."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from rcompiler.runtime import tables
from rcompiler.runtime.memory import address, arena
from rcompiler.runtime.schedule import Schedule

_RUN_BYTES = 16


class Stamps:
    """The clock readings of the last launch of one schedule."""

    def __init__(self, schedule: Schedule) -> None:
        """Raises DeviceError when there is no memory."""
        self._runs = []
        self._words = []
        for names, stream in zip(schedule.operators, schedule.streams, strict=True):
            steps = tables.instructions(stream)
            firsts = [operands[1] for _, opcode, operands in steps if opcode == tables.RUN]
            self._runs.append(list(zip(names, firsts, strict=True)))
            words = arena(max(1, len(names)) * _RUN_BYTES, "times of the runs")
            self._words.append(words.view(np.int64).reshape(-1, 2))
        self._began = 0

    def addresses(self) -> list[int]:
        """Where each thread writes."""
        return [address(words) for words in self._words]

    def start(self, launch: Callable[[int | bytes], int], bases: int | bytes) -> int:
        """Run a launch; its times count from here."""
        self._began = time.monotonic_ns()
        return launch(bases)

    def columns(self) -> dict[str, list[Any]]:
        """operator, first (rTask), eu (thread), start_ns, end_ns: an entry for each RUN."""
        rows = [
            (operator, first, eu, int(begin) - self._began, int(end) - self._began)
            for eu, (runs, words) in enumerate(zip(self._runs, self._words, strict=True))
            for (operator, first), (begin, end) in zip(runs, words, strict=False)
        ]
        names = ("operator", "first", "eu", "start_ns", "end_ns")
        return {name: [row[i] for row in rows] for i, name in enumerate(names)}
