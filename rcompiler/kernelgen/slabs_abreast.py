"""Iterations that have slabs of their own, on a core: in order, several abreast in lockstep."""

from __future__ import annotations

from collections.abc import Sequence

from rcompiler.kernelgen.sequential import carried_numbers
from rcompiler.kernelgen.slabs import Slabs
from rcompiler.kernelgen.tiling import Range, lane_cover
from rcompiler.linalg.affine import LANE, Linear
from rcompiler.linalg.independent_loops import in_vectors

# Numbers that iterations in lockstep, or vectors of them, carry from step to step where they are
# written together: as many as hide how long an addition takes.
ABREAST = 4


def write_abreast(slabs: Slabs, ranges: Sequence[Range]) -> None:
    """The iterations of `ranges`, several of the innermost abreast where they take the same way."""
    *outer, last = ranges
    sizes = _group_sizes(slabs)

    def nest(ranges: Sequence[Range], at: list[Linear]) -> None:
        if len(at) == slabs.contiguous:
            slabs.copy(at, [*ranges, last])
        if ranges:
            own, *rest = ranges
            slabs.emitter.loop(own.start, own.end, 1, [], lambda i, _: nest(rest, [*at, i]))
            return
        start = last.start
        for count, lanes in sizes:
            start = _groups(slabs, last, start, count, lanes, at)

    nest(outer, [])


def _group_sizes(slabs: Slabs) -> list[tuple[int, int]]:
    """How many members of how many lanes are written together, the largest groups first."""
    if not slabs.lockstep:
        return [(1, 0)]
    innermost = slabs.nest[-1].loop
    most = max(ABREAST // max(carried_numbers(innermost), 1), 1)
    several = lane_cover(2 * most - 1, most)  # then half of it, and so on
    width = slabs.emitter.native_lanes if in_vectors(innermost) else 1
    lanes = [n if n > 1 else 0 for n in lane_cover(2 * width - 1, width)]
    return [(n, lanes[0]) for n in several] + [(1, n) for n in lanes[1:]]


def _groups(
    slabs: Slabs, own: Range, start: Linear, count: int, lanes: int, at: list[Linear]
) -> Linear:
    """The iterations of `own` from `start` on that fill groups of `count` times `lanes`; the first
    that is left.
    """
    e, size = slabs.emitter, count * max(lanes, 1)
    if own.extent is not None:
        left = own.start + own.extent + start * -1
        end = start + left.constant // size * size
    elif size == 1:
        end = own.end
    else:
        end = start + e.div_unsigned(own.end + start * -1, size).symbol * size

    def group(i: Linear, _: list) -> None:
        first = i + (Linear.of(LANE) if lanes else 0)
        members = [[*at, first + k * max(lanes, 1)] for k in range(count)]
        if slabs.contiguous == len(slabs.nest):
            for member in members:
                slabs.copy(member)
        slabs.write(members, lanes)

    if end != start:
        e.loop(start, end, size, [], group)
    return end
