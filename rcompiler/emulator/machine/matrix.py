"""Tensor cores of a warp: ldmatrix, stmatrix, mma.sync."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rcompiler.emulator.numbers import floats

if TYPE_CHECKING:
    from rcompiler.emulator.machine.cohort import Cohort

Array = npt.NDArray[Any]
WARP = 32
_GROUP, _MEMBER = np.arange(WARP) // 4, np.arange(WARP) % 4


def elements(bits: Array, type_: str) -> Array:
    """Registers (..., u4) as their numbers (..., per register), to compute with."""
    bits = np.ascontiguousarray(bits)
    match type_:
        case "f16":
            return bits.view("f2").reshape(*bits.shape, 2).astype(np.float32)
        case "bf16":
            return floats.widen(bits.view("u2").reshape(*bits.shape, 2))
        case "tf32":
            return (bits & np.uint32(0xFFFFE000)).view("f4").reshape(*bits.shape, 1)
    return bits.view("i1" if type_ == "s8" else "u1").reshape(*bits.shape, 4).astype(np.int32)


def product(a: Array, b: Array) -> Array:
    """Of stacks of matrices; f4 for f4, exact for i4 (products of bytes fit f8)."""
    if a.dtype == np.int32:
        return np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(np.int64)
    return np.matmul(a, b)


class MatrixUnit:
    def __init__(self, cohort: Cohort) -> None:
        self.c = cohort

    def load(self, at: int, mask: Array, address: Array, count: int, trans: bool) -> list[Array]:
        """ldmatrix: lane 8i+r gives the address of row r of matrix i."""
        warps, lanes, places = self._rows(at, mask, address, count)
        memory = self.c.memory.spaces["shared"]
        self.c.memory.observe(at, memory, lanes, places, 16)
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
        memory = self.c.memory.spaces["shared"]
        if memory.shadow is not None:
            of, cells = memory.cells(lanes, places, 16)
            memory.report(
                self.c, at, of, cells, memory.shadow.write(self.c, at, of, cells), "a store"
            )
        packed = np.stack([v.reshape(-1, WARP)[warps] for v in values], axis=1)
        stacked = np.ascontiguousarray(packed).view("u2").reshape(len(warps), len(values), 8, 8)
        if trans:
            stacked = stacked.transpose(0, 1, 3, 2)
        memory.view(2)[places[:, None] // 2 + np.arange(8)] = stacked.reshape(-1, 8)
        memory.mark_written(places, 16)
        self.c.launch.progress += 1

    def _rows(self, at: int, mask: Array, address: Array, count: int) -> tuple[Array, Array, Array]:
        """Warps that execute it, the lanes that give addresses and the places of their rows."""
        self.c.warp.check_whole(at, mask)
        self.c.warp.meet(mask)
        warps = np.flatnonzero(mask.reshape(-1, WARP)[:, 0])
        lanes = (warps[:, None] * WARP + np.arange(8 * count)).ravel()
        memory = self.c.memory.spaces["shared"]
        offsets = self.c.memory.shared_offsets(address[lanes])
        return warps, lanes, memory.place(self.c, at, lanes, offsets, 16)

    def multiply(
        self, at: int, mask: Array, depth: int, types: tuple[str, str, str],
        a: tuple[Array, ...], b: tuple[Array, ...], c: tuple[Array, ...],
    ) -> list[Array]:  # fmt: skip
        """mma.sync m16n8k`depth`: a (16, depth) and b (depth, 8) plus c (16, 8), per warp."""
        self.c.warp.check_whole(at, mask)
        self.c.warp.meet(mask)
        count = self.c.count // WARP
        per = 32 // (16 if types[0] in ("f16", "bf16") else 32 if types[0] == "tf32" else 8)
        number = np.int32 if per == 4 else np.float32
        left = np.zeros((count, 16, depth), number)
        for k, bits in enumerate(a):
            values = elements(bits.reshape(count, WARP), types[0])
            for j in range(per):
                column = _MEMBER * per + j + 4 * per * (k >> 1)
                left[:, _GROUP + 8 * (k & 1), column] = values[:, :, j]
        right = np.zeros((count, depth, 8), number)
        for k, bits in enumerate(b):
            values = elements(bits.reshape(count, WARP), types[1])
            for j in range(per):
                right[:, _MEMBER * per + j + 4 * per * k, _GROUP] = values[:, :, j]
        return self._add(product(left, right), c, types[2], count)

    def _add(self, result: Array, c: tuple[Array, ...], type_: str, count: int) -> list[Array]:
        """Accumulators hold columns 2m and 2m+1 of rows g and g+8."""
        parts = [
            result[:, _GROUP + row, 2 * _MEMBER + column].ravel()
            for row in (0, 8)
            for column in (0, 1)
        ]
        if type_ == "f16":
            pairs = [np.stack(parts[2 * k : 2 * k + 2], axis=1) for k in range(2)]
            given = [np.ascontiguousarray(x).view("f2").reshape(-1, 2) for x in c]
            sums = [(pair + x).astype("f2") for pair, x in zip(pairs, given, strict=True)]
            return [total.view("u4").ravel() for total in sums]
        number = "i4" if type_ == "s32" else "f4"
        return [
            (part + x.view(number)).astype(number).view("u4")
            for part, x in zip(parts, c, strict=True)
        ]
