"""The arrays that the texts of stages name, told to whoever writes such a text into a file.

A text names its weights by what they are made of, and nobody needs those of a stage that was
passed: they are noted only for who listens, in the same thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

Listener = Callable[[str, Mapping[str, Any]], None]

_LISTENER: ContextVar[Listener | None] = ContextVar("stage_arrays", default=None)


def wanted() -> bool:
    """Whether somebody listens: then a model has to be compiled, and is not taken from a cache."""
    return _LISTENER.get() is not None


def note(stage: str, arrays: Callable[[], Mapping[str, Any]]) -> None:
    """A stage is there. arrays: gives those that its text names, by their keys."""
    listener = _LISTENER.get()
    if listener is not None:
        listener(stage, arrays())


@contextmanager
def told(listener: Listener) -> Iterator[None]:
    """A context in which a listener is told of each stage, of each program of a model."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


__all__ = ["note", "told", "wanted"]
