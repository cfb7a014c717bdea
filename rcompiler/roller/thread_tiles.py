"""How the threads of a block share in a tile: pure numbers.

Threads work in groups of neighbours, one for each element of a vector along the vector dim. Groups
take register tiles in turn; a thread has the same element of each vector.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

MOST_SUMS = 64  # of a thread: with what it fetches ahead they stay in 255 registers
IN_FLIGHT = 16  # elements that a thread reads, and keeps in registers, before it stores the first
SUMS_IN_FLIGHT = 8  # the same of elements that are sums, all of which it keeps


@dataclass(frozen=True)
class BlockThreads:
    """The threads of a block, and of a group."""

    count: int
    group: int


@dataclass(frozen=True)
class ThreadTiles:
    """What a group of threads makes at a time of a tile.

    Attributes:
        register_tile: its extent along each dim of the tile.
        vector: the dim that the threads of a group stand along, -1 for none.
        lanes: threads of a group.
        sums: whether elements are sums, which have loads enough in their loops.
    """

    register_tile: tuple[int, ...]
    vector: int
    lanes: int
    sums: bool

    @staticmethod
    def of(
        register_tile: Sequence[int],
        vector_dim: int,
        lanes: int,
        extents: Sequence[int | None],
        threads: BlockThreads,
        *,
        sums: bool,
    ) -> ThreadTiles:
        """Of a tile of `extents`, None for those that only a run knows, from the register tile that
        roller has chosen, the dim that its vectors go along, and their lanes.
        """
        width = threads.group
        lanes = lanes_of(vector_dim, lanes, width)
        own = most_of_thread(register_tile, vector_dim, lanes)
        own = for_all_groups(own, vector_dim, lanes, extents, threads.count // width)
        own = tuple(own[d] if d < len(own) else 1 for d in range(len(extents)))
        vector = vector_dim if vector_dim < len(extents) else -1
        return ThreadTiles(own, vector, lanes if vector >= 0 else 1, sums)

    def cover(self, dim: int, extent: int) -> Iterator[tuple[int, int]]:
        """(size, count) of what covers `extent` elements along a dim: whole register tiles, then
        what is left; along the vector dim first that of whole vectors.
        """
        size = self.register_tile[dim]
        parts = step_cover(extent, size, even=self.sums)
        if dim == self.vector:
            size = max(size // self.lanes, 1) * self.lanes
            count, rest = divmod(extent, size)
            whole = rest // self.lanes * self.lanes
            parts = [(size, count), (whole, min(whole, 1)), (rest - whole, min(rest - whole, 1))]
        return ((size, count) for size, count in parts if count)

    def in_flight(self, elements: int, lanes: int) -> int:
        """How many elements a thread reads before it stores the first, where it has so many of each
        register tile, in a group of so many threads: one load at a time has the latency of memory
        to itself. What is left at the end of rows is little.
        """
        if self.sums:
            return min(elements, SUMS_IN_FLIGHT)
        return IN_FLIGHT if lanes == self.lanes else min(elements, IN_FLIGHT)


def group_width(lanes: int, warp: int) -> int:
    """Threads of a group: as many as a vector has lanes, a power of two up to a warp."""
    return min(1 << (max(lanes, 1).bit_length() - 1), warp)


def lanes_of(vector_dim: int, lanes: int, width: int) -> int:
    """Elements along the vector dim that a group of `width` threads takes at a time."""
    return min(max(lanes, 1), width) if vector_dim >= 0 else 1


def most_of_thread(register_tile: Sequence[int], vector_dim: int, lanes: int) -> tuple[int, ...]:
    """A register tile of which each thread has no more than stays in its registers."""
    return tuple(halved(register_tile, vector_dim, lanes, MOST_SUMS * lanes))


def for_all_groups(
    register_tile: tuple[int, ...],
    vector_dim: int,
    lanes: int,
    extents: Sequence[int | None],
    groups: int,
) -> tuple[int, ...]:
    """A register tile so small that no group is idle while another has more than one."""
    known = [extent or 0 for extent in extents]
    if not all(known) or len(known) != len(register_tile):
        return register_tile
    sizes = list(map(min, register_tile, known))
    return tuple(halved(sizes, vector_dim, lanes, max(math.prod(known) // groups, lanes)))


def halved(sizes: Sequence[int], vector: int, lanes: int, most: int) -> list[int]:
    """Extents of a box of at most `most` elements, the largest halved first; that of the dim
    `vector` is a multiple of `lanes` if it is not whole.
    """
    found = list(sizes)
    while math.prod(found) > most:
        units = [-(-n // (lanes if d == vector else 1)) for d, n in enumerate(found)]
        largest = units.index(max(units))
        if units[largest] == 1:
            break
        found[largest] = -(-units[largest] // 2) * (lanes if largest == vector else 1)
    return found


def step_cover(extent: int, step: int, *, even: bool) -> list[tuple[int, int]]:
    """(size, count) of the register tiles that cover `extent`: those of `step`, then what is left.

    even: the last two are of equal size if less than half a tile is left and that can be. The cost
    model (`RegisterModel.total`) counts a whole and a short one, which take as long or longer.
    """
    step = max(min(step, extent), 1)
    count, left = divmod(extent, step)
    if not left:
        return [(step, count)]
    if even and 2 * left < step and (step + left) % 2 == 0:
        return [(step, count - 1), ((step + left) // 2, 2)]
    return [(step, count), (left, 1)]
