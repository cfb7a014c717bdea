"""Cases of which each commit tests a part, in turn: all of them take more time than checks have.

RC_TURNS=all tests all of them. Without a checkout all are tested, too.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

from rcompiler.tools._record import commit

_T = TypeVar("_T")


def turn_of(cases: Iterable[_T], turns: int) -> list[_T]:
    """Those of the cases that are tested, see `in_turn`."""
    found = [*cases]
    return [found[number] for number in in_turn(len(found), turns)]


def in_turn(count: int, turns: int) -> range:
    """Those of the numbers below `count` that are tested: every `turns`-th, from one on that the
    hash of the commit says, so that all who test it test the same.
    """
    found = None if os.environ.get("RC_TURNS") == "all" else commit(Path(__file__).parent)
    return range(count) if found is None else range(int(found[:8], 16) % turns, count, turns)
