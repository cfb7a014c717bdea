"""Which tiles of constants stay in the own memory of the execution units that read them.

A recurrent network reads the same weights in every step. Where the rTasks of all steps that read
one tile are on one EU, the tile is brought there once and stays (the residency of persistent RNNs,
here as a part of the schedule: Rammer, OSDI'20 §3.1, has EUs, but nothing that outlives an rTask).
The schedule stays as it is: who is placed elsewhere reads the constant in memory, as before.
"""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from rcompiler.device.model import Device
from rcompiler.rammer.kernel import Kernel
from rcompiler.roller.cost import side_by_side

ALIGNMENT = 64  # bytes: as all buffers
_LEAST_USES = 4  # of a tile, the one that brings it included

_Key = TypeVar("_Key", bound=Hashable)


Places = tuple[tuple[int, int, int], ...]
"""For each EU that runs rTasks of an operator: the EU, its first rTask, and how many."""


@dataclass(frozen=True)
class Use:
    """Operators that read a constant at the same places, and are decided together. times: how many
    they are.
    """

    group: int
    times: int
    places: Places


@dataclass(frozen=True)
class Tiles:
    """A constant as its readers cut it: bytes of the tile of an rTask, and who reads."""

    size: int
    uses: tuple[Use, ...]


@dataclass(frozen=True)
class Slot:
    """Where EUs keep their tiles: bytes of their memory, which tiles, and the groups that find them
    there.
    """

    offset: int
    end: int
    places: Places
    groups: frozenset[int]


def pin(constants: Mapping[_Key, Tiles], room: int) -> dict[_Key, Slot]:
    """Slots in `room` bytes of each EU, for what is read most often first; one offset for all tiles
    of a constant, so that the lists of EUs stay alike. Deterministic.
    """
    found: dict[_Key, Slot] = {}
    ends: dict[int, int] = {}  # by EU, of what it has so far
    wanted = {key: _most(tiles) for key, tiles in constants.items()}
    for key in sorted(wanted, key=lambda key: -wanted[key][0]):
        times, places = wanted[key]
        if times < _LEAST_USES:
            continue
        tiles = constants[key]
        offset = max(ends.get(eu, 0) for eu, _, _ in places)
        end = offset + tiles.size * max(count for _, _, count in places)
        if end > room:
            continue
        ends.update((eu, -(-end // ALIGNMENT) * ALIGNMENT) for eu, _, _ in places)
        groups = frozenset(use.group for use in tiles.uses if use.places == places)
        found[key] = Slot(offset, end, places, groups)
    return found


def _most(tiles: Tiles) -> tuple[int, Places]:
    """How often the tiles are read at the places where they are read most often."""
    times: Counter[Places] = Counter()
    for use in tiles.uses:
        times[use.places] += use.times
    [(places, most)] = times.most_common(1)
    return most, places


def pinned_ns(
    kernel: Kernel, operands: Sequence[int], device: Device
) -> tuple[float, dict[str, float]]:
    """ns of an rTask that finds these operands in its EU's own memory, and those of its parts.

    kernel: as estimated with all operands in memory; what it waits for memory is taken to be in
    proportion to the bytes that come from there.
    """
    own = device.first_level
    left = replace(kernel, pinned=tuple(operands)).task_bytes
    parts = {
        name: ns if name == "compute" else ns * left / kernel.task_bytes
        for name, ns in kernel.parts
    }
    parts[own.name] = parts.get(own.name, 0.0) + (kernel.task_bytes - left) / own.bandwidth
    saved = side_by_side(ns for _, ns in kernel.parts) - side_by_side(parts.values())
    return max(kernel.estimated_ns - max(saved, 0.0), device.costs.step_ns), parts


def bring_ns(size: int, device: Device) -> float:
    """ns of an rTask that brings so many bytes from memory, while all EUs do."""
    return device.costs.step_ns + size / device.main_memory.share(device.eus)
