"""The permission to use tile registers (AMX), which a process asks of Linux.

The registers are 8 KiB of state that a thread has to keep, so Linux gives them to processes that
ask, once, for all of their threads. Without the permission the first instruction of a tile ends the
process, so code that has some is not run before.

Sources: Linux, Documentation/arch/x86/xstate.rst and arch/x86/include/uapi/asm/prctl.h.
"""

import ctypes
import os
import platform
import sys

from rcompiler.support.libc import libc

_SYS_ARCH_PRCTL = 158  # of x86-64
_GET_SUPPORTED, _REQUEST = 0x1021, 0x1023
_TILE_DATA = 18  # the component of the state


def tiles_supported() -> bool:
    """Whether Linux knows tile registers, and this processor has them."""
    features = ctypes.c_uint64()
    error = _arch_prctl(_GET_SUPPORTED, ctypes.addressof(features))
    return not error and bool(features.value >> _TILE_DATA & 1)


def request_tiles() -> str | None:
    """Get the permission for all threads of this process; what was in the way, None if nothing."""
    error = _arch_prctl(_REQUEST, _TILE_DATA)
    return os.strerror(error) if error else None


def _arch_prctl(code: int, argument: int) -> int:
    """The error number of the system call, 0 if there was none."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return 38  # ENOSYS
    call = libc().syscall
    call.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_ulong]
    call.restype = ctypes.c_long
    return ctypes.get_errno() if call(_SYS_ARCH_PRCTL, code, argument) else 0
