"""Whether a frozen plan has become slower, for good: a one-sided CUSUM of its times."""

from dataclasses import dataclass

SLOWER = 0.10  # what counts as slower
FOR = 200  # requests that long


@dataclass
class Drift:
    """usual_ns: of a launch, on a machine as fast as it is now (see the anchor of a sample)."""

    usual_ns: float
    _sum: float = 0.0

    def add(self, ns: float) -> bool:
        """Whether so many launches were so much slower that the plan must be looked at again.

        A launch counts at most twice its usual time: others who are in the way for a moment are no
        drift.
        """
        late = min(ns / self.usual_ns, 2.0) - 1 - SLOWER / 2
        self._sum = max(0.0, self._sum + late)
        return self._sum > FOR * SLOWER / 2
