"""Who waits for long work is told what is being done.

On a terminal one line says so, again and again in the same place; elsewhere (a file, a pipe) each
step is a line, once the work has taken so long that somebody may wonder. All of it goes to standard
error, by the thread that works: another one that draws would disturb what is measured.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

from rcompiler.tools._console import doing

PATIENCE_S = 1.0  # of somebody who reads a file or a pipe


class Progress:
    """Called with (step, seconds since the start), as compile_onnx does, or with what is done."""

    def __init__(self, prog: str) -> None:
        self._prog, self._start, self._last = prog, perf_counter(), ""

    def __call__(self, step: str, seconds: float | None = None) -> None:
        if step == self._last:
            return
        self._last = step
        seconds = perf_counter() - self._start if seconds is None else seconds
        if sys.stderr.isatty():
            doing(f"{self._prog}: {step} ({seconds:.0f} s)")
        elif seconds >= PATIENCE_S:
            print(f"{self._prog}: {step} ({seconds:.1f} s)", file=sys.stderr, flush=True)


@contextmanager
def progress(prog: str) -> Iterator[Progress]:
    """For one piece of work; what is printed afterwards finds an empty line."""
    try:
        yield Progress(prog)
    finally:
        if sys.stderr.isatty():
            print(end="\033[K", file=sys.stderr, flush=True)
