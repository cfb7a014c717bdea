"""Which part of a tile lies in a piece of the result, tile by tile along one dim.

A product needs extents that are known when its code is written. The tiles along a dim differ in few
ways: the first ones are cut off below, the last ones above, and those beside the piece are empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby


@dataclass(frozen=True)
class Case:
    """Tiles that are cut in the same way.

    begin, end: what their first coordinate is in. skipped: coordinates of the tile in front of the
    piece; extent: those in it.
    """

    begin: int
    end: int
    skipped: int
    extent: int


def cases(tile: int, size: int, low: int, high: int) -> Iterator[Case]:
    """How tiles of `tile` coordinates, the last of which may hang over `size`, have coordinates in
    [low, high); those that have none are left out.
    """

    def cut(start: int) -> tuple[int, int]:
        begin = max(start, low)
        return begin - start, max(min(start + tile, size, high) - begin, 0)

    for (skipped, extent), tiles in groupby(range(0, size, tile), cut):
        if extent:
            starts = [*tiles]
            yield Case(starts[0], starts[-1] + tile, skipped, extent)


def by_extent(found: Iterable[Case]) -> list[list[Case]]:
    """Cases that the same code does, each of them in their order: it begins elsewhere."""
    groups: dict[int, list[Case]] = {}
    for case in found:
        groups.setdefault(case.extent, []).append(case)
    return list(groups.values())
