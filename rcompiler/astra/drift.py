"""Whether a frozen plan has become slower, for good: a one-sided CUSUM of its times."""

from dataclasses import dataclass, field
from statistics import median

from rcompiler.astra.race import quartile

SLOWER = 0.10  # what counts as slower
FOR = 200  # requests that long
_BLOCK = 10  # requests of which the lower quartile counts: some are always disturbed
_REFERENCE = 5  # blocks that say what is usual


@dataclass
class Drift:
    """patience: so many times as long has it to be slower; what was looked at in vain is looked at
    more rarely.
    """

    patience: int = 1
    usual_ns: float = 0.0  # once it is known
    _block: list[float] = field(default_factory=list)
    _blocks: list[float] = field(default_factory=list)
    _sum: float = 0.0

    def add(self, ns: float) -> bool:
        """Whether so many launches were so much slower that the plan must be looked at again.

        ns: of a launch that had its CPUs, on a machine as fast as usual (see `Sample.anchor`). A
        block counts at most twice its usual time: others who are in the way for a moment are no
        drift.
        """
        self._block.append(ns)
        if len(self._block) < _BLOCK:
            return False
        least = quartile(self._block)
        self._block.clear()
        if not self.usual_ns:
            self._blocks.append(least)
            if len(self._blocks) == _REFERENCE:
                self.usual_ns = median(self._blocks)
            return False
        late = min(least / self.usual_ns, 2.0) - 1 - SLOWER / 2
        self._sum = max(0.0, self._sum + late)
        return self._sum > self.patience * FOR / _BLOCK * SLOWER / 2
