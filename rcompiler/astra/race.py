"""What pairs of launches prove under noise: a candidate beside the incumbent, again and again.

Measured on a shared machine with two bursty neighbours: means of ten samples are off by more than
3 % in 83 of 100 cases, lower quartiles of interleaved pairs that had their CPUs in none to two (the
notes to Astra, §3 E1). So: pairs that follow one another, their order flipped each time; those that
lacked a CPU do not count; the lower quartile of the ratios, twice, some time apart.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

Ratios = Mapping[str, float]  # scope -> time of the candidate / time of the incumbent


@dataclass(frozen=True)
class Rules:
    """least, most: pairs of a block; margin: a gain that is worth a change, and a loss that ends a
    block early."""

    least: int = 3
    most: int = 10
    margin: float = 0.03

    def __post_init__(self) -> None:
        if not 1 <= self.least <= self.most or not 0 <= self.margin < 1:
            raise ValueError(f"no rules of a race: {self}")


@dataclass
class Race:
    """Two blocks of pairs, see `between`: whoever adds pairs waits there.

    scopes: whose times judge the candidate; the others are the same plan. noise: how far equal
    plans seem to differ, by scope, see `noise_floor`; the margin is at least twice that. blocks: of
    each that is over the lower quartile of the ratios of each scope.
    """

    rules: Rules
    scopes: Collection[str]
    noise: Mapping[str, float] = field(default_factory=dict)
    blocks: list[Ratios] = field(default_factory=list)
    _pairs: list[Ratios] = field(default_factory=list)

    @property
    def done(self) -> bool:
        """Whether both blocks are over."""
        return len(self.blocks) >= 2

    @property
    def between(self) -> bool:
        """Whether the first block is over and the second has not begun."""
        return len(self.blocks) == 1 and not self._pairs

    def add(self, ratios: Ratios) -> None:
        """A pair that counts; of each of the scopes."""
        self._pairs.append({scope: ratios[scope] for scope in self.scopes})
        if len(self._pairs) >= self.rules.least and self._is_over():
            self.blocks.append({scope: quartile(self._column(scope)) for scope in self.scopes})
            self._pairs = []

    def runs(self, scope: str) -> tuple[float, float]:
        """The time of a scope, in times of the incumbent, as both blocks have it.

        What neither of them has as better by more than the margin is as good as the incumbent at
        most. Where only one has, they stay as they are, and prove nothing.
        """
        early, late = (block[scope] for block in self.blocks[:2])
        if min(early, late) < 1 - self._margin(scope):
            return early, late
        return max(early, 1.0), max(late, 1.0)

    def _is_over(self) -> bool:
        return len(self._pairs) >= self.rules.most or all(map(self._is_clear, self.scopes))

    def _is_clear(self, scope: str) -> bool:
        own, margin = self._column(scope), self._margin(scope)
        return quartile(own) > 1 + margin or quartile(own, upper=True) < 1 - 2 * margin

    def _margin(self, scope: str) -> float:
        return min(max(self.rules.margin, 2 * self.noise.get(scope, 0.0)), 0.4)

    def _column(self, scope: str) -> list[float]:
        return [pair[scope] for pair in self._pairs]


def quartile(values: Sequence[float], *, upper: bool = False) -> float:
    """The value that a quarter of them does not reach, or does not exceed: of up to four values the
    least, or the largest."""
    ordered = sorted(values, reverse=upper)
    return ordered[(len(ordered) - 1) // 4]


def noise_floor(pairs: Sequence[Ratios]) -> dict[str, float]:
    """How far equal plans seem to differ, by scope: lower quartiles of four pairs, from 1; their
    median.

    pairs: of the incumbent beside itself.
    """
    blocks = [pairs[at : at + 4] for at in range(0, len(pairs) - 3, 4)]
    return {
        scope: median(abs(quartile([pair[scope] for pair in block]) - 1) for block in blocks)
        for scope in (pairs[0] if blocks else ())
    }
