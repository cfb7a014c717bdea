"""The Python that worker processes are started with.

Usually that is `sys.executable`. Where Python is part of another program (uWSGI, an embedding host,
one file made by PyInstaller) that name is the program's: to start it would start a second service.
What is called like an interpreter is believed to be one; an environment is asked for the one that
it was made with, which has to say that it is of this version and finds what compiling needs.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

_NAME = re.compile(r"(python|pypy)[\d.]*[a-z]{0,2}")
_PATIENCE_S = 20.0
_NEEDED = "numpy"  # of another prefix the packages would be other ones
_ASK = (
    "import importlib.util, sys; "
    f"print([*sys.version_info[:3]], importlib.util.find_spec({_NEEDED!r}).origin)"
)


class NoInterpreter(OSError):
    """There is no Python that a process could be started with."""

    def __init__(self) -> None:
        if getattr(sys, "frozen", False):
            super().__init__(
                f"{sys.executable} is a frozen program, which has no Python beside it; compile the "
                "model elsewhere, and load its .rcx file"
            )
            return
        super().__init__(
            f"sys.executable is {sys.executable!r}, which is no Python interpreter, and the "
            f"environment {sys.prefix} has none; set sys.executable to one that has the same "
            "packages"
        )


def interpreter() -> str | None:
    """Its path; None where there is none, as in a frozen program. Asked once for each answer that
    `sys` gives.
    """
    frozen = bool(getattr(sys, "frozen", False))
    return _found(sys.executable or "", getattr(sys, "_base_executable", "") or "", frozen)


@lru_cache(maxsize=8)
def _found(executable: str, base: str, frozen: bool) -> str | None:
    if frozen:  # what an environment has is not what was frozen
        return None
    if _is_called_so(executable):
        return executable
    return next((path for path in _others(base) if _is_called_so(path) and _fits(path)), None)


def _is_called_so(path: str) -> bool:
    name = _NAME.fullmatch(os.path.basename(path))
    return name is not None and os.access(path, os.X_OK)


def _others(base: str) -> Iterator[str]:
    """Where the interpreter of this environment may be."""
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    for prefix in dict.fromkeys((sys.prefix, sys.exec_prefix)):
        for name in (f"python{version}", "python3", "python"):
            yield str(Path(prefix, "bin", name))
    yield base


def _fits(path: str) -> bool:
    """Whether it is of this version, and has our packages."""
    spec = importlib.util.find_spec(_NEEDED)
    try:
        asked = subprocess.run(
            [path, "-P", "-c", _ASK], capture_output=True, text=True, timeout=_PATIENCE_S
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return asked.stdout.strip() == f"{[*sys.version_info[:3]]} {spec and spec.origin}"


__all__ = ["NoInterpreter", "interpreter"]
