"""The C library of this process."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any


@cache
def libc() -> Any:
    """Its functions by their names, with errno kept for `ctypes.get_errno`.

    One for the process: each ctypes.CDLL is a class and a cycle, which stay until Python's
    collector looks for them.
    """
    return ctypes.CDLL(None, use_errno=True)


__all__ = ["libc"]
