"""Bandwidth that all EUs share: runs that ask for more than there is go on more slowly.

Max-min fair: a run that asks for no more than its EU's share gets it, the others divide the rest
and slow down alike. Those have a clock of their own, which runs at their speed, so that a change of
speed moves the end of all of them at once.
"""

import heapq
from math import inf

from rcompiler.errors import ScheduleError


class SharedLevel:
    """Runs in progress that touch a memory level of `bandwidth` GB/s (bytes/ns), None: no limit."""

    def __init__(self, bandwidth: float | None = None, eus: int = 1) -> None:
        if bandwidth is not None and not 0 < bandwidth < inf:
            raise ScheduleError(f"a bandwidth of {bandwidth!r} GB/s: give a number above 0")
        self._bandwidth, self._eus = bandwidth, eus
        self._now = self._clock = 0.0
        self._modest: list[tuple[float, int, float]] = []  # end, EU, demand
        self._hungry: list[tuple[float, int, float]] = []  # end on the clock, EU, demand
        self._used = self._asked = 0.0

    @property
    def running(self) -> bool:
        """Whether any run is in progress."""
        return bool(self._modest or self._hungry)

    @property
    def speed(self) -> float:
        """Of runs that ask for more than their share; 1 if there is enough."""
        if self._bandwidth is None or not self._hungry:
            return 1.0
        shares = self._bandwidth * len(self._hungry) / self._eus
        return min(1.0, max(self._bandwidth - self._used, shares) / self._asked)

    def limits(self, demand: float) -> bool:
        """Whether a run of that many bytes/ns takes part in the level."""
        return self._bandwidth is not None and demand > 0

    def start(self, now: float, eu: int, alone: float, demand: float) -> None:
        """A run begins that takes `alone` ns if nobody is in its way."""
        assert self._bandwidth is not None
        self.advance(now)
        if demand * self._eus <= self._bandwidth:
            self._used += demand
            heapq.heappush(self._modest, (now + alone, eu, demand))
        else:
            self._asked += demand
            heapq.heappush(self._hungry, (self._clock + alone, eu, demand))

    def next_end(self) -> float:
        """When the next run ends if none begins before."""
        modest = self._modest[0][0] if self._modest else inf
        hungry = self._hungry[0][0] - self._clock if self._hungry else inf
        return min(modest, self._now + hungry / self.speed)

    def finish(self) -> tuple[float, int]:
        """End the run that ends next: when, and its EU."""
        now = self.next_end()
        if self._modest and self._modest[0][0] <= now:
            self.advance(now)
            _, eu, demand = heapq.heappop(self._modest)
            self._used = max(0.0, self._used - demand) if self._modest else 0.0
        else:
            self.advance(now)
            _, eu, demand = heapq.heappop(self._hungry)
            self._asked = max(0.0, self._asked - demand) if self._hungry else 0.0
        return now, eu

    def advance(self, now: float) -> None:
        """Time goes on: no run has ended in between."""
        self._clock += (now - self._now) * self.speed
        self._now = now
