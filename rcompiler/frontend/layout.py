"""Builder methods that only move data: reshape, transpose, slice, pad, concat, broadcast.

All of them fold constants with numpy on the spot.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from rcompiler.support.shapes import reassociation

from . import dtypes
from .body import Body
from .core import Core, Fn
from .scalar import Number, Scalar
from .value import Reordered, Value

FOLD_BYTES = 1 << 30  # constants up to this size are re-laid out while compiling


def _foldable(value: Value) -> bool:
    return value.const is not None and value.const.nbytes <= FOLD_BYTES


class LayoutOps(Core):
    """The layout part of Builder."""

    def reshape(self, value: Value, shape: Sequence[int]) -> Value:
        """The same elements in row-major order under another shape (a view: no data moves)."""
        shape = tuple(int(d) for d in shape)
        assert math.prod(shape) == value.size, (value.shape, shape)
        if shape == value.shape:
            return value
        if value.const is not None:
            if value.const.size and not any(value.const.strides):
                one = value.const.reshape(-1)[:1].reshape(())
                return self.constant_view(np.broadcast_to(one, shape), value.dtype)
            return self.constant_view(value.const.reshape(shape), value.dtype)
        base = value.base if value.base is not None else value
        if base.shape == shape:
            return base
        if value.size == 0:
            return self.empty(shape, value.dtype)
        if 1 in (base.rank, len(shape)) or not (base.rank and len(shape)):
            value = base
        out = self._reshape_text(value, shape)
        out.base = base
        return out

    def constant_view(self, array: np.ndarray, dtype: str) -> Value:
        """A constant that keeps ``array`` as it is."""
        return Value("", array.shape, dtype, const=array)

    def _reshape_text(self, value: Value, shape: tuple[int, ...]) -> Value:
        groups = reassociation(value.shape, shape)
        if not value.shape or not shape:
            groups = []
        middle = tuple(math.prod(shape[j] for j in b) for _, b in groups)
        collapse = "[" + ", ".join(str(a) for a, _ in groups) + "]"
        expand = "[" + ", ".join(str(b) for _, b in groups) + "]"
        if len(middle) != value.rank:
            kind = dtypes.tensor_type(middle, value.dtype)
            value = self.value(
                f"tensor.collapse_shape {self.ref(value)} {collapse} : {value.type} into {kind}",
                middle,
                value.dtype,
            )
        if value.shape != shape:
            kind = dtypes.tensor_type(shape, value.dtype)
            value = self.value(
                f"tensor.expand_shape {self.ref(value)} {expand} output_shape "
                f"{list(shape)} : {value.type} into {kind}",
                shape,
                value.dtype,
            )
        return value

    def transpose(self, value: Value, perm: Sequence[int]) -> Value:
        """``out.shape[i] = value.shape[perm[i]]``."""
        perm = tuple(int(p) for p in perm)
        if perm == tuple(range(value.rank)):
            return value
        shape = tuple(value.shape[p] for p in perm)
        if _foldable(value):
            return self.constant_view(value.array.transpose(perm), value.dtype)
        moved = [p for p in perm if value.shape[p] != 1]
        if moved == sorted(moved):
            return self.reshape(value, shape)
        if value.permuted is not None:
            source, before = value.permuted
            return self.transpose(source, [before[p] for p in perm])
        if value.reordered is not None and value.reordered.undoes(perm):
            return value.reordered.make(perm)
        read = ["" for _ in perm]
        for i, p in enumerate(perm):
            read[p] = f"d{i}"
        out = self._copy(value, ", ".join(read), shape)
        out.permuted = (value, perm)
        return out

    def _copy(self, value: Value, read: str, shape: Sequence[int]) -> Value:
        """A generic that yields ``value[read]`` at every position of ``shape``."""
        return self.tabulate(shape, value.dtype, lambda s, a: a, (value, read))

    def broadcast_to(self, value: Value, shape: Sequence[int]) -> Value:
        """numpy's ``broadcast_to``."""
        shape = tuple(int(d) for d in shape)
        if shape == value.shape:
            return value
        if value.const is not None and value.size == 1:
            one = value.const.reshape(())
            return self.constant_view(np.broadcast_to(one, shape), value.dtype)
        operand, read = self.broadcast_operand(value, shape)
        out = self._copy(operand, read, shape)
        out.spread = value
        return out

    def slice(
        self,
        value: Value,
        starts: Sequence[int],
        sizes: Sequence[int],
        steps: Sequence[int] | None = None,
    ) -> Value:
        """``sizes[i]`` elements from ``starts[i]`` in steps of ``steps[i]`` (may be negative)."""
        steps = list(steps or [1] * value.rank)
        starts, sizes = [int(x) for x in starts], [int(x) for x in sizes]
        if tuple(sizes) == value.shape and all(
            step == 1 or size <= 1 for step, size in zip(steps, sizes, strict=True)
        ):
            return value
        if 0 in sizes:
            return self.empty(sizes, value.dtype)
        if _foldable(value):
            index = tuple(
                start + np.arange(size) * step
                for start, size, step in zip(starts, sizes, steps, strict=True)
            )
            return self.constant(value.array[np.ix_(*index)], value.dtype)
        steps = [1 if size == 1 else step for step, size in zip(steps, sizes, strict=True)]
        backward = [i for i, step in enumerate(steps) if step < 0]
        if backward:
            # A copy reads whole axes forward, so the others are cut first.
            whole = [(0, d, 1) if i in backward else box for i, (d, *box) in
                     enumerate(zip(value.shape, starts, sizes, steps, strict=True))]  # fmt: skip
            value = self.slice(value, *map(list, zip(*whole, strict=True)))
            read = [f"d{i} * {steps[i]} + {starts[i]}" if i in backward else f"d{i}"
                    for i in range(value.rank)]  # fmt: skip
            return self._copy(value, ", ".join(read), sizes)
        kind = dtypes.tensor_type(tuple(sizes), value.dtype)
        return self.value(
            f"tensor.extract_slice {self.ref(value)}{starts} {sizes} {steps} : "
            f"{value.type} to {kind}",
            sizes,
            value.dtype,
        )

    def slice_along(self, value: Value, axis: int, start: int, size: int, step: int = 1) -> Value:
        """``size`` elements of one axis from ``start`` in steps of ``step``; all of the others."""
        starts, sizes, steps = [0] * value.rank, list(value.shape), [1] * value.rank
        starts[axis], sizes[axis], steps[axis] = start, size, step
        return self.slice(value, starts, sizes, steps)

    def split(self, value: Value, axis: int, sizes: Sequence[int]) -> Iterator[Value]:
        """Neighbouring parts of these sizes along an axis."""
        for start, size in zip(itertools.accumulate(sizes, initial=0), sizes, strict=False):
            yield self.slice_along(value, axis, start, size)

    def insert_slice(
        self, value: Value, into: Value, starts: Sequence[int], steps: Sequence[int] | None = None
    ) -> Value:
        """``into`` with the box of ``value``'s shape at ``starts`` replaced."""
        steps = list(steps or [1] * value.rank)
        return self.value(
            f"tensor.insert_slice {self.ref(value)} into {self.ref(into)}{list(starts)} "
            f"{list(value.shape)} {steps} : {value.type} into {into.type}",
            into.shape,
            into.dtype,
        )

    def pad(
        self, value: Value, low: Sequence[int], high: Sequence[int], number: Number = 0
    ) -> Value:
        """Constant padding; negative amounts crop.

        Element ``i`` of the result is element ``i - low`` of the tensor, or ``number`` where that
        is none of it: one side may crop more than there is, and the other one pad it again.
        """
        if any(x < 0 for x in [*low, *high]):
            starts = [max(-x, 0) for x in low]
            ends = [d - max(-x, 0) for d, x in zip(value.shape, high, strict=True)]
            sizes = [e - s for s, e in zip(starts, ends, strict=True)]
            if min(sizes) <= 0:
                sides = zip(value.shape, low, high, strict=True)
                return self.splat([int(d + a + b) for d, a, b in sides], value.dtype, number)
            value = self.slice(value, starts, sizes)
            low, high = [max(x, 0) for x in low], [max(x, 0) for x in high]
        if not any(low) and not any(high):
            return value
        bounds = zip(value.shape, low, high, strict=True)
        shape = tuple(int(d + a + b) for d, a, b in bounds)
        if 0 in value.shape:
            return self.splat(shape, value.dtype, number)
        args = ", ".join(f"%_i{i}: index" for i in range(value.rank))
        scalar, kind = self.scalar(number, value.dtype), dtypes.mlir_type(value.dtype)
        out = self.value(
            f"tensor.pad {self.ref(value)} low{[int(x) for x in low]} high{[int(x) for x in high]}"
            f" {{\n^bb0({args}):\ntensor.yield {scalar} : {kind}\n}} : {value.type} to "
            f"{dtypes.tensor_type(shape, value.dtype)}",
            shape,
            value.dtype,
        )

        def padded(order: Sequence[int]) -> Value:
            before, behind = ([side[p] for p in order] for side in (low, high))
            return self.pad(self.transpose(value, order), before, behind, number)

        return self.reorderable(out, [value], padded)

    def concat(self, values: Sequence[Value], axis: int) -> Value:
        """Concatenate along ``axis`` (non-negative)."""
        values = [v for v in values if v.shape[axis]] or list(values[:1])
        if len(values) == 1:
            return values[0]
        shape = list(values[0].shape)
        shape[axis] = sum(v.shape[axis] for v in values)
        if all(_foldable(v) for v in values):
            parts = np.concatenate([v.const for v in values], axis)
            return self.constant(parts, values[0].dtype)
        if 0 in shape:
            return self.empty(shape, values[0].dtype)
        types = ", ".join(v.type for v in values)
        kind = dtypes.tensor_type(tuple(shape), values[0].dtype)
        names = ", ".join(self.ref(v) for v in values)
        out = self.value(
            f"tensor.concat dim({axis}) {names} : ({types}) -> {kind}", shape, values[0].dtype
        )

        def joined(order: Sequence[int]) -> Value:
            return self.concat([self.transpose(v, order) for v in values], order.index(axis))

        return self.reorderable(out, values, joined)

    def elementwise(self, fn: Fn, *values: Value, dtype: str | None = None) -> Value:
        """As that of `Core`; computed in the order of its operands where a later Transpose asks for
        that one, unless ``fn`` asks for positions.
        """
        by_position = False

        def noted(s: Body, *scalars: Scalar) -> Any:
            nonlocal by_position
            made = fn(s, *scalars)
            by_position = any("linalg.index" in line for line in (*s.head, *s.lines))
            return made

        out = super().elementwise(noted, *values, dtype=dtype)

        def reordered(order: Sequence[int]) -> Value:
            moved = [self._in_order(value, order) for value in values]
            return self.elementwise(fn, *moved, dtype=out.dtype)

        whole = [v for v in values if v.const is None and v.shape == out.shape]
        return out if by_position else self.reorderable(out, whole, reordered)

    def _in_order(self, value: Value, order: Sequence[int]) -> Value:
        """A tensor that is broadcast to others, for these in another order of their dims."""
        lead = [1] * (len(order) - value.rank)
        return self.transpose(self.reshape(value, [*lead, *value.shape]), order)

    def reorderable(
        self, out: Value, operands: Sequence[Value], make: Callable[[Sequence[int]], Value]
    ) -> Value:
        """``out``, of which `make` gives the same in another order of its dims. A Transpose that
        undoes those of all its operands then moves nothing: networks of channels that come last
        have one before each convolution and one behind it.
        """
        found = [_orders(value) for value in operands]
        orders = frozenset.intersection(*found) if found else frozenset()
        if orders and out.const is None:
            here = self.location

            def made(order: Sequence[int]) -> Value:
                before, self.location = self.location, here
                try:
                    return make(order)
                finally:
                    self.location = before

            out.reordered = Reordered(orders, made)
        return out


def _orders(value: Value) -> frozenset[tuple[int, ...]]:
    """In which orders of their dims the tensors are that a value is computed from."""
    own = frozenset() if value.permuted is None else frozenset([value.permuted[1]])
    return own if value.reordered is None else own | value.reordered.orders
