"""A fixed piece of work: whether the machine is as fast as it was (Astra §4.4)."""

from __future__ import annotations

import time
from statistics import median

import numpy as np

_WORDS = 1 << 14  # of f32: both operands and the result fit into a core's own cache
_TIMES = 5
_REFERENCE = 5  # readings that say what is usual


class Anchor:
    """A clock frequency that changes, or a virtual machine that is given less, shows here, and in
    no other figure of a process.

    Some 30 microseconds a reading; nothing of the model is in it.
    """

    def __init__(self) -> None:
        self._one = np.linspace(0.5, 1.5, _WORDS, dtype=np.float32)
        self._sum = np.empty_like(self._one)
        self._first: list[int] = []

    def read(self) -> float:
        """Its time, in times of what it usually takes; 1 until that is known."""
        taken = []
        for _ in range(_TIMES):
            start = time.perf_counter_ns()
            np.multiply(self._one, self._one, out=self._sum)
            taken.append(time.perf_counter_ns() - start)
        least = max(min(taken), 1)
        if len(self._first) < _REFERENCE:
            self._first.append(least)
            return 1.0
        return least / median(self._first)
