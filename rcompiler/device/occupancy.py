"""How many blocks of threads an EU of a GPU runs at once: what a persistent kernel must know, since
its blocks wait for one another and must all be there.

    co_resident(find_device("cuda:h200"), BlockNeeds(threads=256, registers=128, shared=36_864))
"""

from __future__ import annotations

from dataclasses import dataclass

from rcompiler.device.model import Device
from rcompiler.device.residency import Residency
from rcompiler.errors import DeviceError


@dataclass(frozen=True)
class BlockNeeds:
    """What a block takes: threads, registers of each, bytes of static and dynamic shared memory."""

    threads: int
    registers: int
    shared: int = 0


@dataclass(frozen=True)
class Occupancy:
    """Blocks and warps that one EU runs at once. `limits`: how many blocks each thing alone would
    let in; `limiter`: the one that lets in the fewest, the first of several.
    """

    blocks: int
    warps: int
    limits: tuple[tuple[str, int], ...]

    @property
    def limiter(self) -> str:
        return min(self.limits, key=lambda limit: limit[1])[0]


def occupancy(device: Device, needs: BlockNeeds) -> Occupancy:
    """Blocks of one EU; 0 where one alone takes more than it may.

    Raises DeviceError for a device without residency, or needs that no block has.
    """
    holds = device.known_residency
    if needs.threads < 1 or needs.registers < 0 or needs.shared < 0:
        raise DeviceError(f"a block has one thread or more, and no negative needs: {needs}")
    warps = -(-needs.threads // device.compute.warp)
    limits = (
        ("blocks", holds.blocks),
        ("warps", min(holds.warps, holds.threads // device.compute.warp) // warps),
        ("registers", _by_registers(device, holds, warps, needs.registers)),
        ("shared memory", _by_shared(holds, needs.shared)),
        ("threads of a block", holds.blocks if needs.threads <= holds.block_threads else 0),
    )
    blocks = min(count for _, count in limits)
    return Occupancy(blocks, blocks * warps, limits)


def co_resident(device: Device, needs: BlockNeeds) -> int:
    """Blocks that all EUs together run at once: the largest grid whose blocks may wait for one
    another. Raises as `occupancy`.
    """
    return device.eus * occupancy(device, needs).blocks


def _by_registers(device: Device, holds: Residency, warps: int, registers: int) -> int:
    """Each partition of an EU has registers of its own, and warps of a block go to all in turn."""
    if not registers:
        return holds.blocks
    partitions = device.compute.partitions
    of_warp = _up(registers * device.compute.warp, holds.register_unit)
    if registers > holds.thread_registers or of_warp * _up(warps, partitions) > (
        holds.block_registers
    ):
        return 0
    return holds.registers // partitions // of_warp * partitions // warps


def _by_shared(holds: Residency, shared: int) -> int:
    if shared > holds.block_shared:
        return 0
    taken = _up(shared + holds.shared_reserved, holds.shared_unit)
    return holds.shared // taken if taken else holds.blocks


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
