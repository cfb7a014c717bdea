"""Stream compaction: what is kept of a tensor moves to its front, in its order, with its number.

How many elements are kept is known at run time only, so that results are as long as they can be
at most, and hold zeros behind the count. Blocks of neighbours are compacted one by one, in
parallel. Parts of the result then find the first block that they have elements of by bisection of
the blocks' ends, and go on from there; parts behind the last element have nothing to do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rcompiler.frontend import dtypes
from rcompiler.frontend.body import Body
from rcompiler.frontend.builder import Builder, Value
from rcompiler.frontend.prefix import prefix
from rcompiler.frontend.scalar import Scalar
from rcompiler.frontend.selection import narrowed

BLOCK = 1024  # elements that are compacted, or joined, by one task
_USED = 0.25  # of the room for results, in the mean: for estimates


@dataclass(frozen=True)
class Joined:
    """Rows of different lengths, one behind the other.

    row, place: int32 or int64 [most], where each element comes from; 0 behind the last one.
    total: int64 [], how many elements there are.
    """

    row: Value
    place: Value
    total: Value


def join_rows(b: Builder, counts: Value, most: int) -> Joined:
    """The first ``most`` elements of rows that have ``counts`` [rows] elements, which are int32, or
    int64 where there may be more elements than that holds.
    """
    (rows,) = counts.shape
    kind = counts.dtype
    column = b.reshape(counts, [1, rows, 1])
    ends = b.reshape(prefix(b, column, lambda x, y: x + y, 0, exclusive=False), [rows])

    size = max(min(most, BLOCK), 1)
    tasks = max(-(-most // size), 1)

    def part(s: Body, task: Scalar, *outs: Value) -> list[Value]:
        start = task * size
        total = s.cast(s.extract(ends, [rows - 1]), "index")
        here = s.clamp(total - start, 0, size)

        def holding(place: Scalar) -> Scalar:
            place = s.cast(place, kind)
            return behind(s, rows, lambda at: s.extract(ends, [at]) <= place)

        def row(number: Scalar, *outs: Value) -> list[Value]:
            before = s.extract(ends, [s.maximum(number - 1, 0)])
            before = s.cast(s.select(number > 0, before, 0), "index")
            low, high = before, s.cast(s.extract(ends, [number]), "index")

            def element(i: Scalar, *outs: Value) -> list[Value]:
                found = s.cast(number, kind), s.cast(start + i - before, kind)
                return [s.insert(v, t, [task, i]) for v, t in zip(found, outs, strict=True)]

            low, high = (s.clamp(end - start, 0, here) for end in (low, high))
            return s.for_(low, high, outs, element, expected=_USED * most / max(rows, tasks))

        last = s.select(here > 0, s.minimum(holding(start + here - 1) + 1, rows), 0)
        return s.for_(holding(start), last, outs, row, expected=max(rows / tasks, 1))

    wide = [b.fill([tasks, size], kind, 0)] * 2
    found = [b.reshape(v, [tasks * size]) for v in b.loop(tasks, wide, part)]
    row_of, place = (b.slice(v, [0], [most]) for v in found)
    total = b.reshape(b.cast(b.slice(ends, [rows - 1], [1]), "int64"), [])
    return Joined(row_of, place, total)


def behind(s: Body, n: int, holds: Callable[[Scalar], Scalar]) -> Scalar:
    """The first of places 0 .. n - 1 for which ``holds(place)`` is false, n if there is none; it is
    true of all before one for which it is. Straight code, for bodies without loops.
    """
    low, high = s.const(0, "index"), s.const(n, "index")
    for _ in range(n.bit_length()):
        middle = s.minimum(s.shift_right(low + high, 1), n - 1)
        low, high = narrowed(s, low, high, middle, (low < high) & holds(middle))
    return low


def kept_places(b: Builder, kept: Value) -> tuple[Value, Value]:
    """Places of the true elements of ``kept`` (bool [n], n > 0), ascending.

    Returns int32 or int64 [n], of which those behind the count are 0; and the count, int64 [].
    """
    (n,) = kept.shape
    kind = dtypes.position_type(n)
    size = min(n, BLOCK)
    blocks = -(-n // size)
    parts = b.reshape(b.pad(kept, [0], [blocks * size - n], False), [blocks, size])

    def block(s: Body, number: Scalar, places: Value, counts: Value) -> list[Value]:
        def element(i: Scalar, places: Value, count: Scalar) -> list[Value | Scalar]:
            # what is not kept is overwritten by the next that is
            here = s.cast(number * size + i, kind)
            places = s.insert(here, places, [number, s.cast(count, "index")])
            return [places, count + s.cast(s.extract(parts, [number, i]), kind)]

        places, count = s.for_(0, size, [places, s.const(0, kind)], element)
        return [places, s.insert(count, counts, [number])]

    outs = [b.empty([blocks, size], kind), b.empty([blocks], kind)]
    places, counts = b.loop(blocks, outs, block)
    joined = join_rows(b, counts, n)

    def place(s: Body, row: Scalar, at: Scalar, total: Scalar) -> Scalar:
        found = s.extract(places, [s.cast(row, "index"), s.cast(at, "index")])
        return s.select(s.cast(s.index(0), "int64") < total, found, 0)

    reads = [(joined.row, "d0"), (joined.place, "d0"), (joined.total, "")]
    return b.tabulate([n], kind, place, *reads), joined.total
