"""What an emulated device looks for, and how long it goes on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Checks:
    """Bounds, alignment, barriers and traps are always checked.

    races: shared and global ones, asynchronous copies and products that are used too early, `.nc`
    loads of what is written, missing proxy fences; a launch takes two to four times as long.
    uninitialised: reads of memory that nobody wrote. published_mbarriers: copy engines count on
    mbarriers at the scope of the cluster (PTX manual, "cp.async.bulk": their complete-tx is a
    release at cluster scope), so the initialisation must have been published at that scope, by
    fence.mbarrier_init or a wider release fence. CUTLASS does so always; Triton leaves it out
    where a block is a cluster, and relies on the barriers of the block: switch it off there.
    """

    races: bool = True
    uninitialised: bool = True
    published_mbarriers: bool = True


@dataclass(frozen=True)
class Limits:
    """When a launch is a timeout.

    steps: basic blocks that it may execute. patience: rounds in which all threads only spin. In
    each of these the clock leaps, further and further, up to a second: a kernel that bounds its
    waits by %globaltimer or %clock64 comes to its own end first; one that counts its polls does so
    if it counts fewer.
    """

    steps: int = 20_000_000
    patience: int = 1024
