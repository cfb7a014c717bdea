"""Memory in which each EU has its own view of all bytes: the weakest that the semantics allow.

A store changes the view of its EU and becomes visible to others when it is drained: at any time,
bytes in any order, at the latest at the EU's next release (signal, barrier, end of the launch). An
EU may see old bytes until its next acquire (a satisfied wait, a barrier, the start of a launch);
before that, bytes of its view may be refreshed at any time. That is weaker than the memory of any
device compiled for: store buffers, caches without coherence and early loads are all cases of it.
"""

import numpy as np

from oracles.interpret.tasks import Bytes, Ints


class Memory:
    """Flat byte memory of `eus` EUs. initial: (size,)."""

    def __init__(self, initial: Bytes, eus: int) -> None:
        self.shared = initial.copy()
        self.view = np.repeat(initial[None, :], eus, axis=0)
        self.waiting = np.zeros(self.view.shape, bool)  # stores that others do not see
        self._stores: list[list[Ints]] = [[] for _ in range(eus)]

    def read(self, eu: int, at: Ints) -> Bytes:
        """What the EU sees."""
        return self.view[eu][at]

    def write(self, eu: int, at: Ints, data: Bytes) -> None:
        """A store: seen by the EU itself."""
        self.view[eu][at] = data
        self.waiting[eu][at] = True
        self._stores[eu].append(at)

    def stores(self, eu: int) -> list[Ints]:
        """Addresses of what the EU stored since its last release, maybe drained already."""
        return self._stores[eu]

    def drain(self, eu: int, at: Ints) -> None:
        """Make these bytes visible to all, as far as the EU has stored them."""
        at = at[self.waiting[eu][at]]
        self.shared[at] = self.view[eu][at]
        self.waiting[eu][at] = False

    def release(self, eu: int) -> None:
        """Drain all stores."""
        for at in self._stores[eu]:
            self.drain(eu, at)
        self._stores[eu].clear()

    def refresh(self, eu: int, part: slice = slice(None)) -> None:
        """See the newest bytes of a part of the memory, but keep own stores."""
        np.copyto(self.view[eu][part], self.shared[part], where=~self.waiting[eu][part])

    def meet(self, eus: int) -> None:
        """The first `eus` EUs release and acquire together."""
        for eu in range(eus):
            self.release(eu)
        self.view[:eus] = self.shared
