"""Expression: a tensor expression as the published search sees it (OSDI'22 §3.1).

Axes are spatial first, then reduction; a tile is one size per axis in that order. An operand's tile
is the box that the axes' tile touches, holes of strides included, not cut off at the tensor.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from rcompiler.roller.expr import ExpressionError, TensorAccess, TensorExpr
from rcompiler.roller.index_expr import Index

Tile = tuple[int, ...]


@dataclass(frozen=True)
class Operand:
    """One tensor: an index expression per dimension, bytes per element.

    `trim`: elements taken off the box, per dimension (default none). `row`: elements of the last
    dimension of the whole tensor, to which a row of the tile is compared.
    """

    dims: tuple[Index, ...]
    itemsize: int
    row: int
    trim: tuple[int, ...] = ()

    @cached_property
    def _strides(self) -> tuple[tuple[int, tuple[tuple[int, int], ...]] | None, ...]:
        """Per linear dimension: its extent at a tile of ones and what each axis adds per step."""
        trim = self.trim or (0,) * len(self.dims)
        return tuple(
            (1 - less, tuple((axis, abs(c)) for c, axis in dim.terms if isinstance(axis, int)))
            if dim.linear
            else None
            for dim, less in zip(self.dims, trim, strict=True)
        )

    def extents(self, tile: Sequence[int]) -> list[int]:
        """Extent per dimension of the box that `tile` touches; may be below 1 when trimmed."""
        found = []
        for position, strides in enumerate(self._strides):
            if strides is None:
                low, high = self.dims[position].bounds(tile)
                found.append(int(high - low) + 1 - (self.trim[position] if self.trim else 0))
                continue
            extent, steps = strides
            for axis, step in steps:
                extent += step * (tile[axis] - 1)
            found.append(extent)
        return found


@dataclass(frozen=True)
class Expression:
    """`sizes`: all axes, of which the first `spatial` are spatial and the others reductions.

    `tensor_core`: whether tiles are made of 16x16x16 matrix fragments, one per warp.
    """

    sizes: Tile
    spatial: int
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    tensor_core: bool = False

    @property
    def itemsize(self) -> int:
        """Bytes per element of the first input, which stands for all of them."""
        return (self.inputs or self.outputs)[0].itemsize

    @property
    def unit(self) -> Tile:
        """The tile that construction starts from."""
        return (16 if self.tensor_core else 1,) * len(self.sizes)

    def whole_reduction(self, tile: Sequence[int]) -> Tile:
        """`tile` with its reduction steps replaced by whole axes, rounded up to whole steps."""
        steps = zip(self.sizes[self.spatial :], tile[self.spatial :], strict=True)
        return (*tile[: self.spatial], *(math.ceil(size / step) * step for size, step in steps))


def expression_of(expr: TensorExpr, *, tensor_core: bool = False) -> tuple[Expression, Tile]:
    """`expr` for the published search, and for each axis of the result its position in `expr`.

    A position is -1 for the axis of size 1 that stands in when `expr` has no parallel axis. A
    dimension that depends on data counts as touched wholly. ExpressionError when an axis is empty.
    """
    empty = [axis.name for axis in expr.axes if axis.size < 1]
    if empty:
        raise ExpressionError(f"axis {empty[0]} is empty; there is nothing to tile")
    spatial = expr.parallel or (-1,)
    order = (*spatial, *expr.reduction)
    rename = {old: (new, 1) for new, old in enumerate(order) if old >= 0}
    sizes = tuple(expr.axes[old].size if old >= 0 else 1 for old in order)
    built = Expression(
        sizes,
        len(spatial),
        tuple(_operand(access, rename) for access in expr.inputs),
        tuple(_operand(access, rename) for access in expr.outputs),
        tensor_core,
    )
    return built, order


def _operand(access: TensorAccess, rename: dict[int, tuple[int, int]]) -> Operand:
    dims: list[Index] = []
    trim: list[int] = []
    for dim, size in zip(access.dims or (None,) * len(access.shape), access.shape, strict=True):
        dims.append(Index() if dim is None else dim.rename(rename))
        trim.append(1 - size if dim is None else 0)  # all of it, whatever the tile
    if not dims:  # a scalar
        return Operand((Index(),), access.itemsize, 1)
    return Operand(tuple(dims), access.itemsize, access.shape[-1], tuple(trim))
