"""Benchmarks, conformance and experiments; none of it is installed.

Each module whose name begins with a letter is a command of `python tools/bench`.
"""

import sys
from pathlib import Path


def command(name: str, *arguments: str) -> list[str]:
    """What runs a measurement in a process of its own."""
    return [sys.executable, str(Path(__file__).parents[1]), name, *arguments]
