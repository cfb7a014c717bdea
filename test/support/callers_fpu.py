"""The control word of the calling thread's floating-point unit, as callers may have set it."""

from __future__ import annotations

import ctypes
import ctypes.util
from collections.abc import Iterator
from contextlib import contextmanager

FLUSH = 0x8040  # bits of MXCSR: denormal numbers are zeros, as operands and as results
UPWARDS = 0x4000
_MXCSR = slice(28, 32)  # in the fenv_t of x86-64
_libm = ctypes.CDLL(ctypes.util.find_library("m") or "libm.so.6")


def mxcsr() -> int:
    """That of this thread."""
    environment = (ctypes.c_ubyte * 32)()
    _libm.fegetenv(environment)
    return int.from_bytes(bytes(environment[_MXCSR]), "little")


@contextmanager
def with_bits(bits: int) -> Iterator[None]:
    """With more bits in MXCSR of this thread."""
    environment = (ctypes.c_ubyte * 32)()
    _libm.fegetenv(environment)
    before = bytes(environment)
    environment[_MXCSR] = (mxcsr() | bits).to_bytes(4, "little")
    _libm.fesetenv(environment)
    try:
        yield
    finally:
        ctypes.memmove(environment, before, 32)
        _libm.fesetenv(environment)
