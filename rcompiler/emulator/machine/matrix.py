"""Tensor cores of a warp: ldmatrix, stmatrix, mma.sync."""

from __future__ import annotations

import numpy as np

from rcompiler.emulator.checks.shadow import Shadow
from rcompiler.emulator.lanes import WARP, Array
from rcompiler.emulator.machine import fragments
from rcompiler.emulator.machine.access import MemoryUnit
from rcompiler.emulator.machine.threads import Threads
from rcompiler.emulator.machine.warp import Warps
from rcompiler.emulator.numbers.tensor_core import multiply_add_integers


class MatrixUnit:
    def __init__(self, c: Threads, memory: MemoryUnit, warp: Warps) -> None:
        self.c, self._memory, self._warp = c, memory, warp

    def load(self, at: int, mask: Array, address: Array, count: int, trans: bool) -> list[Array]:
        """ldmatrix: lane 8i+r gives the address of row r of matrix i."""
        warps, lanes, places = self._rows(at, mask, address, count)
        memory = self._memory.spaces["shared"]
        self._memory.observe(at, memory, lanes, places, 16)
        rows = memory.view(2)[places[:, None] // 2 + np.arange(8)]
        stacked = rows.reshape(len(warps), count, 8, 8)
        if trans:
            stacked = stacked.transpose(0, 1, 3, 2)
        packed = np.ascontiguousarray(stacked).reshape(len(warps), count, 64).view(np.uint32)
        results = []
        for k in range(count):
            result = np.zeros((self.c.count // WARP, WARP), np.uint32)
            result[warps] = packed[:, k]
            results.append(result.ravel())
        return results

    def store(
        self, at: int, mask: Array, address: Array, values: tuple[Array, ...], trans: bool
    ) -> None:
        """stmatrix, as ldmatrix the other way round."""
        warps, lanes, places = self._rows(at, mask, address, len(values))
        memory = self._memory.spaces["shared"]
        memory.check(self.c, at, lanes, places, 16, "a store", Shadow.write)
        packed = np.stack([v.reshape(-1, WARP)[warps] for v in values], axis=1)
        stacked = np.ascontiguousarray(packed).view("u2").reshape(len(warps), len(values), 8, 8)
        if trans:
            stacked = stacked.transpose(0, 1, 3, 2)
        memory.view(2)[places[:, None] // 2 + np.arange(8)] = stacked.reshape(-1, 8)
        memory.mark_written(places, 16)
        self.c.launch.progress += 1

    def _rows(self, at: int, mask: Array, address: Array, count: int) -> tuple[Array, Array, Array]:
        """Warps that execute it, the lanes that give addresses and the places of their rows."""
        self._warp.check_whole(at, mask)
        self._warp.meet(mask)
        warps = np.flatnonzero(mask.reshape(-1, WARP)[:, 0])
        lanes = (warps[:, None] * WARP + np.arange(8 * count)).ravel()
        memory = self._memory.spaces["shared"]
        offsets = self._memory.shared_offsets(address[lanes])
        return warps, lanes, memory.place(self.c, at, lanes, offsets, 16)

    def multiply(
        self, at: int, mask: Array, depth: int, types: tuple[str, str, str],
        a: tuple[Array, ...], b: tuple[Array, ...], c: tuple[Array, ...],
    ) -> list[Array]:  # fmt: skip
        """mma.sync m16n8k`depth`: a (16, depth) and b (depth, 8) plus c (16, 8), per warp."""
        self._warp.check_whole(at, mask)
        self._warp.meet(mask)
        left = fragments.left(a, types[0], depth).reshape(-1, 16, depth)
        right = fragments.right(b, types[1], depth)
        given = fragments.accumulator(c, types[2]).reshape(-1, 16, 8)
        if types[2] == "s32":
            total = multiply_add_integers(left, right, given)
        else:
            total = self.c.launch.tensor_core.multiply_add(left, right, given, types[0])
        return fragments.accumulator_registers(total.reshape(-1, 8), types[2])
