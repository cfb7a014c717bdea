"""How long threads could have run and had no CPU: what other programs take from a launch.

A thread that waits for another one wants no CPU; one that waits for its turn does. Linux counts the
latter for each thread, see `Documentation/scheduler/sched-stats.rst`, /proc/<pid>/schedstat.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

_BYTES = 96  # of three numbers


class RunDelay:
    """Of some threads of this process, and of whichever asks.

    known: whether this system counts it; where it does not, all is 0.
    """

    def __init__(self, native_ids: Iterable[int]) -> None:
        self._files: list[int] = []
        self.known = True
        for thread in {*native_ids}:
            try:
                self._files.append(os.open(f"/proc/self/task/{thread}/schedstat", os.O_RDONLY))
            except OSError:  # a kernel without it, a thread that has ended
                self.known = False

    def ns(self) -> int:
        """So far, of all threads together; to be compared with what the same thread was told."""
        try:
            own = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
        except OSError:
            self.known = False
            return 0
        try:
            return sum(map(self._of, (own, *self._files)))
        finally:
            os.close(own)

    def _of(self, file: int) -> int:
        try:
            return int(os.pread(file, _BYTES, 0).split()[1])
        except (OSError, IndexError, ValueError):
            self.known = False
            return 0

    def close(self) -> None:
        """Idempotent."""
        while self._files:
            os.close(self._files.pop())

    def __del__(self) -> None:
        self.close()
