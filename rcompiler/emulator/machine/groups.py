"""Groups of asynchronous operations: committed and waited for by every thread for itself."""

from __future__ import annotations

import numpy as np

from rcompiler.emulator.lanes import Array


class Groups:
    """current: the group that a lane's next operation joins."""

    def __init__(self, count: int) -> None:
        self.current = np.zeros(count, np.int64)

    def commit(self, mask: Array) -> None:
        self.current[mask] += 1

    def finished(self, joined: Array, mask: Array, pending: int) -> Array:
        """Which operations, by the group they joined, a wait finishes that leaves `pending`."""
        return mask & (joined < self.current - pending)
