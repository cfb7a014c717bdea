"""A lock that calls hold: those of other threads wait for it, one inside of its own thread's is
refused.

Python runs signal handlers and finalisers (`__del__`, `weakref.finalize`, callbacks of the garbage
collector) in the middle of whatever a thread does. One that calls the model while its thread is
inside a call of that model would wait for what goes on when it has ended, so for ever; and it
cannot be let in, since the call around it may have chosen its schedule, its buffers or its state.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock

from rcompiler.errors import BusyError


class CallLock:
    """One call at a time.

    The path of every call writes out what `alone` does, which takes a microsecond less.

    Attributes:
        lock: that of threads; who has it already gets it again.
        inside: whether a call goes on. It is read and set by whoever holds the lock: a handler that
            comes before it is set, or after, runs its call to the end, and changes nothing here.
    """

    def __init__(self) -> None:
        self.lock = RLock()
        self.inside = False

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold it for a block.

        Raises:
            BusyError: this thread is in such a block already.
        """
        with self.lock:
            if self.inside:
                raise nested()
            self.inside = True
            try:
                yield
            finally:
                self.inside = False


def nested() -> BusyError:
    """What a call inside of a call is told."""
    return BusyError(
        "a signal handler or a finaliser (__del__, weakref, gc) calls the model while its own "
        "thread is inside a call of it, and would wait for itself for ever; let the handler note "
        "what is to be done and do it after the call, do it in another thread, or load the model "
        "once more for the handler"
    )


__all__ = ["CallLock", "nested"]
