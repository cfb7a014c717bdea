"""Prefix folds of rows: sums or products of all elements up to each."""

from __future__ import annotations

from collections.abc import Callable

from rcompiler.frontend.builder import Builder, Value
from rcompiler.frontend.scalar import Body, Number, Scalar

# Elements that a prefix sum folds directly, each from the start of its block. Where vectors run
# across several sums, every step is one of all elements of a block, so blocks are short.
BLOCK, BLOCK_ACROSS = 64, 8
ACROSS = 8  # columns from which on vectors run across them

Combine = Callable[[Scalar, Scalar], Scalar]


def prefix(
    b: Builder,
    x: Value,
    combine: Combine,
    neutral: Number,
    exclusive: bool,
    reverse: bool = False,
) -> Value:
    """Prefix folds along the middle dimension of ``x`` [rows, n, columns].

    Short rows: every result folds its own prefix. Long rows: blocks are folded on their own, and
    each block starts from the prefix of the blocks' totals, so that all of it runs in parallel.
    """
    rows, n, columns = x.shape
    block = BLOCK_ACROSS if columns >= ACROSS else BLOCK
    if n <= block:
        return _direct(b, x, combine, neutral, exclusive, reverse)
    # Blocks that fill the row need no padding, which would copy all of it twice.
    block = next((d for d in range(block, block // 2, -1) if n % d == 0), block)
    blocks = -(-n // block)
    spare = blocks * block - n
    padded = b.pad(x, [0, 0, 0], [0, spare, 0], neutral)
    parts = b.reshape(padded, [rows * blocks, block, columns])
    inner = _direct(b, parts, combine, neutral, exclusive, reverse)
    totals = b.reduce(parts, [1], neutral, lambda s, a, acc: combine(acc, a))
    before = prefix(b, b.reshape(totals, [rows, blocks, columns]), combine, neutral, True, reverse)
    out = b.elementwise(
        lambda s, a, c: combine(a, c),
        b.reshape(inner, [rows, blocks, block, columns]),
        b.reshape(before, [rows, blocks, 1, columns]),
    )
    out = b.reshape(out, padded.shape)
    return b.slice(out, [0, 0, 0], [rows, n, columns])


def _direct(
    b: Builder, x: Value, combine: Combine, neutral: Number, exclusive: bool, reverse: bool
) -> Value:

    def body(s: Body, a: Scalar, _: Scalar, acc: Scalar) -> Scalar:
        own, other = s.index(1), s.index(3)
        if reverse:
            own, other = other, own
        inside = other < own if exclusive else other <= own
        return combine(acc, s.select(inside, a, neutral))

    # The second operand tells the size of the reduced dimension.
    return b.generic(
        [(x, "d0, d3, d2"), (b.empty(x.shape, x.dtype), "d0, d1, d2")],
        [(b.fill(x.shape, x.dtype, neutral), "d0, d1, d2")],
        "pppr",
        body,
    )[0]
