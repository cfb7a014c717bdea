"""Prefix folds of rows: sums or products of all elements up to each.

Of each column of each row, a line, one running fold goes from element to element. Lines know
nothing of each other, so they are parallel, and kernels are written in vectors across neighbours.
Few lines are cut into parts, each of which starts from the fold of all parts before it.
"""

from __future__ import annotations

from collections.abc import Callable

from rcompiler.frontend.body import Body
from rcompiler.frontend.builder import Builder, Value
from rcompiler.frontend.core import accumulator
from rcompiler.frontend.scalar import Number, Scalar

LINES = 1024  # that fill a device
PART = 64  # elements of a part at least: each costs a fold of its own, and one of all of them

Combine = Callable[[Scalar, Scalar], Scalar]


def prefix(
    b: Builder,
    x: Value,
    combine: Combine,
    neutral: Number,
    exclusive: bool,
    reverse: bool = False,
) -> Value:
    """Prefix folds along the middle dimension of ``x`` [rows, n, columns]."""
    rows, n, columns = x.shape
    parts, length = _parts(n, rows * columns)
    if parts == 1:
        return _running(b, x, None, combine, neutral, exclusive, reverse)
    spare = parts * length - n
    cut = b.reshape(b.pad(x, [0, 0, 0], [0, spare, 0], neutral), [rows * parts, length, columns])
    wide = accumulator(x.dtype)
    totals = b.reduce(
        cut, [1], neutral, lambda s, a, acc: combine(acc, s.cast(a, wide)), dtype=wide
    )
    totals = b.reshape(totals, [rows, parts, columns])
    before = _running(b, totals, None, combine, neutral, True, reverse)
    before = b.reshape(before, [rows * parts, columns])
    out = _running(b, cut, before, combine, neutral, exclusive, reverse)
    out = b.reshape(out, [rows, parts * length, columns])
    return b.slice(out, [0, 0, 0], [rows, n, columns])


def _parts(n: int, lines: int) -> tuple[int, int]:
    """How many parts of which length lines of ``n`` elements are cut into."""
    least = max(PART, -(-n * lines // LINES))
    if n < 2 * least:
        return 1, n
    # Parts that fill the line need no padding, which would copy all of it twice.
    length = next((d for d in range(least, 2 * least) if n % d == 0), least)
    return -(-n // length), length


def _running(
    b: Builder,
    x: Value,
    before: Value | None,
    combine: Combine,
    neutral: Number,
    exclusive: bool,
    reverse: bool,
) -> Value:
    """Running folds along the middle dimension, each from ``before`` [rows, columns] on."""
    rows, n, columns = x.shape
    wide = accumulator(x.dtype)
    lines = [size for size in (rows, columns) if size > 1] or [1]
    # dims of one element are no loops
    along = 1 if rows > 1 or lines == [1] else 0
    shape = [*lines[:along], n, *lines[along:]]
    source = b.reshape(x, shape)
    starts = None if before is None else b.reshape(before, lines)

    def line(s: Body, at: list[Scalar], out: Value) -> Value:
        def element(i: Scalar, out: Value, total: Scalar) -> list[Value | Scalar]:
            where = [*at[:along], n - 1 - i if reverse else i, *at[along:]]
            after = combine(total, s.cast(s.extract(source, where), wide))
            result = s.cast(total if exclusive else after, x.dtype)
            return [s.insert(result, out, where), after]

        start = s.const(neutral, wide) if starts is None else s.extract(starts, at)
        done: Value = s.for_(0, n, [out, start], element)[0]
        return done

    out = b.nest(lines, b.empty(shape, x.dtype), line)
    return b.reshape(out, x.shape)
