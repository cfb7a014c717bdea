"""Python's garbage collector, told to look less often while the compiler works.

A compilation makes a million objects that live until its end, and little garbage in cycles. To look
for that after every 700 objects takes 3 % of the time of ResNet-50, and 8 % of a network of
thousands of operators; to look through all objects now and then, 1 %.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_YOUNG = 50_000  # objects between two looks: a few megabytes
_OLD = 1000  # of those at objects that outlived a look between two looks at all of them


class Collector:
    """The collector's threshold, which all threads of the process share."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._usual = gc.get_threshold()

    @contextmanager
    def seldom(self) -> Iterator[None]:
        """A higher threshold until the last user leaves; one that is higher, or 0, stays."""
        with self._lock:
            if self._users == 0:
                self._usual = young, *older = gc.get_threshold()
                if 0 < young < _YOUNG:
                    gc.set_threshold(_YOUNG, older[0], max(older[1], _OLD))
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if self._users == 0:
                    gc.set_threshold(*self._usual)

    @contextmanager
    def importing(self) -> Iterator[None]:
        """For imports: nothing is looked at until the end, and then all of it counts as old.

        What is imported stays. To look for garbage in the compiler takes a sixth of the time to
        import it, and half of that at the first look afterwards.
        """
        enabled = gc.isenabled()
        gc.disable()
        try:
            yield
        finally:
            if gc.get_freeze_count() == 0:  # else somebody wants some objects to stay frozen
                gc.freeze()
                gc.unfreeze()  # to the oldest generation
            if enabled:
                gc.enable()


COLLECTOR = Collector()
