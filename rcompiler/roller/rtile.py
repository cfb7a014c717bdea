"""rTile alignment rules (Roller §3.1, §3.2) with their CPU analogues.

| Roller             | here                                                                       |
|--------------------|----------------------------------------------------------------------------|
| execution unit     | the vector axis in whole vectors; accumulators cover FMA latency x ports   |
| memory transaction | the tile of the vector axis in whole cache lines                           |
| memory bank        | rows of a tile in one cache set (`set_conflicts`): explained, not avoided  |
| tensor shape       | near-equal splits instead of padding: `near_equal`, `splits`               |

Rows in one set cost little here, so that strides are not padded: the operand that conflicts is
broadcast, one element of a line at a time, and lines come back from the second level in time.
Measured, products of 128 x 768 results with 13 rows in a set of 12 ways: 4096 steps 213 GF/s, 4112
steps (no conflict) 217; of 13 x 768: 168 and 179.
"""

import math
from collections.abc import Sequence

import numpy as np

from rcompiler.device.model import MemoryLevel


def near_equal(size: int, limit: int) -> tuple[int, ...]:
    """Tile sizes <= limit that split `size` into near-equal parts, largest first.

    For a number of parts, the smallest tile that covers: near_equal(128, 14) starts with 13
    (9 x 13 + 11) and never offers 14 (9 x 14 + 2), whose remainder would be a poor tile.
    """
    if size < 1 or limit < 1:
        return (1,)
    found = {-(-size // -(-size // tile)) for tile in range(1, min(size, limit) + 1)}
    return tuple(sorted(found, reverse=True))


def splits(size: int, unit: int, limit: int) -> tuple[int, ...]:
    """Task tile sizes of an axis in multiples of `unit`, near-equal, at most `limit` parts.

    Largest (the whole axis) first. Every tile is a multiple of `unit` or the whole axis. Numbers
    of parts grow geometrically beyond 6: 1 2 3 4 5 6 8 10 12 16 20 24 32 ...
    """
    if size <= unit:  # the lines below take long for what most axes are
        return (max(1, size),)
    units = math.ceil(size / unit)
    found = {size}
    for parts in _parts(min(units, limit)):
        found.add(min(size, math.ceil(units / parts) * unit))
    return tuple(sorted(found, reverse=True))


def combinations(choices: Sequence[Sequence[int]]) -> np.ndarray:
    """Every combination of a choice per axis, int64 [combinations, axes], the last axis fastest."""
    found = np.empty((*map(len, choices), len(choices)), np.int64)
    for axis, choice in enumerate(choices):
        rest = len(choices) - axis - 1
        found[..., axis] = np.reshape(choice, (-1, *[1] * rest))
    return found.reshape(-1, len(choices))


def _parts(limit: int) -> list[int]:
    steps = [1, 2, 3, 4, 5, 6]
    base = 8
    while base <= limit:
        steps += [base, base + base // 4, base + base // 2]
        base *= 2
    # the finest split is always there: one unit per part
    return sorted({step for step in steps if step <= limit} | {limit})


def shape_waste(size: int, tile: int) -> float:
    """Padding eps of Roller §3.2: (covered - size) / size."""
    return (math.ceil(size / tile) * tile - size) / size if size else 0.0


def line_unit(register_tile: int, line: int, itemsize: int) -> int:
    """Step of the vector axis in task tiles: whole register tiles and lines, no false sharing."""
    return math.lcm(register_tile, max(1, line // itemsize))


def set_conflicts(stride: int, rows: int, level: MemoryLevel) -> int:
    """Lines that compete for the fullest cache set when `rows` rows lie `stride` bytes apart.

    More than `level.ways` of them evict each other. Banks of a scratchpad work the same way.
    """
    if rows < 1:
        return 0
    # the sets repeat with this period, so only that many rows need counting
    period = max(1, math.lcm(stride, level.way_bytes) // stride) if stride else 1
    hits: dict[int, int] = {}
    for row in range(min(rows, period)):
        position = stride * row % level.way_bytes // level.line
        hits[position] = hits.get(position, 0) + len(range(row, rows, period))
    return max(hits.values())


def grid_of(sizes: Sequence[int], tile: Sequence[int]) -> tuple[int, ...]:
    """Tiles along every axis; the last of an axis may be partial."""
    return tuple(math.ceil(size / step) for size, step in zip(sizes, tile, strict=True))
