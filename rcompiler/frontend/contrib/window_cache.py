"""Buffers of keys that hold the end of a sequence: a window's length and some room.

Of a sequence of T keys, a buffer of C of them, for a window of W, holds the last L(T): all of it up
to C, then T less as many whole steps of C - W + 1 as let it fit. What it holds begins at row 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .node import Node


@dataclass(frozen=True)
class Window:
    """first: the row of each sequence's first new key, int64 [batch]. shift: how many rows go."""

    capacity: int
    batch: int
    first: str
    shift: str

    @classmethod
    def of(cls, n: Node, capacity: int, length: int, batch: int, before: str, total: str) -> Window:
        """before, total: the keys of each sequence without and with the new ones, int64 [batch]."""

        def held(count: str) -> str:
            step = capacity - length + 1
            over = n.op("Max", n.op("Sub", count, n.ints(capacity)), n.ints(0))
            steps = n.op("Div", n.op("Add", over, n.ints(step - 1)), n.ints(step))
            return n.op("Sub", count, n.op("Mul", steps, n.ints(step)))

        first = held(before)
        filled = n.op("Add", first, n.op("Sub", total, before))
        return cls(capacity, batch, first, n.op("Sub", filled, held(total)))

    def kept(self, n: Node, x: str, room: int) -> str:
        """Of the keys before and the new ones, [batch, heads, room, size], those that stay; behind
        them are others, which count nothing."""
        rows = n.constant(np.arange(self.capacity, dtype=np.int64))
        own = n.op("Add", n.reshaped(self.shift, self.batch, 1), rows)
        own = n.op("Min", own, n.constant(room - 1, "int64"))
        each = n.op("GatherND", n.transposed(x, 0, 2, 1, 3), n.unsqueezed(own, 2), batch_dims=1)
        return n.transposed(each, 0, 2, 1, 3)
