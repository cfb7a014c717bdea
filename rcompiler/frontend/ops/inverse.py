"""Inverse of onnxruntime (domain com.microsoft): of square matrices."""

from __future__ import annotations

import math

from rcompiler.frontend import dtypes
from rcompiler.frontend.body import Body
from rcompiler.frontend.builder import Value
from rcompiler.frontend.contrib import DOMAIN
from rcompiler.frontend.registry import Context, lowering
from rcompiler.frontend.scalar import Scalar


@lowering("Inverse", domain=DOMAIN)
def _inverse(ctx: Context) -> Value:
    """Of [..., n, n] by Gauss and Jordan with partial pivoting, one matrix at a time. One that has
    none gives infinities or NaN.
    """
    ctx.need_float()
    b, x = ctx.b, ctx.input(0)
    if x.rank < 2 or x.shape[-1] != x.shape[-2]:
        raise ctx.shape_error("the input is a square matrix or a batch of them")
    n, batch, kind = x.shape[-1], math.prod(x.shape[:-2]), dtypes.wide(x.dtype)
    if not n or not batch:
        return b.empty(x.shape, x.dtype)
    given = b.reshape(b.cast(x, kind), [batch, n, n])

    def beside(s: Body) -> Scalar:
        """The matrix, and the unit matrix right of it."""
        i, j = s.index(1), s.index(2)
        left = s.extract(given, [s.index(0), i, s.select(j < n, j, 0)])
        unit = s.select(j.eq(i + n), s.const(1.0, kind), s.const(0.0, kind))
        return s.select(j < n, left, unit)

    both = b.tabulate([batch, n, 2 * n], kind, beside)

    def matrix(s: Body, m: Scalar, work: Value) -> list[Value]:
        return list(s.for_(0, n, [work], lambda k, inner: [_cleared(s, m, k, n, inner)]))

    done = b.loop(batch, [both], matrix)[0]
    right = b.tabulate(
        [batch, n, n], kind, lambda s: s.extract(done, [s.index(0), s.index(1), s.index(2) + n])
    )
    return b.cast(b.reshape(right, x.shape), x.dtype)


def _cleared(s: Body, m: Scalar, k: Scalar, n: int, work: Value) -> Value:
    """Column `k` of matrix `m` made that of the unit matrix."""

    def larger(i: Scalar, row: Scalar, size: Scalar) -> list[Scalar]:
        here = s.abs(s.extract(work, [m, i, k]))
        return [s.select(here > size, i, row), s.select(here > size, here, size)]

    pivot_row = s.for_(k, n, [k, s.const(-1.0, work.dtype)], larger)[0]

    def swap(j: Scalar, tensor: Value) -> list[Value]:
        upper, lower = s.extract(tensor, [m, k, j]), s.extract(tensor, [m, pivot_row, j])
        return [s.insert(upper, s.insert(lower, tensor, [m, k, j]), [m, pivot_row, j])]

    swapped = s.for_(0, 2 * n, [work], swap)[0]
    pivot = s.extract(swapped, [m, k, k])

    def divide(j: Scalar, tensor: Value) -> list[Value]:
        return [s.insert(s.extract(tensor, [m, k, j]) / pivot, tensor, [m, k, j])]

    divided = s.for_(0, 2 * n, [swapped], divide)[0]

    def clear(i: Scalar, tensor: Value) -> list[Value]:
        factor = s.select(i.eq(k), s.const(0.0, work.dtype), s.extract(tensor, [m, i, k]))

        def subtract(j: Scalar, inner: Value) -> list[Value]:
            value = s.extract(inner, [m, i, j]) - factor * s.extract(inner, [m, k, j])
            return [s.insert(value, inner, [m, i, j])]

        return list(s.for_(0, 2 * n, [tensor], subtract))

    return s.for_(0, n, [divided], clear)[0]
