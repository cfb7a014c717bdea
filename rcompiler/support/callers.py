"""Where warnings point to: the line of who called this package."""

from __future__ import annotations

import sys

_PACKAGE = __name__.partition(".")[0]


def callers_level() -> int:
    """`stacklevel` of a warning, given by the function that calls this, so that it names the first
    function outside of the package; of tools of ours the outermost one.
    """
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] != _PACKAGE:
            break
        level, frame = level + 1, frame.f_back
    return level
