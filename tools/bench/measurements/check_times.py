"""What checking the certificate of compiled files takes, beside the rest of loading them.

    python tools/bench check_times *.rcx

CPU seconds, the best of several rounds. "too long" marks files whose check takes more than a tenth
of the rest of the load and 50 ms.
"""

from __future__ import annotations

import argparse
import gc
import time
from pathlib import Path

import rcompiler
from rcompiler.driver.certified import prove
from rcompiler.runtime.artifact import Artifact
from rcompiler.tools._command import Command
from rcompiler.tools._console import table

_ROUNDS = 9
_FREE_S, _SHARE = 0.05, 0.1


def _run(options: argparse.Namespace) -> int:
    """Exit code 1: a check takes too long or a file is refused."""
    rows = []
    for path in map(Path, options.files):
        checked, loaded = times(path)
        slow = checked > _FREE_S + _SHARE * (loaded - checked)
        rows.append((path.name, f"{loaded:.3f}", f"{checked:.3f}", "too long" if slow else ""))
    table(("file", "load s", "of it check s", ""), rows)
    return 1 if any(row[-1] for row in rows) else 0


def times(path: Path) -> tuple[float, float]:
    """CPU seconds of the check, and of loading the file with it."""
    artifact = Artifact.load(path)
    checked = loaded = float("inf")
    for _ in range(_ROUNDS):
        gc.collect()
        start = time.process_time()
        prove(artifact)
        middle = time.process_time()
        rcompiler.load(path).close()
        checked = min(checked, middle - start)
        loaded = min(loaded, time.process_time() - middle)
    return checked, loaded


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE", help=".rcx files")


main = Command(__name__, __doc__, _options, _run)
