"""Work that needs more stack than the calling thread may have.

Threads have 8 MiB on most systems, which MLIR and LLVM are written for. A program may give its own
threads less (`threading.stack_size`, a server's setting, musl's 128 KiB), and who goes beyond that
ends the process.
"""

from __future__ import annotations

import contextvars
import ctypes
import resource
import threading
from collections.abc import Callable
from typing import TypeVar

from rcompiler.support.libc import libc

_T = TypeVar("_T")

_AMPLE = 4 << 20  # bytes
_OWN = 16 << 20  # of a thread that is made for the work; pages take memory when they are used
_ATTRIBUTES = 64  # bytes of pthread_attr_t, which has 56 on x86-64
_MAKING = threading.Lock()  # the size of new stacks is one setting of the process


def with_ample_stack(work: Callable[[], _T]) -> _T:
    """What `work` returns, or raises: it is done here, or in a thread of its own while this one
    waits, if this one has a small stack.

    An interrupt of the wait goes to the caller; the thread then ends by itself.
    """
    if _stack_bytes() >= _AMPLE:
        return work()
    found: list[_T] = []
    raised: list[BaseException] = []
    context = contextvars.copy_context()

    def run() -> None:
        try:
            found.append(context.run(work))
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, name="rcompiler compiles", daemon=True)
    with _MAKING:
        before = threading.stack_size(_OWN)
        try:
            thread.start()
        finally:
            theirs = threading.stack_size(before)
            if theirs != _OWN:  # another thread has said a size while this one was starting
                threading.stack_size(theirs)
    thread.join()
    if raised:
        raise raised[0]
    return found[0]


def _stack_bytes() -> int:
    """Of this thread."""
    if threading.current_thread() is threading.main_thread():
        limit, _ = resource.getrlimit(resource.RLIMIT_STACK)  # which it grows up to
        return limit if limit != resource.RLIM_INFINITY else _AMPLE
    system = libc()
    attributes = ctypes.create_string_buffer(_ATTRIBUTES)
    system.pthread_self.restype = ctypes.c_void_p
    if system.pthread_getattr_np(ctypes.c_void_p(system.pthread_self()), attributes):
        return _AMPLE  # a system that does not say
    size = ctypes.c_size_t()
    system.pthread_attr_getstacksize(attributes, ctypes.byref(size))
    system.pthread_attr_destroy(attributes)
    return size.value


__all__ = ["with_ample_stack"]
