"""CumSum, CumProd and TopK."""

from __future__ import annotations

import math
from collections.abc import Callable

from rcompiler.frontend import dtypes
from rcompiler.frontend.builder import Value
from rcompiler.frontend.registry import Context, lowering
from rcompiler.frontend.scalar import Body, Number, Scalar

# Elements that a prefix sum folds directly, each from the start of its block. Where vectors run
# across several sums, every step is one of all elements of a block, so blocks are short.
BLOCK, BLOCK_ACROSS = 64, 8
ACROSS = 8  # columns from which on vectors run across them
RANKED = 128  # longest axis whose order is found by comparing all pairs

Combine = Callable[[Scalar, Scalar], Scalar]


@lowering("CumSum", "CumProd")
def _cumulative(ctx: Context) -> Value:
    """Prefix sums or products along an axis; ``exclusive`` leaves the element itself out."""
    b, x = ctx.b, ctx.input(0)
    if dtypes.is_integer(x.dtype) == dtypes.is_float(x.dtype):
        raise ctx.refuse(f"element type {x.dtype} is not translated", "Cast it to float32")
    axis = ctx.axis(int(ctx.scalar(1)), x.rank)
    if not x.size or not x.rank:
        return x
    rows, columns = math.prod(x.shape[:axis]), math.prod(x.shape[axis + 1 :])
    combine: Combine = (lambda a, c: a + c) if ctx.op == "CumSum" else (lambda a, c: a * c)
    neutral = 0 if ctx.op == "CumSum" else 1
    out = prefix(
        ctx,
        b.reshape(x, [rows, x.shape[axis], columns]),
        combine,
        neutral,
        bool(ctx.attr("exclusive", 0)),
        bool(ctx.attr("reverse", 0)),
    )
    return b.reshape(out, x.shape)


def prefix(
    ctx: Context, x: Value, combine: Combine, neutral: Number, exclusive: bool, reverse: bool
) -> Value:
    """Prefix folds along the middle dimension of ``x`` [rows, n, columns].

    Short rows: every result folds its own prefix. Long rows: blocks are folded on their own, and
    each block starts from the prefix of the blocks' totals, so that all of it runs in parallel.
    """
    b, (rows, n, columns) = ctx.b, x.shape
    block = BLOCK_ACROSS if columns >= ACROSS else BLOCK
    if n <= block:
        return _direct(ctx, x, combine, neutral, exclusive, reverse)
    blocks = -(-n // block)
    spare = blocks * block - n
    padded = b.pad(x, [0, 0, 0], [0, spare, 0], neutral)
    parts = b.reshape(padded, [rows * blocks, block, columns])
    inner = _direct(ctx, parts, combine, neutral, exclusive, reverse)
    totals = b.reduce(parts, [1], neutral, lambda s, a, acc: combine(acc, a))
    before = prefix(
        ctx, b.reshape(totals, [rows, blocks, columns]), combine, neutral, True, reverse
    )
    out = b.elementwise(
        lambda s, a, c: combine(a, c),
        b.reshape(inner, [rows, blocks, block, columns]),
        b.reshape(before, [rows, blocks, 1, columns]),
    )
    out = b.reshape(out, padded.shape)
    return b.slice(out, [0, 0, 0], [rows, n, columns])


def _direct(
    ctx: Context, x: Value, combine: Combine, neutral: Number, exclusive: bool, reverse: bool
) -> Value:
    b = ctx.b

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


@lowering("TopK")
def _top_k(ctx: Context) -> list[Value | None]:
    """The k largest (smallest) elements of an axis in order, and their positions.

    Equal elements keep their order; NaN counts as the largest number.
    """
    b, x = ctx.b, ctx.input(0)
    if not x.rank or not (dtypes.is_float(x.dtype) or dtypes.is_integer(x.dtype)):
        raise ctx.refuse(f"{x.dtype} of rank {x.rank} is not translated", "Cast it to float32")
    k = ctx.ints(1, "k")
    k = int(k[0] if isinstance(k, list) else k)
    axis = ctx.axis(ctx.attr("axis", -1), x.rank)
    n = x.shape[axis]
    if not 0 <= k <= n:
        raise ctx.shape_error(f"k is {k}, the axis has {n} elements")
    shape = [*x.shape[:axis], k, *x.shape[axis + 1 :]]
    if 0 in shape:
        return [b.empty(shape, x.dtype), b.empty(shape, "int64")]
    rows, columns = math.prod(x.shape[:axis]), math.prod(x.shape[axis + 1 :])
    flat = b.reshape(x, [rows, n, columns])
    find = _ranked if n <= RANKED else _inserted
    values, at = find(ctx, flat, k, bool(ctx.attr("largest", 1)))
    return [b.reshape(values, shape), b.reshape(at, shape)]


def _beats(s: Body, a: Scalar, c: Scalar, largest: bool) -> Scalar:
    """True when ``a`` comes strictly before ``c``."""
    first, second = (a, c) if largest else (c, a)
    wins = first > second
    if dtypes.is_float(a.dtype):
        wins = wins | (s.is_nan(first) & ~s.is_nan(second))
    return wins


def _ranked(ctx: Context, x: Value, k: int, largest: bool) -> tuple[Value, Value]:
    """Every element's rank is the number of elements before it: all pairs, in parallel."""
    b, (rows, _, columns) = ctx.b, x.shape

    def rank(s: Body, own: Scalar, other: Scalar, acc: Scalar) -> Scalar:
        earlier = s.index(3) < s.index(1)
        before = _beats(s, other, own, largest) | (earlier & ~_beats(s, own, other, largest))
        return acc + s.cast(before, "int32")

    ranks = b.generic(
        [(x, "d0, d1, d2"), (x, "d0, d3, d2")],
        [(b.fill(x.shape, "int32", 0), "d0, d1, d2")],
        "pppr",
        rank,
    )[0]

    def where(s: Body, rank: Scalar, _: Scalar, acc: Scalar) -> Scalar:
        mine = rank.eq(s.cast(s.index(1), "int32"))
        return acc + s.select(mine, s.cast(s.index(3), "int64"), 0)

    own = "d0, d1, d2"
    shape = [rows, k, columns]
    at = b.generic(
        [(ranks, "d0, d3, d2"), (b.empty(shape, "int64"), own)],
        [(b.fill(shape, "int64", 0), own)],
        "pppr",
        where,
    )[0]
    values = b.generic(
        [(at, own)],
        [(b.empty(shape, x.dtype), own)],
        "ppp",
        lambda s, i, _: s.extract(x, [s.index(0), s.cast(i, "index"), s.index(2)]),
    )[0]
    return values, at


def _inserted(ctx: Context, x: Value, k: int, largest: bool) -> tuple[Value, Value]:
    """A sequential pass that inserts each element which beats the k-th into a sorted list."""
    b, (rows, n, columns) = ctx.b, x.shape
    shape = [rows, k, columns]

    def element(s: Body, row: Scalar, i: Scalar, column: Scalar, tensors: list) -> list:
        values, at = tensors
        new = s.extract(x, [row, i, column])
        last = s.extract(values, [row, k - 1, column])
        enters = (i < k) | _beats(s, new, last, largest)

        def place(j: Scalar, *carried: Value | Scalar) -> list:
            held, where, value, position = carried
            assert isinstance(held, Value) and isinstance(where, Value)
            assert isinstance(value, Scalar) and isinstance(position, Scalar)
            there = [row, j, column]
            old, old_at = s.extract(held, there), s.extract(where, there)
            tie = (position < old_at) & ~_beats(s, old, value, largest)
            # Places from i on are still free.
            swap = (j >= i) | _beats(s, value, old, largest) | tie
            held = s.insert(s.select(swap, value, old), held, there)
            where = s.insert(s.select(swap, position, old_at), where, there)
            return [held, where, s.select(swap, old, value), s.select(swap, old_at, position)]

        return s.for_(
            0,
            s.select(enters, s.const(k, "index"), 0),
            [values, at, new, s.cast(i, "int64")],
            place,
        )[:2]

    def row(s: Body, r: Scalar, *tensors: Value) -> list:
        def column(c: Scalar, *inner: Value | Scalar) -> list:
            return s.for_(0, n, list(inner), lambda i, *t: element(s, r, i, c, list(t)))

        return s.for_(0, columns, list(tensors), column)

    out = b.loop(rows, [b.splat(shape, x.dtype, 0), b.splat(shape, "int64", 0)], row)
    return out[0], out[1]
