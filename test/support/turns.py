"""Cases of which each commit tests a part, in turn: all of them take more time than checks have.

RC_TURNS=all tests all of them. Without a checkout all are tested, too.
"""

from __future__ import annotations

import os
from pathlib import Path

from rcompiler.tools._record import commit


def in_turn(count: int, turns: int) -> range:
    """Those of the numbers below `count` that are tested: every `turns`-th, from one on that the
    hash of the commit says, so that all who test it test the same.
    """
    found = None if os.environ.get("RC_TURNS") == "all" else commit(Path(__file__).parent)
    return range(count) if found is None else range(int(found[:8], 16) % turns, count, turns)
