"""Reshapes of tensors of which only a part is there: where the elements go, and which part is left.

Those that are there lie at the start of each axis. A reshape at the bounds keeps that where, of the
dims that are joined or split, only the first is not all there: [seq, 12, 64] as [seq, 768].
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from rcompiler.support.extent import Extent, InexactDivision, Size, highest, product
from rcompiler.support.shapes import reassociation

from .value import Extents, SizeAtRunTime, extent_of

_Dims = list[tuple[Size, int]]  # sizes and their bounds


def _groups(
    source: Sequence[Size], bounds: Sequence[int], target: Sequence[Size], to: Sequence[int]
) -> list[tuple[_Dims, _Dims]] | None:
    """Smallest groups of dims with equal products, of the sizes and of their bounds; dims of one
    element are left out. None where there are none."""
    own = [pair for pair in zip(source, bounds, strict=True) if pair[0] != 1]
    others = [pair for pair in zip(target, to, strict=True) if pair[0] != 1]
    if 0 in (*bounds, *to) or math.prod(bounds) != math.prod(to):
        return None
    groups: list[tuple[_Dims, _Dims]] = []
    joined: tuple[_Dims, _Dims] = ([], [])
    for a, b in reassociation([n for _, n in own], [n for _, n in others]):
        joined[0].extend(own[i] for i in a)
        joined[1].extend(others[j] for j in b)
        if product(size for size, _ in joined[0]) == product(size for size, _ in joined[1]):
            groups.append(joined)
            joined = ([], [])
    return None if any(joined) else groups


def keeps_prefix(
    source: Sequence[Size], bounds: Sequence[int], target: Sequence[Size], to: Sequence[int]
) -> bool:
    """Whether a reshape at the bounds moves the elements that are there to where they belong: of
    each group only the first dim may not be all there."""
    groups = _groups(source, bounds, target, to)
    return groups is not None and not any(
        isinstance(size, Extent) for group in groups for side in group for size, _ in side[1:]
        if len(group[0]) != 1 or len(group[1]) != 1
    )  # fmt: skip


def reshaped_extents(source: Sequence[Size], bounds: Sequence[int], to: Sequence[int]) -> Extents:
    """The extents of a result of which only the shape at the bounds is given.

    Raises SizeAtRunTime where they cannot be told.
    """
    own = [(size, n) for size, n in zip(source, bounds, strict=True) if size != 1]
    units = [n for _, n in own] == [n for n in to if n != 1]
    rest = iter(own)
    if units:
        return tuple(None if n == 1 else extent_of(next(rest)[0]) for n in to)
    found: list[Extent | None] = [None] * len(to)
    others = [j for j, n in enumerate(to) if n != 1]
    for a, b in reassociation([n for _, n in own], [to[j] for j in others]):
        sizes = [own[i][0] for i in a]
        if not any(isinstance(size, Extent) for size in sizes):
            continue
        try:
            first = product(sizes) // math.prod(to[others[j]] for j in b[1:])
        except InexactDivision:
            first = 1
        if (
            any(isinstance(size, Extent) for size in sizes[1:])
            or highest(first) != to[others[b[0]]]
        ):
            raise SizeAtRunTime(f"dimensions of {sizes} elements are joined or split")
        found[others[b[0]]] = extent_of(first)
    return tuple(found)
