"""Access: which elements of a tensor an iteration space reads or writes (Roller §3.1)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rcompiler.roller.index_expr import Index, Number, count_sums
from rcompiler.roller.numerics import distinct

_ENUMERATE = 1 << 16  # points of a floordiv/mod or clamped access that are counted one by one


@dataclass(frozen=True)
class TensorAccess:
    """How the iteration space reads or writes one tensor.

    `shape`: of the tensor, in elements of `itemsize` bytes. `dims`: one Index per dimension; None
    for a dimension whose position depends on data (the rows of a gather, which are taken not to
    depend on the vector axis), or None for all when every element may lie anywhere. Elements
    outside of `shape` (the halo of a padded convolution) do not exist and are not counted.
    `kept`: in the workspace of the execution unit, where it takes room and no traffic.
    """

    shape: tuple[int, ...]
    itemsize: int
    dims: tuple[Index | None, ...] | None
    kept: bool = False

    def axes(self) -> frozenset[int]:
        """Positions of all axes the access names."""
        return self._axes

    @cached_property
    def _axes(self) -> frozenset[int]:
        return frozenset().union(*(dim.axes() for dim in self.dims or () if dim is not None))

    @property
    def data_dependent(self) -> bool:
        """Whether some position depends on data, so that any axis may move it."""
        return self.dims is None or None in self.dims

    def moves_with(self, axis: int) -> bool:
        """Whether a step along `axis` may touch other elements."""
        return axis in self._axes or self.data_dependent

    def extents(self, sizes: Sequence[Number]) -> tuple[Number, ...]:
        """Extent per dimension of the box a tile of `sizes` touches, at most the shape.

        The box includes the holes of strided accesses: whole lines move through the memory
        levels. A data-dependent access may touch everything. Entries may be numpy arrays.
        """
        if self.dims is None:
            return self.shape
        return tuple(
            np.minimum(self.free_points(sizes), size) if dim is None else _extent(dim, size, sizes)
            for dim, size in zip(self.dims, self.shape, strict=True)
        )

    def free_points(self, sizes: Sequence[Number]) -> Number:
        """Points per position of the named dimensions: each may name another data-dependent row."""
        named = self.axes()
        return math.prod(size for axis, size in enumerate(sizes) if axis not in named)

    def elements(self, sizes: Sequence[int], origin: Sequence[int] | None = None) -> int:
        """Number of different elements a tile of `sizes` at `origin` (default 0) touches.

        Exact for every linear map (any stride, dilation, halo, shared axes) and for floordiv and
        mod of up to 2^16 points; beyond that an upper bound. Data-dependent: one per point, at most
        the whole tensor.
        """
        if min(sizes, default=1) < 1:
            return 0
        if self.dims is None:
            return min(math.prod(sizes), math.prod(self.shape))
        start = tuple(origin) if origin is not None else (0,) * len(sizes)
        found = math.prod(group.count(sizes, start) for group in self._groups)
        if None not in self.dims:
            return found
        free = math.prod(n for n, d in zip(self.shape, self.dims, strict=True) if d is None)
        return min(self.free_points(sizes), free) * found

    @cached_property
    def _groups(self) -> list["_Group"]:
        """The known dimensions, with those that share axes together."""
        known = {d: dim for d, dim in enumerate(self.dims or ()) if dim is not None}
        return [
            _Group(
                tuple((known[d], self.shape[d]) for d in connected),
                tuple(sorted(frozenset().union(*(known[d].axes() for d in connected)))),
            )
            for connected in _connected({d: dim.axes() for d, dim in known.items()})
        ]

    def stride(self, axis: int, count: int, size: int) -> int | None:
        """Elements between neighbours along `axis`, in every aligned group of `count`.

        0: the access does not move; 1: contiguous, a vector load; None: no single stride.
        """
        if self.dims is None:
            return None
        if axis not in self._axes:
            return 0
        if min(count, size) <= 1:  # no neighbours
            return 1
        if self._steps is not None:
            return self._steps[axis]
        key = axis, count, min(size, 8 * count)
        if key not in self._strides:
            self._strides[key] = self._stride(*key)
        return self._strides[key]

    @cached_property
    def _strides(self) -> dict[tuple[int, int, int], int | None]:
        """Answers of `_stride`: it is asked for every register tile."""
        return {}

    def _stride(self, axis: int, count: int, length: int) -> int | None:
        """Elements between neighbours in the first groups, which are `length` positions."""
        rank = 1 + max(self._axes)
        point: list[Number] = [0] * rank
        point[axis] = np.arange(length)
        address: Number = 0
        for dim, extent in zip(self.dims or (), self.shape, strict=True):
            address = address * extent + (0 if dim is None else dim.at(point))
        steps = np.diff(np.broadcast_to(address, (length,)))
        inside = steps[(np.arange(1, length) % count) != 0]
        return int(inside[0]) if (inside == inside[0]).all() else None

    @cached_property
    def _steps(self) -> dict[int, int] | None:
        """Elements from one position of each axis to the next one, where the address is linear."""
        found = dict.fromkeys(self._axes, 0)
        for dim, extent in zip(self.dims or (), self.shape, strict=True):
            if dim is not None and not dim.linear:
                return None
            for axis in found:
                found[axis] = found[axis] * extent + (0 if dim is None else dim.coefficient(axis))
        return found


@dataclass(frozen=True)
class _Group:
    """Dimensions of a tensor that share axes: an index and a size each, and these axes."""

    dims: tuple[tuple[Index, int], ...]
    axes: tuple[int, ...]

    def count(self, sizes: Sequence[int], origin: Sequence[int]) -> int:
        """Different positions that a tile of `sizes` at `origin` takes in these dimensions."""
        if self._steps_along is not None:
            (dim, size), axis = self.dims[0], self._steps_along
            low = dim.constant + origin[axis]
            return max(0, min(low + sizes[axis], size) - max(low, 0))
        if not all(dim.linear for dim, _ in self.dims):
            return self._enumerate(sizes, origin)
        flat = dict.fromkeys(self.axes, 0)  # flattening with the extents of the box is one-to-one
        box = 1
        clipped = False
        for dim, size in self.dims:
            # the origin of a linear index is one more constant
            shift = dim.at(origin) - dim.constant
            low, high = (bound + shift for bound in dim.bounds(sizes))
            inside = min(high, size - 1) - max(low, 0) + 1
            if inside <= 0:
                return 0
            clipped |= inside < high - low + 1
            for axis in self.axes:
                flat[axis] += box * dim.coefficient(axis)
            box *= high - low + 1
        if clipped:
            return self._enumerate(sizes, origin)
        return count_sums([(flat[axis], sizes[axis]) for axis in self.axes])

    @cached_property
    def _steps_along(self) -> int | None:
        """The axis whose every step is one position, which most dimensions have; None: it is not so
        simple.
        """
        terms = self.dims[0][0].terms if len(self.dims) == 1 else ()
        simple = len(terms) == 1 and terms[0][0] == 1 and isinstance(terms[0][1], int)
        return self.axes[0] if simple else None

    def _enumerate(self, sizes: Sequence[int], origin: Sequence[int]) -> int:
        """The same point by point; of very many points the box around them."""
        axes = self.axes
        if math.prod(sizes[a] for a in axes) > _ENUMERATE:
            return math.prod(int(_extent(dim, size, sizes)) for dim, size in self.dims)
        grids = np.meshgrid(*(origin[a] + np.arange(sizes[a]) for a in axes), indexing="ij")
        point: list[Number] = [0] * len(sizes)
        for axis, grid in zip(axes, grids, strict=True):
            point[axis] = grid.ravel()
        address: Number = np.zeros(1, np.int64)
        inside: Number = np.ones(1, bool)
        for dim, size in self.dims:
            value = np.asarray(dim.at(point))
            inside = inside & (value >= 0) & (value < size)
            address = address * size + value
        address, inside = np.broadcast_arrays(address, inside)
        return len(distinct(address[inside]))


def _extent(dim: Index, size: int, sizes: Sequence[Number]) -> Number:
    """Extent of the box that a tile of `sizes` touches in a dimension, at most its size."""
    low, high = dim.bounds(sizes)
    extent = high - low + 1
    if isinstance(extent, int):  # of one tile; numpy takes many times as long for a plain number
        return min(max(extent, 0), size)
    return np.clip(extent, 0, size)


def _connected(axes: dict[int, frozenset[int]]) -> list[list[int]]:
    """Keys of the sets that are connected by shared members, in order."""
    groups: list[tuple[set[int], list[int]]] = []
    for key, members in axes.items():
        together = [g for g in groups if g[0] & members]
        groups = [g for g in groups if not g[0] & members]
        union = set(members).union(*(g[0] for g in together))
        groups.append((union, sorted([key, *(d for g in together for d in g[1])])))
    return sorted(group for _, group in groups)
