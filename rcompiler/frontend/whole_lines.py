"""Rows of a tensor as whole lines of memory, and back.

A loop hands each row that it reads to a kernel, and a kernel writes each row that it collects.
Operands of a kernel begin at multiples of a line, so rows of other sizes are filled up to one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from . import dtypes
from .builder import Builder, Value

LINE = 64  # bytes, at multiples of which operands of a kernel begin


def in_lines(b: Builder, x: Value, first: int = 0) -> Value:
    """What is behind the first dimensions as whole lines: the tensor itself, or flat and filled up
    with zeros.
    """
    count = math.prod(x.shape[first:])
    missing = -count % (LINE // dtypes.storage_dtype(x.dtype).itemsize)
    if not missing:
        return x
    flat = b.reshape(x, [*x.shape[:first], count])
    return b.pad(flat, [0] * (first + 1), [0] * first + [missing])


def out_of_lines(b: Builder, rows: Value, shape: Sequence[int]) -> Value:
    """Rows of whole lines as rows of a shape: [rows, *shape]."""
    number, count = rows.shape[0], math.prod(shape)
    if rows.size != number * count:
        rows = b.slice_along(b.reshape(rows, [number, rows.size // number]), 1, 0, count)
    return b.reshape(rows, [number, *shape])
