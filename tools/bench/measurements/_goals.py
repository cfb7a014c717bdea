"""What figures have to reach, and whether they do: lines to print and entries of a record."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TypeVar

_Figure = TypeVar("_Figure", contravariant=True)


class Goal(Protocol[_Figure]):
    """str() says what it wants; the value has to be at least `least`."""

    @property
    def least(self) -> float: ...

    def value(self, figures: Sequence[_Figure]) -> float | None:
        """What was reached; None where nothing of it was measured."""


def reached(goals: Iterable[Goal[_Figure]], figures: Sequence[_Figure]) -> list[dict[str, Any]]:
    """Of each goal: goal, its text; value; met, None like the value where it was not measured."""
    found = []
    for goal in goals:
        value = goal.value(figures)
        met = None if value is None else value >= goal.least
        found.append({"goal": str(goal), "value": value, "met": met})
    return found


def print_goals(found: Iterable[dict[str, Any]]) -> None:
    """One line for each goal of `reached`."""
    for goal in found:
        value, met = goal["value"], goal["met"]
        text = "not measured" if value is None else f"{value:.3f}, {'met' if met else 'missed'}"
        print(f"goal: {goal['goal']}: {text}")
