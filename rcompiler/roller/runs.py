"""Runs of neighbouring bytes: what a tile touches of a tensor as memory sees it."""

from collections.abc import Sequence

import numpy as np

from rcompiler.roller.expr import TensorAccess
from rcompiler.roller.index_expr import Index, Number
from rcompiler.roller.numerics import maximum, minimum, where


def inside(access: TensorAccess, sizes: Sequence[int]) -> tuple[float, ...]:
    """Per dimension, how much of what a box of `sizes` names is there: a part of a concatenation is
    read for some results only.
    """
    shares = []
    for dim, size in zip(access.dims or (), access.shape, strict=access.dims is not None):
        low, high = (0, 0) if dim is None else dim.bounds(sizes)
        shares.append(min(1.0, size / max(1, int(high) - int(low) + 1)))
    return tuple(shares)


def runs(
    access: TensorAccess, sizes: Sequence[Number], line: int, shares: Sequence[float]
) -> tuple[Number, Number]:
    """Pieces of neighbouring bytes that a tile of `sizes` touches: how many, and bytes of each.

    They are rounded up to transactions of `line` bytes; a data-dependent access is a line per
    point. Whole trailing dimensions join up with the dimension before them into one piece. shares:
    `inside` of the whole space, anywhere in which the tile may lie: the mean over all places.
    """
    if access.dims is None:
        points = np.prod(np.broadcast_arrays(*sizes), axis=0) if len(sizes) else 1
        return points, max(line, access.itemsize)
    run: Number = 1
    pieces: Number = 1
    joined: Number = True
    for dim, size, share in reversed(list(zip(access.dims, access.shape, shares, strict=True))):
        extent = _extent(access, dim, size, share, sizes)
        run, pieces = where(joined, run * extent, run), where(joined, pieces, pieces * extent)
        joined = joined & (extent >= size)
    return pieces, np.ceil(run * access.itemsize / line) * line


def _extent(
    access: TensorAccess, dim: Index | None, size: int, share: float, sizes: Sequence[Number]
) -> Number:
    """Positions of one dimension; with the holes of strided accesses, which move through the levels
    of memory as well.
    """
    if dim is None:
        return minimum(access.free_points(sizes), size)
    low, high = dim.bounds(sizes)
    return maximum(minimum((high - low + 1) * share, size), 0)
