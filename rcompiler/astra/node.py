"""What a part of the update tree does; see `tree`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence

from rcompiler.astra.measurements import Known
from rcompiler.astra.variables import Plan, Variable

Runs = Mapping[str, Sequence[float]]  # scope -> runs, apart in time


class Node(ABC):
    """A part of the tree. Nothing of it is shared with another tree."""

    done: bool = False

    @property
    @abstractmethod
    def hopeless(self) -> bool:
        """Whether everything that was tried in some part of it has failed."""

    @abstractmethod
    def variables(self) -> Iterator[Variable]:
        """All of its variables."""

    @abstractmethod
    def names(self, plan: Plan) -> Iterator[str]:
        """Of its variables, in the branches that this plan takes."""

    @abstractmethod
    def trials(self) -> int:
        """How many there are where nothing is known."""

    @abstractmethod
    def judged(self) -> set[str]:
        """The scopes whose times judge the next trial."""

    @abstractmethod
    def default(self, plan: Plan) -> None:
        """Write the first choice of each variable that the plan lacks."""

    @abstractmethod
    def settle(self, plan: Plan, known: Known) -> None:
        """Pass over what is known under this plan; write what is pinned."""

    @abstractmethod
    def propose(self, plan: Plan) -> None:
        """Write the next trial; of a node that is done, what is pinned."""

    @abstractmethod
    def observe(self, plan: Plan, runs: Runs, known: Known) -> None:
        """Note the times of the trial that was proposed."""

    @abstractmethod
    def fail(self, plan: Plan, known: Known, scope: str | None) -> bool:
        """The trial failed in a scope, None for an unknown one: its choices are dropped.

        Returns:
            Whether there were any.
        """

    @abstractmethod
    def reset(self) -> None:
        """Begin anew; what was measured is found again."""


def noted(key: str, runs: Sequence[float], known: Known) -> float:
    """Note runs; the time that counts now. Runs that disagree prove nothing better than the worst
    of them; another tree will try it again."""
    known.times.add(key, runs)
    found = known.times.trusted(key)
    return max(runs) if found is None else found


def pinned(ratios: Sequence[float], start: int, margin: float) -> int:
    """The least; `start` where nothing is better than it by the margin."""
    best = min(range(len(ratios)), key=ratios.__getitem__)
    return best if ratios[best] < (1 - margin) * ratios[start] else start
