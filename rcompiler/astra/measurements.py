"""What was measured by mangled key, and which of it is believed.

A time is believed when two runs, taken apart from one another, agree. One run alone, or runs that
differ, decide nothing. What failed is never tried again.

Times are ratios: of a candidate to the incumbent that ran beside it. Nanoseconds of one day are no
nanoseconds of another.
"""

import math
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from rcompiler.astra.variables import WHOLE, Plan, mangled

AGREE = 0.03  # relative: runs that differ by no more than this are one time
KEPT = 4  # last runs of a key


class Measurements:
    """Runs of each key, the latest ones."""

    def __init__(self) -> None:
        self._runs: dict[str, list[float]] = {}
        self._used: set[str] = set()  # keys that were asked for, or added

    def add(self, key: str, runs: Iterable[float]) -> None:
        """Note runs, apart in time. Raises ValueError for what is no time."""
        found = [*runs]
        if any(not 0 < run < math.inf for run in found):
            raise ValueError(f"no time of a run: {found}")
        self._used.add(key)
        if not self.failed(key) and found:
            self._runs[key] = [*self._runs.get(key, ()), *found][-KEPT:]

    def fail(self, key: str) -> None:
        """What this is the time of has stopped, or thrown: nobody shall try it again."""
        self._runs[key] = [math.inf]

    def failed(self, key: str) -> bool:
        """Whether it was dropped for good."""
        return self._runs.get(key) == [math.inf]

    def forget(self) -> None:
        """The machine is another one than it was: what was asked for or added here is no time of
        it. What failed stays so."""
        for key in self._used:
            if not self.failed(key):
                self._runs.pop(key, None)

    def trusted(self, key: str) -> float | None:
        """The mean of the latest two runs that agree; infinity for what failed; None for none."""
        self._used.add(key)
        runs = self._runs.get(key, [])
        if self.failed(key):
            return math.inf
        for late in range(len(runs) - 1, 0, -1):
            for early in range(late - 1, -1, -1):
                low, high = sorted((runs[early], runs[late]))
                if high <= (1 + AGREE) * low:
                    return (low + high) / 2
        return None

    def items(self) -> Iterator[tuple[str, tuple[float, ...]]]:
        """All keys with their runs, sorted by key."""
        for key in sorted(self._runs):
            yield key, tuple(self._runs[key])


@dataclass(frozen=True)
class Known:
    """What a tree is settled with.

    times: of all keys. environment: a part of each key: machine, version of the code, bucket of
    shapes. incumbent: the plan that times are ratios to. margin: a gain over the first choice that
    is worth a change.
    """

    times: Measurements
    environment: str
    incumbent: Plan = field(default_factory=dict)
    margin: float = 0.0

    def beside(self, scope: str, names: Collection[str]) -> str:
        """The environment, with what the incumbent has chosen where a ratio depends on it.

        The time of a scope in the incumbent is a matter of the variables that the time of this
        scope depends on: what another segment does is no part of it, and may change. That of the
        whole model is a matter of all of them; so is that of a scope that the incumbent has not,
        which is compared with its whole.

        names: variables that the time of the scope depends on.
        """
        if not self.incumbent:
            return self.environment
        local = scope != WHOLE and all(name in self.incumbent for name in names)
        if local:
            return mangled([self.environment, *(self.incumbent[name] for name in names)])
        items = [text for item in sorted(self.incumbent.items()) for text in item]
        return mangled([self.environment, "", *items])
