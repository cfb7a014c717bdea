"""Loops over all elements of a box, vectors along its last dim."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from rcompiler.kernelgen.emitter import Emitter
from rcompiler.kernelgen.tiling import Range, lane_cover
from rcompiler.kernelgen.value import Val
from rcompiler.linalg.affine import LANE, Linear


def for_each(e: Emitter, shape: Sequence[int], body: Callable[[list[Linear], int], None]) -> None:
    """Call `body(coordinates, lanes)` inside of a loop nest over `shape`; lanes 0 is a scalar
    element.
    """
    for_each_in(e, [Range(Linear(), n, Linear(n)) for n in shape], body)


def for_each_in(
    e: Emitter, ranges: Sequence[Range], body: Callable[[list[Linear], int], None]
) -> None:
    """As `for_each`, over ranges of the coordinates."""
    at = [Linear()] * len(ranges)

    def nest(dim: int) -> None:
        if dim == len(ranges):
            body(list(at), 0)
            return
        last = dim == len(ranges) - 1
        for start, count, width in _spans(e, ranges[dim], e.native_lanes if last else 1):

            def step(i: Linear, _: list[Val], *, width: int = width, start: Linear = start) -> None:
                at[dim] = start + i * width + (Linear.of(LANE) if width > 1 else 0)
                if last:
                    body(list(at), width if width > 1 else 0)
                else:
                    nest(dim + 1)

            e.loop(Linear(0), count, 1, [], step)

    nest(0)


def _spans(e: Emitter, own: Range, lanes: int) -> Iterator[tuple[Linear, Linear, int]]:
    """Parts of a range, one behind the other: start, vectors, and the width of these."""
    start = own.start
    if own.extent is not None:
        left = own.extent
        for width in lane_cover(left, lanes):
            yield start, Linear(left // width), width
            start, left = start + left // width * width, left % width
        return
    if lanes > 1:
        count = e.div_unsigned(own.end + start * -1, lanes).symbol
        yield start, count, lanes
        start = start + count * lanes
    yield start, own.end + start * -1, 1
