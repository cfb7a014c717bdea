"""Registers between ordinary instructions and asynchronous products: wgmma.fence.

PTX manual, section "wgmma.fence": it must stand before the first wgmma.mma_async, and between an
access of a register by a thread and a product that uses the register, for its sums or for A. Only
products of one shape may follow each other in the same sums without it.
"""

from __future__ import annotations

import numpy as np

from rcompiler.emulator.lanes import Array

SIZE = 128  # threads of a warpgroup


class RegisterFences:
    """Of a cohort with `lanes` threads, which have `registers` registers each."""

    def __init__(self, lanes: int, registers: int) -> None:
        groups = -(-lanes // SIZE)
        self._began = np.zeros(groups, bool)  # whether there was a fence at all
        self._used = np.zeros((groups, registers), bool)  # by ordinary instructions since then
        self._shapes = np.zeros((groups, registers), np.int32)  # of products since then; 0: none

    def fence(self, mask: Array) -> None:
        groups = _groups(mask)
        self._began[groups] = True
        self._used[groups] = False
        self._shapes[groups] = 0

    def use(self, mask: Array, registers: tuple[int, ...]) -> None:
        """An ordinary instruction reads or writes them."""
        self._used[_groups(mask)[:, None], registers] = True

    def move(self, mask: Array, into: int, source: int) -> None:
        """A copy: the assembler keeps both in one place, or knows them as one."""
        groups = _groups(mask)
        self._used[groups, into] = self._used[groups, source]
        self._shapes[groups, into] = self._shapes[groups, source]

    def multiply(
        self, first: int, sums: tuple[int, ...], factors: tuple[int, ...], shape: tuple[int, int]
    ) -> str:
        """A product by the warpgroup whose first lane is given: what it lacks, in words, or ""."""
        group, name = first // SIZE, shape[0] << 16 | shape[1]
        shapes = self._shapes[group, sums]
        lacks = ""
        if not self._began[group]:
            lacks = "the first product of a warpgroup"
        elif self._used[group, sums + factors].any():
            lacks = "a product with a register that another instruction used"
        elif ((shapes != 0) & (shapes != name)).any():
            lacks = "a product with the sums of products of another shape"
        self._shapes[group, sums] = name
        return lacks


def _groups(mask: Array) -> Array:
    return np.flatnonzero(mask.reshape(-1, SIZE).any(axis=1))
