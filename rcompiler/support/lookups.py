"""What parts of a compilation remember, told to whoever counts how often that helps.

A pass that asks once for equal rOperators says of each whether it was known:

    note(known=key in self._known)

Nobody counts unless `told` is around the compilation, in the same thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_LISTENER: ContextVar[Callable[[bool], None] | None] = ContextVar("lookups", default=None)


def note(*, known: bool) -> None:
    """Something was looked up, and was remembered or was not."""
    listener = _LISTENER.get()
    if listener is not None:
        listener(known)


@contextmanager
def told(listener: Callable[[bool], None]) -> Iterator[None]:
    """A context in which a listener is told of each: whether it was known."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)
