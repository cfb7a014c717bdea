"""How much work something is, counted: the same on each machine, whatever else it does."""

import sys
from collections.abc import Callable


def calls_in(work: Callable[[], object]) -> int:
    """How many functions are called by this thread while it does it, those in C included."""
    count = 0

    def counted(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count
