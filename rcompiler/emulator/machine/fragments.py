"""Which part of a matrix each thread of a warp holds in its registers.

Tables of the PTX manual, section "Matrix Fragments for mma.m16n8k16" and its neighbours. Warps
follow each other along the rows: warp w has rows 16 w to 16 w + 15 of A and of the accumulators.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rcompiler.emulator.lanes import WARP, Array
from rcompiler.emulator.numbers import floats

_NUMBERS = {"f32": "f4", "s32": "i4", "f16": "f2"}  # of accumulators


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


def _row_and_member(lanes: int) -> tuple[Array, Array]:
    """Of each lane the first row, and its number among the four lanes of that row."""
    lane = np.arange(lanes)
    return lane // WARP * 16 + lane % WARP // 4, lane % 4


def left(registers: Sequence[Array], type_: str, depth: int) -> Array:
    """A of all warps: (16 * warps, depth)."""
    parts = [elements(bits, type_) for bits in registers]
    per = parts[0].shape[-1]
    row, member = _row_and_member(len(parts[0]))
    a = np.zeros((len(row) // 2, depth), parts[0].dtype)
    for k, values in enumerate(parts):
        for j in range(per):
            a[row + 8 * (k & 1), member * per + j + 4 * per * (k >> 1)] = values[:, j]
    return a


def right(registers: Sequence[Array], type_: str, depth: int) -> Array:
    """B of each warp: (warps, depth, 8)."""
    parts = [elements(bits.reshape(-1, WARP), type_) for bits in registers]
    per, column, member = parts[0].shape[-1], np.arange(WARP) // 4, np.arange(WARP) % 4
    b = np.zeros((len(parts[0]), depth, 8), parts[0].dtype)
    for k, values in enumerate(parts):
        for j in range(per):
            b[:, member * per + j + 4 * per * k, column] = values[:, :, j]
    return b


def accumulator(registers: Sequence[Array], type_: str) -> Array:
    """C of all warps: (16 * warps, 2 * numbers of a lane)."""
    per = 4 // np.dtype(_NUMBERS[type_]).itemsize
    row, member = _row_and_member(len(registers[0]))
    c = np.zeros((len(row) // 2, 2 * per * len(registers)), _NUMBERS[type_])
    for k, bits in enumerate(registers):
        values = np.ascontiguousarray(bits).view(_NUMBERS[type_]).reshape(-1, per)
        for j in range(per):
            at = k * per + j
            c[row + 8 * (at % 4 // 2), at // 4 * 8 + 2 * member + at % 2] = values[:, j]
    return c


def accumulator_registers(c: Array, type_: str) -> list[Array]:
    """The registers, u4, of the lanes that hold it."""
    per = 4 // np.dtype(_NUMBERS[type_]).itemsize
    row, member = _row_and_member(2 * len(c))
    registers = []
    for k in range(c.shape[1] // (2 * per)):
        values = np.empty((len(row), per), _NUMBERS[type_])
        for j in range(per):
            at = k * per + j
            values[:, j] = c[row + 8 * (at % 4 // 2), at // 4 * 8 + 2 * member + at % 2]
        registers.append(values.view("u4").ravel())
    return registers
