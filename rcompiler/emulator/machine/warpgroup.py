"""wgmma: products of 128 threads whose operands lie in shared memory.

Results are there at once, operands are read until the group is waited for: who writes them earlier
is reported.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rcompiler.emulator.checks.products import SIZE, RegisterFences
from rcompiler.emulator.checks.shadow import Shadow
from rcompiler.emulator.lanes import Array
from rcompiler.emulator.machine import fragments
from rcompiler.emulator.machine.access import MemoryUnit
from rcompiler.emulator.machine.fragments import elements
from rcompiler.emulator.machine.groups import Groups
from rcompiler.emulator.machine.tensor_map import swizzled
from rcompiler.emulator.machine.threads import Threads
from rcompiler.emulator.machine.warp import Warps
from rcompiler.emulator.numbers.tensor_core import multiply_add_integers

_SWIZZLE = {0: 0, 1: 128, 2: 64, 3: 32}
_BYTES = {"f16": 2, "bf16": 2, "tf32": 4, "s8": 1, "u8": 1}


@dataclass
class _Reading:
    """Places in shared memory that are being read for a warpgroup, whose first lane is `lane`."""

    lane: int
    group: int
    places: Array
    width: int


class Warpgroups:
    def __init__(self, c: Threads, memory: MemoryUnit, warp: Warps) -> None:
        self.c, self._memory, self._warp = c, memory, warp
        self._groups = Groups(c.count)
        self._reading: list[_Reading] = []
        self._flying: dict[int, dict[int, int]] = {}  # register -> first lane -> group
        launch = c.launch
        watched = launch.checks.races and launch.unit == SIZE
        registers = len(launch.kernel.layout.registers)
        self._fences = RegisterFences(c.count, registers) if watched else None

    def fence(self, mask: Array) -> None:
        if self._fences is not None:
            self._fences.fence(mask)

    def commit(self, mask: Array) -> None:
        self._groups.commit(mask)

    def wait(self, mask: Array, pending: int) -> None:
        c = self.c
        c.launch.now += 1
        left = []
        for reading in self._reading:
            lane = reading.lane
            if not (mask[lane] and reading.group < self._groups.current[lane] - pending):
                left.append(reading)
                continue
            memory = self._memory.spaces["shared"]
            if memory.shadow is not None:
                lanes = np.full(len(reading.places), lane)
                of, cells = memory.cells(lanes, reading.places, reading.width)
                memory.shadow.finish_read(c, of, cells)
                c.clocks.own[lane : lane + SIZE, c.clocks.column[lane]] = c.launch.now
        self._reading = left
        for register, users in list(self._flying.items()):
            self._flying[register] = {
                lane: group
                for lane, group in users.items()
                if not (mask[lane] and group < self._groups.current[lane] - pending)
            }
            if not self._flying[register]:
                del self._flying[register]

    # -- registers that are being filled

    def use(self, at: int, mask: Array, read: tuple[int, ...], written: tuple[int, ...]) -> None:
        """Another instruction uses registers: it must not read what is still being filled."""
        if self._fences is not None:
            self._fences.use(mask, read + written)
        if not self._flying:
            return
        for register in read:
            for first in self._flying.get(register, ()):
                if mask[first : first + SIZE].any():
                    raise self.c.fault(
                        "late-async-copy",
                        at,
                        first + int(mask[first : first + SIZE].argmax()),
                        "use of a register that an asynchronous product is still filling",
                    )
        for register in written:
            self._forget(mask, register)

    def move(self, mask: Array, into: int, source: int) -> None:
        """A copy of such a register is one, too: the assembler keeps both in one place."""
        if self._fences is not None:
            self._fences.move(mask, into, source)
        users = {f: g for f, g in self._flying.get(source, {}).items() if mask[f]}
        if users:
            self._flying.setdefault(into, {}).update(users)
        elif self._flying.get(into):
            self._forget(mask, into)

    def _forget(self, mask: Array, register: int) -> None:
        """A register is written: what filled it fills another one now."""
        users = self._flying.get(register, {})
        for first in [lane for lane in users if mask[lane : lane + SIZE].all()]:
            del users[first]

    def multiply(
        self, at: int, mask: Array, shape: tuple[int, int], types: tuple[str, str, str],
        into: tuple[Array, ...], left: Any, right: Array, scale: Any, signs: tuple[int, int],
        turned: tuple[bool, bool], registers: tuple[int, ...], factors: tuple[int, ...],
    ) -> list[Array]:  # fmt: skip
        """D (64, n) = A (64, k) @ B (k, n) + scale * D; shape: n, k. turned: A, B stored so.

        registers: of D. factors: of A, if it is in registers.
        """
        c = self.c
        self._warp.check_whole(at, mask, SIZE)
        results = [np.array(x) for x in into]
        scale = c.wide(scale)
        for first in np.flatnonzero(mask)[::SIZE].tolist():
            self._check_fenced(at, first, registers, factors, shape)
            for register in registers:
                self._flying.setdefault(register, {})[first] = int(self._groups.current[first])
            lanes = slice(first, first + SIZE)
            if isinstance(left, tuple):
                a = fragments.left([x[lanes] for x in left], types[0], shape[1])
            else:
                a = self._tile(at, first, int(left[first]), 64, shape[1], types[0], turned[0])
            b = self._tile(at, first, int(right[first]), shape[0], shape[1], types[1], turned[1])
            given = fragments.accumulator([x[lanes] for x in into], types[2])
            if not scale[first]:
                given = np.zeros_like(given)
            total = self._multiply_add(a * signs[0], (b * signs[1]).T, given, types[0])
            for result, bits in zip(
                results, fragments.accumulator_registers(total, types[2]), strict=True
            ):
                result[lanes] = bits
        return results

    def _check_fenced(
        self, at: int, first: int, sums: tuple[int, ...], factors: tuple[int, ...],
        shape: tuple[int, int],
    ) -> None:  # fmt: skip
        lacks = self._fences.multiply(first, sums, factors, shape) if self._fences else ""
        if lacks:
            raise self.c.fault("missing-wgmma-fence", at, first, f"{lacks}, without wgmma.fence")

    def _multiply_add(self, a: Array, b: Array, c: Array, type_: str) -> Array:
        if c.dtype == np.int32:
            return multiply_add_integers(a, b, c)
        return self.c.launch.tensor_core.multiply_add(a, b, c, type_)

    def _tile(
        self, at: int, lane: int, descriptor: int, rows: int, depth: int, type_: str, turned: bool
    ) -> Array:
        """The (rows, depth) matrix that a descriptor describes."""
        c, memory, width = self.c, self._memory.spaces["shared"], _BYTES[type_]
        places = _tile_offsets(descriptor, rows, depth, width, turned)
        if places is None:
            raise c.fault("misaligned", at, lane, "a matrix along m or n without a swizzle")
        lanes = np.full(places.size, lane)
        where = memory.place(c, at, lanes, places.ravel().astype(np.uint64), width)
        verb = "a matrix product"
        if memory.check(c, at, lanes, where, width, verb, Shadow.begin_read, engine=True):
            group = int(self._groups.current[lane])
            self._reading.append(_Reading(lane, group, where, width))
        memory.check_written(c, at, lanes, where, width)
        bits = memory.view(width)[where // width]
        return _numbers(bits, type_).reshape(rows, depth)


def _tile_offsets(
    descriptor: int, rows: int, depth: int, width: int, turned: bool
) -> npt.NDArray[np.int64] | None:
    """Where the elements (row, k) lie in shared memory."""
    start, leading, stride = (((descriptor >> shift) & 0x3FFF) << 4 for shift in (0, 16, 32))
    swizzle = _SWIZZLE[descriptor >> 62 & 3]
    row, k = np.arange(rows)[:, None], np.arange(depth)[None, :]
    if turned:
        if not swizzle:
            return None
        byte = row * width
        offset = byte // swizzle * leading + k // 8 * stride + k % 8 * swizzle + byte % swizzle
    elif swizzle:
        offset = row // 8 * stride + row % 8 * swizzle + k * width
    else:
        byte = k * width
        offset = row // 8 * stride + byte // 16 * leading + row % 8 * 16 + byte % 16
    return swizzled(start + offset, swizzle)


def _numbers(bits: Array, type_: str) -> Array:
    if _BYTES[type_] == 4:
        return elements(bits, type_)[:, 0]
    if type_ in ("s8", "u8"):
        return bits.view("i1" if type_ == "s8" else "u1").astype(np.int32)
    return elements(bits.view("u4"), type_).ravel()
