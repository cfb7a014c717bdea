"""The choices of an execution: who goes on, and when stores and loads take effect."""

import random
from collections.abc import Sequence

import numpy as np

from oracles.interpret.weak_memory import Memory
from rcompiler.errors import ScheduleError

# any: whoever; ahead: one EU goes on until it blocks, then the next, with rare changes of mind
# (priorities, as in PCT); starve: some EUs go on only when nobody else can.
ORDERS = ("any", "ahead", "starve")
# late: stores are drained and loads refreshed only where they must; early: at once; some: parts.
STORES = ("late", "early", "some")
_CHANGE = 0.02  # chance, per step, that priorities change


class Adversary:
    """Choices that depend on the seed only.

    order: one of ORDERS, stores: one of STORES; by default the seed goes through all pairs.
    """

    def __init__(self, seed: int, order: str | None = None, stores: str | None = None) -> None:
        self.order = order or ORDERS[seed % len(ORDERS)]
        self.stores = stores or STORES[seed // len(ORDERS) % len(STORES)]
        if self.order not in ORDERS or self.stores not in STORES:
            raise ScheduleError(
                f"order {self.order!r} and stores {self.stores!r}: give one of "
                f"{', '.join(ORDERS)} and one of {', '.join(STORES)}"
            )
        self._random = random.Random(seed)
        self._bits = np.random.default_rng(seed)
        self._rank: list[float] = []

    def launch(self, eus: int) -> None:
        """A launch starts."""
        self._rank = [self._random.random() for _ in range(eus)]
        if self.order == "starve":
            self._rank = [rank + self._random.randrange(2) for rank in self._rank]

    def pick(self, ready: Sequence[int]) -> int:
        """Which of the EUs that can go on does so."""
        if self.order == "any" or len(ready) == 1:
            return self._random.choice(ready)
        rank = self._rank
        change = self._random.random() < _CHANGE
        eu = self._random.choice(ready) if change else min(ready, key=rank.__getitem__)
        if self.order == "starve":  # a rank of 1 and more starves; all others are equal
            rank[eu] = (int(rank[eu]) ^ change) + self._random.random()
        elif change:
            rank[eu] = self._random.random()
        return eu

    def leak(self, memory: Memory, eu: int) -> None:
        """After a step of an EU: let some of its stores out, let it see some newer bytes."""
        if self.stores == "late":
            return
        if self.stores == "early":
            memory.release(eu)
            memory.refresh(eu)
            return
        stores = memory.stores(eu)
        if stores and self._random.random() < 0.5:
            at = self._random.choice(stores)
            memory.drain(eu, at[self._bits.integers(0, 2, len(at), bool)])
        if self._random.random() < 0.25:
            start, step = self._random.randrange(4), self._random.choice((1, 2, 3))
            memory.refresh(eu, slice(start, None, step))
