"""Products and sums of dequantised tensors, computed on their integers.

    sum(((a - z) s) ((w - y) t)) = s t sum((a - z) (w - y))
    sum((a - z) s) = s sum(a - z)

products for weights that are constant, with one scale or one per column. The sum is exact and is
rounded once: nearer to the sum of real numbers than the sum of rounded f32 numbers, and the same on
every machine.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rcompiler.frontend.builder import Quantised, Value
from rcompiler.frontend.core import accumulator
from rcompiler.frontend.ops.integer_products import integer_conv, integer_matmul
from rcompiler.frontend.registry import Context

_BYTES = ("int8", "uint8")
_MOST = 2**31 // 255  # bytes whose sum int32 has


def dequantised_matmul(ctx: Context, a: Value, w: Value, *, by_rows: bool = False) -> Value | None:
    """``a @ w`` (``a @ w.T`` if ``by_rows``) in f32; None if an operand is not dequantised."""
    operands = _operands(a, w, 0 if by_rows else w.rank - 1)
    if operands is None:
        return None
    left, right = operands
    weights = ctx.b.constant(right.value.array.T) if by_rows else right.value
    return _scaled(ctx, integer_matmul(ctx, left.value, weights, left.zero, right.zero), *operands)


def dequantised_conv(ctx: Context, x: Value, w: Value) -> Value | None:
    """The convolution of the node in f32, without bias; None if an operand is not dequantised."""
    operands = _operands(x, w, 0)
    if operands is None:
        return None
    left, right = operands
    total = integer_conv(ctx, left.value, right.value, left.zero, right.zero)
    return _scaled(ctx, total, *operands, spatial=x.rank - 2)


def sums_of(ctx: Context, x: Value, add_up: Callable[[Value], Value]) -> Value:
    """Sums of elements of ``x``, in the type in which those are added up.

    add_up: makes them, of the elements in that type or of their integers.
    """
    b, source = ctx.b, x.quantised
    if source is None or not _one_scale(source) or x.dtype != "float32" or x.size > _MOST:
        return add_up(b.cast(x, accumulator(x.dtype)))
    terms = b.cast(source.value, "int32")
    if source.zero is not None:
        zero = b.cast(b.reshape(source.zero, []), "int32")
        terms = b.elementwise(lambda s, q, z: q - z, terms, zero)
    scale = b.reshape(source.scale, [])
    return b.elementwise(
        lambda s, n, f: s.cast(n, "float32") * f, add_up(terms), scale, dtype="float32"
    )


def _one_scale(source: Quantised) -> bool:
    return source.axis is None and source.value.dtype in _BYTES


def _operands(a: Value, w: Value, columns: int) -> tuple[Quantised, Quantised] | None:
    """What the operands were made of, if integers can take their place."""
    left, right = a.quantised, w.quantised
    if left is None or right is None or "float32" not in (a.dtype, w.dtype):
        return None
    bytes_ = left.value.dtype in _BYTES and right.value.dtype in _BYTES
    known = right.value.const is not None and (right.zero is None or right.zero.const is not None)
    fits = left.axis is None and right.axis in (None, columns) and not right.block
    return (left, right) if bytes_ and known and fits else None


def _scaled(
    ctx: Context, total: Value, left: Quantised, right: Quantised, spatial: int = 0
) -> Value:
    """The int32 sums times both scales; those of the weights lie in front of ``spatial`` dims."""
    b, scale = ctx.b, right.scale
    if right.axis is None:
        scale = b.reshape(scale, [])
    elif spatial:
        scale = b.reshape(scale, [scale.size, *[1] * spatial])
    one = b.reshape(left.scale, [])
    if one.const is not None and scale.const is not None:
        factor = b.constant(np.asarray(one.const * scale.const, np.float32))
    else:
        factor = b.elementwise(lambda s, x, y: x * y, scale, one)
    return b.elementwise(lambda s, t, f: s.cast(t, "float32") * f, total, factor, dtype="float32")
