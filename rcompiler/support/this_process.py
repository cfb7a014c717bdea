"""Which process this is, and what each process has of its own.

A forked child has none of its parent's threads, and cannot know what they held. The number of a
process does not tell a child from its ancestors: the system gives the number of one that has ended
to another one, which may descend from it. So forks are counted, too: a descendant is further from
the first process than whatever it has its memory from. Where a program forks without telling Python
(an embedding host, a C library), the number alone tells the two apart.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from os import getpid
from typing import Generic, TypeVar

_T = TypeVar("_T")

_NUMBERS = 1 << 32  # more than there are process numbers
_forks = 0  # between the first process and this one, times _NUMBERS


def this_process() -> int:
    """What is equal in one process, and another value in those that were forked from it."""
    return _forks + getpid()


def _count_fork() -> None:
    global _forks
    _forks += _NUMBERS


os.register_at_fork(after_in_child=_count_fork)


class PerProcess(Generic[_T]):
    """One object for each process."""

    __slots__ = ("_made", "_make")

    def __init__(self, make: Callable[[], _T]) -> None:
        """make: that of a process; of two threads that ask first one is thrown away."""
        self._make = make
        self._made: dict[int, _T] = {}

    def get(self) -> _T:
        """That of this process."""
        me = _forks + getpid()  # not `this_process()`: calls of a model come here
        # setdefault is atomic: two threads of a new child agree on one
        return self._made.get(me) or self._made.setdefault(me, self._make())


__all__ = ["PerProcess", "this_process"]
