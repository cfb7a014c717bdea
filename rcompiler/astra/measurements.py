"""Measured times by mangled key, and which of them are believed.

A time is believed when two runs, taken apart from one another, agree. One run alone, or runs that
differ, only say what to try first. What failed is never tried again.
"""

import math
from collections.abc import Iterable, Iterator

AGREE = 0.03  # relative: runs that differ by no more than this are one time
_KEPT = 4  # last runs of a key


class Measurements:
    """Runs of each key, the latest ones."""

    def __init__(self) -> None:
        self._runs: dict[str, list[float]] = {}

    def add(self, key: str, runs: Iterable[float]) -> None:
        """Note runs of ns, apart in time. Raises ValueError for what is no time."""
        found = [*runs]
        if any(not 0 < run < math.inf for run in found):
            raise ValueError(f"no time of a run: {found}")
        if self.failed(key) or not found:
            return
        self._runs[key] = [*self._runs.get(key, ()), *found][-_KEPT:]

    def fail(self, key: str) -> None:
        """What this is the time of has stopped, or thrown: nobody shall try it again."""
        self._runs[key] = [math.inf]

    def failed(self, key: str) -> bool:
        """Whether it was dropped for good."""
        return self._runs.get(key) == [math.inf]

    def trusted(self, key: str) -> float | None:
        """The mean of the latest two runs that agree; infinity for what failed; None for none."""
        runs = self._runs.get(key, [])
        if self.failed(key):
            return math.inf
        for late in range(len(runs) - 1, 0, -1):
            for early in range(late - 1, -1, -1):
                low, high = sorted((runs[early], runs[late]))
                if high <= (1 + AGREE) * low:
                    return (low + high) / 2
        return None

    def prior(self, key: str) -> float | None:
        """The last run, believed or not: it orders candidates, and decides nothing."""
        runs = self._runs.get(key)
        return runs[-1] if runs else None

    def items(self) -> Iterator[tuple[str, tuple[float, ...]]]:
        """All keys with their runs, sorted by key."""
        for key in sorted(self._runs):
            yield key, tuple(self._runs[key])
