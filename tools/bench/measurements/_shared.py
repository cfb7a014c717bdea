"""What several measurements share: the choice of operators; what figures have to reach, and whether
they do, as lines to print and entries of a record.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

from rcompiler.errors import InvalidModel
from rcompiler.tools._console import pattern

_Case = TypeVar("_Case")
_Figure = TypeVar("_Figure", contravariant=True)


def operator_options(parser: argparse.ArgumentParser) -> None:
    """--only, --target and --clock."""
    parser.add_argument(
        "--only", type=pattern, default=pattern(""), metavar="REGEX",
        help="operators whose kind and name it occurs in; default: all",
    )  # fmt: skip
    parser.add_argument(
        "--target", default="cpu", metavar="NAME", help="cpu (default), cpu:v3 or cpu:x86-64"
    )
    parser.add_argument(
        "--clock", choices=("wall", "cpu"), default="cpu",
        help="cpu (default): time that the thread has a processor, so that other programs disturb "
        "less; all engines work in the calling thread",
    )  # fmt: skip


def chosen(
    cases: Iterable[_Case], only: re.Pattern[str], name: Callable[[_Case], str]
) -> list[_Case]:
    """The cases in whose name the pattern occurs. Raises InvalidModel where there is none."""
    found = [case for case in cases if only.search(name(case))]
    if not found:
        raise InvalidModel(f"--only={only.pattern}: no operator is so called")
    return found


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
