"""Tensors of S1: what is known of each while the ops that make them are written."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rcompiler.support.extent import Extent, Size, Symbol

from . import bounds, dtypes

SIZE_OF = "size of "  # begins the names of the arguments that are sizes
Interval = tuple[float, float]  # the least and the greatest number, or infinities
Extents = tuple[Extent | None, ...]  # along each axis; None where all elements are there


def extent_of(size: Size) -> Extent | None:
    """What stands in `Value.extents` for a size."""
    return size if isinstance(size, Extent) else None


class SizeAtRunTime(Exception):
    """What is not written for tensors whose sizes are known at run time only was asked for one.

    The interpreter makes a refusal of it that names the node.
    """

    reason = "it is not translated for sizes that are known at run time"
    remedy = "Give sizes in shapes, in the place of ranges"


class LengthsDiffer(SizeAtRunTime):
    """The one number that a size is in a call was asked for, and it is several."""

    reason = "it is not translated for packed batches"
    remedy = "Compile the model without packed, with ranges in shapes"


class Value:
    """A tensor: SSA name, static shape, element type; ``const`` when known while compiling.

    Raises ValueError for a negative extent.

    Where sizes are known at run time only, `shape` has their bounds, and of the elements only those
    in the box of the ``extents`` are the answer; all others are whatever came out. Such a value has
    neither name nor constant, so that nothing reads all of it by mistake: ``whole`` is the tensor
    with all elements (`Builder.sized` makes the one of the other).

    ``elements``: of a few integers that are sizes, or made of sizes, these. Its name comes with the
    first op that reads it.

    ``refold``: set by lowerings whose weights are constant; called with per-channel
    ``(scale, shift)`` it returns the value of ``scale * this + shift`` at no run-time cost.
    """

    __slots__ = (
        *("base", "const", "dtype", "inputs", "name", "permuted", "quantised", "refold", "shape"),
        *("elements", "extents", "known", "likely", "numbers", "ratios", "reordered", "scaled"),
        *("spread", "whole", "zeros"),
    )

    def __init__(
        self,
        name: str,
        shape: Sequence[int],
        dtype: str,
        const: np.ndarray | None = None,
        inputs: frozenset[str] = frozenset(),
    ):
        self.name, self.shape, self.dtype, self.const = name, tuple(map(int, shape)), dtype, const
        if min(self.shape, default=0) < 0:  # what the attributes of a node came to
            raise ValueError(f"a tensor cannot have {min(self.shape)} elements along an axis")
        self.base: Value | None = None  # the value this one is a reshape of
        self.permuted: tuple[Value, tuple[int, ...]] | None = None  # (value, perm) transposed
        self.reordered: Reordered | None = None  # how to make it in another order of its dims
        self.scaled: tuple[Value, Value] | None = None  # what it is times one number
        self.spread: Value | None = None  # what it is broadcast of
        self.refold: Callable[[np.ndarray, np.ndarray], Value] | None = None
        self.quantised: Quantised | None = None  # what it was dequantised from
        self.inputs = inputs  # names of the graph inputs it depends on
        self.known: bounds.Bounds | None = None  # what its node says, see `bounds`
        self.likely: Interval | None = None  # see `likely`
        self.extents: Extents = (None,) * len(self.shape)
        self.whole: Value | None = None
        self.zeros: frozenset[int] = frozenset()  # axes along which zeros are beyond the extent
        self.elements: np.ndarray | None = None  # of `Size`s, in the shape of the tensor
        self.numbers: Numbers | None = None  # see `sizes.numbers`
        self.ratios: np.ndarray | None = None  # see `sizes.ratios`

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def sizes(self) -> tuple[Size, ...]:
        """The shape, with the extents where there are some."""
        pairs = zip(self.extents, self.shape, strict=True)
        return tuple(d if extent is None else extent for extent, d in pairs)

    @property
    def array(self) -> np.ndarray:
        """The value, where the caller knows that it is constant."""
        assert self.const is not None
        return self.const

    @property
    def type(self) -> str:
        return dtypes.tensor_type(self.shape, self.dtype)

    @property
    def bounds(self) -> bounds.Bounds | None:
        """Between which numbers its elements lie, if they are integers."""
        if self.known is None:
            if self.const is not None and self.size and not dtypes.is_float(self.dtype):
                self.known = _extremes(self.const, self.dtype)
            elif self.base is not None:
                return self.base.bounds
        return bounds.of_type(self.dtype) if self.known is None else self.known

    def __repr__(self) -> str:
        return f"Value({self.name or 'const'}: {self.type} as {self.dtype})"


class Numbers(NamedTuple):
    """What a few integers, or conditions on them, are made of.

    elements: in the shape of the tensor, an int, a bool, or a polynomial. trusted: numbers that
    were taken to be from 0 on to find that.
    """

    elements: np.ndarray
    trusted: frozenset[Symbol]


@dataclass(frozen=True)
class Leaf:
    """One of the numbers that a run computes: an element of a tensor, which is low at least.

    symbol: it as a size, from 0 on.
    """

    symbol: Symbol
    value: Value
    place: int
    low: int


@dataclass(frozen=True)
class Reordered:
    """Of what is computed from tensors that were transposed: orders, those of their dims; make, a
    function of an order that gives the same with its dims in it, computed in that order.
    """

    orders: frozenset[tuple[int, ...]]
    make: Callable[[Sequence[int]], Value]

    def undoes(self, order: Sequence[int]) -> bool:
        """Whether the operands are, in that order, what they were before they were transposed."""
        kept = list(range(len(order)))
        return any([before[place] for place in order] == kept for before in self.orders)

    def innermost(self, axes: Sequence[int]) -> list[int] | None:
        """An order that undoes, in which these axes are the last ones and the others are in their
        own order; None if there is none.
        """
        for before in sorted(self.orders):
            order = sorted(range(len(before)), key=before.__getitem__)
            rest = [axis for axis in order if axis not in axes]
            if order[len(rest) :] == [a for a in order if a in axes] and rest == sorted(rest):
                return order
        return None


@dataclass(frozen=True)
class Quantised:
    """What floats were made of: ``(value - zero) * scale``; ``axis`` of a scale per slice, or per
    ``block`` of them.
    """

    value: Value
    scale: Value
    zero: Value | None
    axis: int | None
    block: int = 0


def _extremes(array: np.ndarray, dtype: str) -> bounds.Bounds | None:
    """The least and the greatest element of a constant; None for all but integers."""
    if bounds.of_type(dtype) is None:
        return None
    # what is broadcast holds its elements once
    each = array[tuple(slice(None) if step else slice(1) for step in array.strides)]
    each = each.astype(np.int8) if dtype in dtypes.SMALL_INTS else each
    return int(each.min()), int(each.max())
