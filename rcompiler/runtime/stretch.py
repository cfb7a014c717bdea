"""What launches that came one after the other took, as `runtime.pace` compares them."""

from collections import deque
from statistics import fmean

OFF = 1.25  # a launch took so many times the caller's time on a CPU: it waited or was interrupted
_FEWEST = 3  # launches that say what a way of running is like
_RECENT = 256  # launches that are remembered


class Stretch:
    """Launches of one way of running. Times are in ns.

    Attributes:
        walls, cpus: by the clock, and those that the caller had a CPU; of the last launches.
        count, total: of all launches, by the clock.
    """

    def __init__(self) -> None:
        self.walls: deque[int] = deque(maxlen=_RECENT)
        self.cpus: deque[int] = deque(maxlen=_RECENT)
        self.count = self.total = 0

    def add(self, wall: int, cpu: int) -> None:
        """One more."""
        self.walls.append(wall)
        self.cpus.append(cpu)
        self.count += 1
        self.total += wall

    def lasts(self, ns: float) -> bool:
        """Whether they say what the way is like."""
        return self.count >= _FEWEST and self.total >= ns

    def mean(self) -> float:
        """Of the last ones."""
        return fmean(self.walls)

    def upper(self) -> int:
        """What nine of ten of the last ones stay below; of a few the largest."""
        return sorted(self.walls)[len(self.walls) * 9 // 10]

    def beats(self, other: "Stretch") -> bool:
        """By both measures: what a caller feels beside others is either."""
        return self.mean() < other.mean() and self.upper() < other.upper()

    def suffers(self) -> bool:
        """Whether others had the caller's CPU for a good part of the time."""
        return sum(self.walls) > OFF * sum(self.cpus)

    def lost(self, other: "Stretch") -> float:
        """ns that the other way would have saved."""
        return max(0.0, self.total - self.count * other.mean())
