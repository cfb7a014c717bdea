"""Elementwise operators: arithmetic, comparison, logic, choice, conversion."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .. import dtypes
from ..builder import Value, broadcast_shapes
from ..registry import Context, lowering
from ..scalar import Body, Scalar

Unary = Callable[[Body, Scalar], Scalar]


def binary_operands(ctx: Context) -> list[Value]:
    """Both inputs, checked for type and broadcasting; opset < 7 ``axis``/``broadcast`` included."""
    a, b = ctx.input(0), ctx.input(1)
    if ctx.opset < 7 and ctx.attr("broadcast") and b.rank < a.rank:
        axis = ctx.attr("axis", a.rank - b.rank)
        if not 0 <= axis <= a.rank - b.rank:
            raise ctx.shape_error(f"axis {axis} leaves no room for the second input")
        b = ctx.b.reshape(b, [*b.shape, *[1] * (a.rank - axis - b.rank)])
    return check_operands(ctx, [a, b])


def check_operands(ctx: Context, values: list[Value]) -> list[Value]:
    """Refuse mixed types, unsupported types and shapes that do not broadcast."""
    if len({v.dtype for v in values}) > 1:
        raise ctx.shape_error("the inputs have different element types")
    if broadcast_shapes(*(v.shape for v in values)) is None:
        raise ctx.shape_error("the inputs' shapes do not broadcast")
    return values


def _binary(op: str, fn: Callable[[Body, Scalar, Scalar], Scalar], dtype: str | None = None) -> None:
    lowering(op)(lambda ctx: ctx.b.elementwise(fn, *binary_operands(ctx), dtype=dtype))


_binary("Add", lambda s, a, b: a + b)
_binary("Sub", lambda s, a, b: a - b)
_binary("Mul", lambda s, a, b: a * b)
