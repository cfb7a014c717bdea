"""What this process made before, by what it was made of: bounded, for threads, and for forks."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Hashable
from typing import Generic, TypeVar

_T = TypeVar("_T")


class LruCache(Generic[_T]):
    """Values by key, until they are larger than a bound together: those used least recently go.

    One lives as long as its process: a variable of a module. A forked child has a copy.
    """

    def __init__(self, limit: int) -> None:
        """limit: of the sizes of all values together, in whatever unit `put` is told them."""
        self._limit, self._size = limit, 0
        self._values: dict[Hashable, tuple[_T, int]] = {}  # the one used last is the last
        self._lock = threading.RLock()
        # Nobody is in the middle of something when a process forks: the child's copy is whole.
        os.register_at_fork(
            before=self._lock.acquire,
            after_in_parent=self._lock.release,
            after_in_child=self._lock.release,
        )
        _ALL.add(self)

    def get(self, key: Hashable) -> _T | None:
        """The value that was put under a key; None where there is none any more."""
        with self._lock:
            found = self._values.pop(key, None)
            if found is None:
                return None
            self._values[key] = found
            return found[0]

    def put(self, key: Hashable, value: _T, size: int) -> None:
        """Keep a value of a size; one that is larger than the bound alone is not kept."""
        with self._lock:
            self._drop(key)
            if size > self._limit:
                return
            self._values[key] = value, size
            self._size += size
            while self._size > self._limit:
                self._drop(next(iter(self._values)))

    def clear(self) -> None:
        """Forget all values."""
        with self._lock:
            self._values.clear()
            self._size = 0

    def _drop(self, key: Hashable) -> None:
        _, size = self._values.pop(key, (None, 0))
        self._size -= size


def clear_all() -> None:
    """Forget what any `LruCache` of this process has: for whoever changes what values are made by,
    as tests do that patch the compiler, or wants to see them made once more.
    """
    for each in list(_ALL):
        each.clear()


_ALL: weakref.WeakSet[LruCache] = weakref.WeakSet()
