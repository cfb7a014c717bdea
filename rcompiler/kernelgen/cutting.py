"""How tiles are cut: where they hang over the end of a result, or lie in several of its pieces.

A product needs extents that are known when its code is written. The tiles along a dim differ in few
ways: the first ones are cut off below, the last ones above, and those beside the piece are empty.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Protocol

from rcompiler.kernelgen.emitter import Emitter
from rcompiler.kernelgen.tiling import Range
from rcompiler.kernelgen.value import Val
from rcompiler.linalg.affine import Linear
from rcompiler.linalg.pieces import Piece

# Writes the part of a tile that lies in a piece.
Write = Callable[[list[Range]], None]


class Cutting(Protocol):
    """A way to cut the tiles of one kernel."""

    @property
    def hangs_over(self) -> bool:
        """Whether the last tile is as large as the others, and cut off only where it is written."""

    def needs_extent(self, dim: int) -> bool:
        """Whether how many coordinates a tile has along a dim must be known in the code."""

    def cut(
        self, piece: Piece, ranges: Sequence[Range], shape: Sequence[int], write: Write
    ) -> None:
        """The part of a tile that lies in `piece`, if there is one; shape: of the result."""


class ByBounds:
    """Tiles are cut while a task runs: loops end where the tile or the piece does."""

    hangs_over = False

    def __init__(self, emitter: Emitter, shape: Sequence[int], together: Sequence[int]) -> None:
        """shape: of the first result; together: its dims of which several coordinates are computed
        together.
        """
        self._e, self._shape, self._together = emitter, shape, together

    def needs_extent(self, dim: int) -> bool:
        """Register tiles and vectors have sizes that are known."""
        return dim in self._together

    def cut(
        self, piece: Piece, ranges: Sequence[Range], shape: Sequence[int], write: Write
    ) -> None:
        """As `Cutting.cut`: once."""
        clipped = [self.clip(piece, d, r) for d, r in enumerate(ranges)]
        if all(r.extent is None or r.extent > 0 for r in clipped):
            write(clipped)

    def clip(self, piece: Piece, dim: int, tile: Range) -> Range:
        """What of a tile lies in a piece along one dim."""
        low, high = piece.low[dim], piece.high[dim]
        if tile.start.is_constant and tile.extent is not None:
            start = max(tile.start.constant, low)
            end = min(tile.start.constant + tile.extent, high)
            return Range(Linear(start), end - start, Linear(end))
        if low == 0 and high == (self._shape[dim] if dim < len(self._shape) else high):
            return tile
        first = self._e.max_signed(tile.start, low).symbol
        return Range(first, None, self._e.min_signed(tile.end, high).symbol)


class ByCases:
    """Each way to cut a tile has code of its own: all extents are known there.

    Products that all threads of a block compute together need that, whatever the tile; they are cut
    off together with what lies beside their piece.
    """

    def __init__(
        self,
        emitter: Emitter,
        bounds: ByBounds,
        tile: Sequence[int],
        walked: Sequence[int],
        *,
        hangs_over: bool,
    ) -> None:
        """bounds: cuts results of another rank; walked: dims whose tiles are walked step by step,
        see `walked_dims`.
        """
        self._e, self._bounds, self._tile, self._walked = emitter, bounds, tile, walked
        self.hangs_over = hangs_over

    def needs_extent(self, dim: int) -> bool:
        """Of every dim."""
        return True

    def cut(
        self, piece: Piece, ranges: Sequence[Range], shape: Sequence[int], write: Write
    ) -> None:
        """As `Cutting.cut`: in each case."""
        if len(ranges) != len(self._tile):
            self._bounds.cut(piece, ranges, shape, write)
        else:
            self._in_cases(piece, ranges, [], shape, write)

    def _in_cases(
        self,
        piece: Piece,
        ranges: Sequence[Range],
        done: list[Range],
        shape: Sequence[int],
        write: Write,
    ) -> None:
        """One after the other, the ways in which the piece cuts tiles."""
        e, d = self._e, len(done)
        if d == len(ranges):
            write(done)
            return
        own, tile = ranges[d], min(self._tile[d], shape[d])
        extent = own.extent
        if own.start.is_constant or extent is None:
            clipped = self._bounds.clip(piece, d, own)
            if clipped.extent is None or clipped.extent > 0:
                self._in_cases(piece, ranges, [*done, clipped], shape, write)
            return
        step, size = 1 if d in self._walked else tile, shape[d]
        found, is_last = list(cases(step, size, piece.low[d], piece.high[d])), extent < step
        if size % step and not self.hangs_over:  # the last tile is written apart from the others
            last = size - size % step
            found = [c for c in found if (c.end > last if is_last else c.begin < last)]
        for group in by_extent(found):

            def within(group: list[Case] = group) -> None:
                start, extent = own.start + self._skipped(group, own.start), group[0].extent
                span = Range(start, extent, start + extent)
                self._in_cases(piece, ranges, [*done, span], shape, write)

            e.only(None if is_last else self._is_in(group, own.start, size), within)

    def _is_in(self, group: list[Case], start: Linear, size: int) -> str | None:
        """An i1: is the tile at `start` one of these cases? None: it always is."""
        e = self._e
        total: Val | None = None
        for case in group:
            above = self._compared("sge", start, case.begin) if case.begin > 0 else None
            below = self._compared("slt", start, case.end) if case.end < size else None
            both = e.all_of([above, below])
            if both is None:
                return None
            own = Val(both, "i1")
            total = e.bit_or(total, own) if total else own
        return total.name if total else None

    def _skipped(self, group: list[Case], start: Linear) -> Linear:
        """Coordinates of the tile in front of the piece, in one of these cases."""
        e, [*others, last] = self._e, group
        unit = math.gcd(*(case.skipped for case in group))
        if all(case.skipped == last.skipped for case in others):
            return Linear(last.skipped)
        skipped = e.number(Linear(last.skipped // unit))
        for case in reversed(others):
            own = e.number(Linear(case.skipped // unit))
            skipped = e.select(e.compare("slt", start, case.end), own, skipped)
        e.ranges[skipped.name] = max(case.skipped for case in group) // unit + 1
        return skipped.symbol * unit

    def _compared(self, how: str, value: Linear, bound: int) -> str:
        return self._e.compare(how, value, bound).name


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
