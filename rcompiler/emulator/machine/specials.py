"""Special registers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rcompiler.emulator.lanes import Array
from rcompiler.emulator.machine.threads import Threads


def _indices(c: Threads) -> dict[str, Array]:
    launch = c.launch
    thread, number = c.lanes % c.threads, c.clocks.block
    return {
        "tid.x": thread % launch.block[0],
        "tid.y": thread // launch.block[0] % launch.block[1],
        "tid.z": thread // (launch.block[0] * launch.block[1]),
        "ctaid.x": number % launch.grid[0],
        "ctaid.y": number // launch.grid[0] % launch.grid[1],
        "ctaid.z": number // (launch.grid[0] * launch.grid[1]),
    }


_LANE_MASKS: dict[str, Callable[[Array], Array]] = {
    "lanemask_eq": lambda lane: np.uint64(1) << lane,
    "lanemask_lt": lambda lane: (np.uint64(1) << lane) - np.uint64(1),
    "lanemask_le": lambda lane: (np.uint64(2) << lane) - np.uint64(1),
    "lanemask_gt": lambda lane: np.uint64(2**32 - 1) & ~((np.uint64(2) << lane) - np.uint64(1)),
    "lanemask_ge": lambda lane: np.uint64(2**32 - 1) & ~((np.uint64(1) << lane) - np.uint64(1)),
}


def special(c: Threads, name: str) -> Array:
    """The value of a special register ("%tid.x") in every lane."""
    name, launch = name[1:], c.launch
    indices = _indices(c)
    if name in indices:
        return indices[name]
    if name in _LANE_MASKS:
        return _LANE_MASKS[name]((c.lanes % 32).astype(np.uint64))
    clock, axes = launch.clock, dict(zip("xyz", range(3), strict=True))
    head, _, axis = name.partition(".")
    uniform = {
        "clock": clock & 0xFFFFFFFF, "clock_hi": clock >> 32, "clock64": clock,
        "globaltimer": clock, "globaltimer_lo": clock & 0xFFFFFFFF, "globaltimer_hi": clock >> 32,
        "nwarpid": c.threads // 32, "nsmid": launch.multiprocessors, "gridid": 0,
        "total_smem_size": launch.shared_bytes, "dynamic_smem_size": launch.dynamic_bytes,
        "cluster_ctaid": 0, "cluster_nctaid": 1, "cluster_ctarank": 0,
    }  # fmt: skip
    if head in uniform:
        return np.full(c.count, uniform[head], np.uint64)
    if head in ("ntid", "nctaid"):
        return np.full(c.count, (launch.block if head == "ntid" else launch.grid)[axes[axis]])
    lanes: dict[str, Array] = {
        "laneid": c.lanes % 32,
        "warpid": c.lanes % c.threads // 32,
        "smid": c.clocks.block % launch.multiprocessors,
    }
    return lanes[head]
