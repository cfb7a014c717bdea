"""Which tensors nobody else can see, so that a slice may be put into them in place.

An op makes a new tensor, as the IR says. Where the one it is made of has this op as its only use,
in the block that has it, nobody sees that there is only one of them: loops that write a result tile
by tile need not copy it each time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from torch_mlir import ir


class Ownership:
    """The tensors of one interpreter."""

    def __init__(self) -> None:
        self._own: WeakValueDictionary[int, np.ndarray] = WeakValueDictionary()
        self._single: dict[ir.Value, bool] = {}

    def add(self, made: np.ndarray) -> None:
        """A tensor that was made now, and of which there is no view."""
        self._own[id(made)] = made

    def use(self, op: ir.Operation, operands: Sequence[Any]) -> None:
        """An op takes these: what is used elsewhere, too, is nobody's from now on."""
        if not self._own:
            return
        for value, array in zip(op.operands, operands, strict=True):
            if id(array) in self._own and not self._used_once(op, value):
                del self._own[id(array)]

    def has(self, array: np.ndarray) -> bool:
        """Whether it may be written in place by the op that takes it now."""
        return id(array) in self._own

    def _used_once(self, op: ir.Operation, value: ir.Value) -> bool:
        """op: a user of the value."""
        if value not in self._single:
            owner = value.owner
            block = owner if isinstance(owner, ir.Block) else owner.operation.block
            self._single[value] = len(list(value.uses)) == 1 and block == op.block
        return self._single[value]
