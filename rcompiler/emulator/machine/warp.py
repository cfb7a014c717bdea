"""What the threads of a warp tell each other: shuffles, votes, reductions."""

from __future__ import annotations

from typing import Any

import numpy as np

from rcompiler.emulator.lanes import WARP, Array
from rcompiler.emulator.machine.threads import Threads

_REDUCTIONS: dict[str, Any] = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip


class Warps:
    """`members`: the mask that an instruction names, bits of the lanes that take part."""

    def __init__(self, c: Threads) -> None:
        self.c = c
        self.lane = c.lanes % WARP
        self._bit = np.uint32(1) << self.lane.astype(np.uint32)

    def meet(self, mask: Array) -> None:
        """An instruction that whole warps execute together orders their accesses."""
        c = self.c
        if c.launch.checks.races:
            c.launch.now += 1
            c.clocks.sync_warps(mask, c.live, c.launch.now)

    def check_whole(self, at: int, mask: Array, size: int = WARP) -> None:
        """Refuse an instruction that part of a warp (or of `size` threads) executes."""
        grouped = mask.reshape(-1, size)
        partial = grouped.any(axis=1) & ~grouped.all(axis=1)
        if partial.any():
            group = int(np.flatnonzero(partial)[0])
            lane = group * size + int(np.flatnonzero(grouped[group])[0])
            here = int(grouped[group].sum())
            raise self.c.fault("partial-warp", at, lane, f"{here} of {size} threads execute it")

    def _check_members(self, at: int, mask: Array, members: Array) -> None:
        """Every member must be here, and everybody who is here must be a member."""
        here = self._ballot(mask)
        wanted = members & self._ballot(self.c.live)
        wrong = mask & ((wanted & ~here != 0) | (members & self._bit == 0))
        if wrong.any():
            lane = int(np.flatnonzero(wrong)[0])
            raise self.c.fault(
                "partial-warp",
                at,
                lane,
                f"lanes {int(members[lane]):#010x} are to take part, {int(here[lane]):#010x} do",
            )
        self.meet(mask)

    def _ballot(self, asked: Array) -> Array:
        """Bits of the lanes for which it is true, in every lane of their warp."""
        bits = np.where(asked, self._bit, np.uint32(0)).reshape(-1, WARP)
        return np.repeat(np.bitwise_or.reduce(bits, axis=1), WARP)

    def sync(self, at: int, mask: Array, members: Array) -> None:
        self._check_members(at, mask, members)

    def shuffle(
        self, at: int, mask: Array, mode: str, value: Array, by: Array, bounds: Array,
        members: Array,
    ) -> tuple[Array, Array]:  # fmt: skip
        """The value of another lane, and whether that one is in bounds."""
        self._check_members(at, mask, members)
        by, lane = (by & np.uint32(31)).astype(np.int64), self.lane
        clamp = (bounds & np.uint32(31)).astype(np.int64)
        segment = ((bounds >> np.uint32(8)) & np.uint32(31)).astype(np.int64)
        low, high = lane & segment, (lane & segment) | (clamp & ~segment)
        match mode:
            case "up":
                source = lane - by
                valid = source >= high
            case "down":
                source = lane + by
                valid = source <= high
            case "bfly":
                source = lane ^ by
                valid = source <= high
            case _:
                source = low | (by & ~segment)
                valid = source <= high
        source = np.where(valid, source, lane) + self.c.lanes - lane
        absent = mask & ~mask[source]
        if absent.any():
            first = int(np.flatnonzero(absent)[0])
            other = int(source[first]) % WARP
            raise self.c.fault("partial-warp", at, first, f"lane {other} is not here to be read")
        return value[source], valid

    def vote(self, at: int, mask: Array, mode: str, asked: Array, members: Array) -> Array:
        self._check_members(at, mask, members)
        yes, here = self._ballot(asked & mask), self._ballot(mask)
        match mode:
            case "all":
                return yes == here
            case "any":
                return yes != 0
            case "uni":
                return (yes == here) | (yes == 0)
        return yes

    def match(
        self, at: int, mask: Array, mode: str, value: Array, members: Array
    ) -> tuple[Array, Array]:
        """Lanes with this lane's value (any), or all lanes if all have one value (all)."""
        self._check_members(at, mask, members)
        values, here = value.reshape(-1, WARP), mask.reshape(-1, WARP)
        same = (values[:, :, None] == values[:, None, :]) & here[:, None, :]
        bits = np.where(same, np.uint32(1) << np.arange(WARP, dtype=np.uint32), np.uint32(0))
        found = np.bitwise_or.reduce(bits, axis=2).ravel()
        if mode == "any":
            return found, mask
        unanimous = found == self._ballot(mask)
        unanimous = np.repeat((unanimous | ~mask).reshape(-1, WARP).all(axis=1), WARP)
        return np.where(unanimous, found, np.uint32(0)), unanimous

    def reduce(self, at: int, mask: Array, mode: str, value: Array, members: Array) -> Array:
        self._check_members(at, mask, members)
        limits = np.iinfo(value.dtype)
        neutral = {"min": limits.max, "max": limits.min, "and": ~value.dtype.type(0)}.get(mode, 0)
        kept = np.where(mask, value, np.asarray(neutral, value.dtype)).reshape(-1, WARP)
        return np.repeat(_REDUCTIONS[mode].reduce(kept, axis=1, dtype=value.dtype), WARP)

    def elect(self, at: int, mask: Array, members: Array) -> tuple[Array, Array]:
        """The lowest member, and whether this lane is it."""
        self._check_members(at, mask, members)
        here = mask.reshape(-1, WARP)
        leader = np.repeat(here.argmax(axis=1), WARP)
        return leader.astype(np.uint32), self.lane == leader

    def active(self, mask: Array) -> Array:
        return self._ballot(mask)
