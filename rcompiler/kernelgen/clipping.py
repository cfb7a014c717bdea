"""Which part of a tile lies in a piece of the result, tile by tile along one dim.

A product needs extents that are known when its code is written. The tiles along a dim differ in few
ways: the first ones are cut off below, the last ones above, and those beside the piece are empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


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
    found: Case | None = None
    for start in range(0, size, tile):
        begin, end = max(start, low), min(start + tile, size, high)
        case = Case(start, start + tile, begin - start, max(end - begin, 0))
        if found and (found.skipped, found.extent) == (case.skipped, case.extent):
            found = Case(found.begin, case.end, case.skipped, case.extent)
            continue
        if found and found.extent:
            yield found
        found = case
    if found and found.extent:
        yield found


def by_extent(found: Iterable[Case]) -> list[list[Case]]:
    """Cases that the same code does, each of them in their order: it begins elsewhere."""
    groups: dict[int, list[Case]] = {}
    for case in found:
        groups.setdefault(case.extent, []).append(case)
    return list(groups.values())
