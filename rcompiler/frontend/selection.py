"""The k of each row that come first in order, without ordering the rest.

A bisection of the bits of a key finds the k-th smallest: one count of smaller keys per bit. What is
before it, and as many of its equals as there is room for, are the k; how many of them each group
of neighbours has, summed up, says where each one lies. Nothing depends on what the keys are, and
all steps run in parallel over rows, groups and results.

Of long rows most groups of neighbours hold none of the k: if an element is among them, fewer than k
groups have a smaller minimum than its own. So the minima of groups are narrowed down first, then
the elements of the k groups that are left.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from rcompiler.frontend import dtypes
from rcompiler.frontend.body import Body
from rcompiler.frontend.builder import Builder, Value
from rcompiler.frontend.prefix import prefix
from rcompiler.frontend.scalar import Scalar

_GROUP = 16  # neighbours that are counted together


def group_size(n: int, k: int) -> int:
    """Elements of a group such that there are about as many groups as elements in k of them."""
    return 1 << max(round(math.log2(n / k) / 2), 0)


def first_groups(b: Builder, keys: Value, k: int, size: int) -> tuple[Value, Value]:
    """Groups of ``size`` neighbours that hold the ``k`` that come first in each row of ``keys``
    [rows, n], of equal ones the first one first.

    Returns the numbers [rows, k] of the groups, ascending, and their keys [rows, k * size]; behind
    the end of a row are the greatest keys. Needs k groups at least.
    """
    rows, n = keys.shape
    _, highest = dtypes.limits(keys.dtype)
    groups = -(-n // size)
    padded = b.pad(keys, [0, 0], [0, groups * size - n], highest)
    parts = b.reshape(padded, [rows, groups, size])
    lows = b.reduce(parts, [2], highest, lambda s, a, acc: s.minimum(acc, a))
    chosen = first_places(b, lows, k)

    def element(s: Body, group: Scalar) -> Scalar:
        return s.extract(parts, [s.index(0), s.cast(group, "index"), s.index(2)])

    found = b.tabulate([rows, k, size], keys.dtype, element, (chosen, "d0, d1"))
    return chosen, b.reshape(found, [rows, k * size])


def first_places(b: Builder, keys: Value, k: int) -> Value:
    """Positions [rows, k], ascending, of the ``k`` that come first in each row of integers ``keys``
    [rows, n], of equal ones the first one first; int32, or int64 where rows are too long.
    """
    rows, n = keys.shape
    _, highest = dtypes.limits(keys.dtype)
    last = _kth(b, keys, k)
    groups = -(-n // _GROUP)
    padded = b.pad(keys, [0, 0], [0, groups * _GROUP - n], highest)
    parts = b.reshape(padded, [rows, groups, _GROUP])
    before = _running(b, parts, last, lambda key, bound: key < bound)
    equal = _running(b, parts, last, lambda key, bound: key.eq(bound))
    steps = groups.bit_length()
    kind = dtypes.position_type(n)

    def place(s: Body, task: Scalar, out: Value) -> list[Value]:
        row, number = s.div(task, k), s.cast(s.rem(task, k), "int32")
        bound = s.extract(last, [row])
        room = s.const(k, "int32") - s.extract(before, [row, groups - 1])

        def taken(group: Scalar) -> tuple[Scalar, Scalar]:
            """Of groups 0 .. group: elements before the bound, and equals that have room."""
            return s.extract(before, [row, group]), s.minimum(s.extract(equal, [row, group]), room)

        def halve(_: Scalar, low: Scalar, high: Scalar) -> list[Scalar]:
            middle = s.minimum(s.shift_right(low + high, 1), groups - 1)
            smaller, equals = taken(middle)
            right = (low < high) & (smaller + equals <= number)
            return narrowed(s, low, high, middle, right)

        ends = [s.const(0, "index"), s.const(groups - 1, "index")]
        group = s.for_(0, steps, ends, halve)[0]
        smaller, equals = taken(s.maximum(group - 1, 0))
        first = group.eq(0)

        def look(i: Scalar, found: Scalar, left: Scalar, spare: Scalar) -> list[Scalar]:
            key = s.extract(parts, [row, group, i])
            same = key.eq(bound)
            counts = (key < bound) | (same & (spare > 0))
            spare = spare - s.cast(same, "int32")
            hit = counts & left.eq(0)
            return [s.select(hit, i, found), left - s.cast(counts, "int32"), spare]

        state = [
            s.const(0, "index"),
            number - s.select(first, 0, smaller + equals),
            room - s.select(first, 0, equals),
        ]
        inside = s.for_(0, _GROUP, state, look)[0]
        return [s.insert(s.cast(group * _GROUP + inside, kind), out, [task])]

    return b.reshape(b.loop(rows * k, [b.empty([rows * k], kind)], place)[0], [rows, k])


def narrowed(s: Body, low: Scalar, high: Scalar, middle: Scalar, right: Scalar) -> list[Scalar]:
    """Both ends after a step of a bisection. right: whether what is looked for lies behind the
    middle.
    """
    return [s.select(right, middle + 1, low), s.select(right, high, s.minimum(middle, high))]


def _kth(b: Builder, keys: Value, k: int) -> Value:
    """The ``k``-th smallest [rows] of each row, its bits one by one from the highest."""
    lowest, _ = dtypes.limits(keys.dtype)
    found = b.fill([keys.shape[0]], keys.dtype, lowest)

    def count(s: Body, key: Scalar, bound: Scalar, acc: Scalar) -> Scalar:
        return acc + s.cast(key < bound, "int32")

    for bit in reversed(range(dtypes.bits(keys.dtype))):
        mask = lowest if bit == dtypes.bits(keys.dtype) - 1 else 1 << bit
        bound = b.elementwise(lambda s, a, mask=mask: a ^ mask, found)
        reads = [(keys, "d0, d1"), (bound, "d0")]
        smaller = b.fold(reads, found.shape, "int32", 0, "pr", count)
        found = b.elementwise(
            lambda s, n, new, old: s.select(n < k, new, old),
            smaller, bound, found, dtype=keys.dtype,
        )  # fmt: skip
    return found


def _running(
    b: Builder, parts: Value, bound: Value, holds: Callable[[Scalar, Scalar], Scalar]
) -> Value:
    """For each group the number [rows, groups] of keys of it and those before it that hold."""
    rows, groups, _ = parts.shape

    def count(s: Body, key: Scalar, limit: Scalar, acc: Scalar) -> Scalar:
        return acc + s.cast(holds(key, limit), "int32")

    reads = [(parts, "d0, d1, d2"), (bound, "d0")]
    counts = b.fold(reads, [rows, groups], "int32", 0, "ppr", count)
    total = prefix(b, b.reshape(counts, [rows, groups, 1]), lambda a, c: a + c, 0, exclusive=False)
    return b.reshape(total, [rows, groups])
