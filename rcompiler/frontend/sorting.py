"""The k smallest of each row in order: integer keys, sorted runs, and merges of two runs.

    keys [rows, n]  ->  runs [rows * m, length]  ->  m / 2 runs, twice as long or k  -> ... -> 1 run

Every element has an integer key that orders as the element does, so that one comparison is enough
and no NaN is left. Runs come from comparing all pairs of 64 neighbours or, where k is small, from
a pass over a longer chunk that inserts what beats its k-th. Each merge writes parts of 64 elements:
where a part starts in both runs is found by bisection (the merge path of Green, McColl and Bader,
ICS'12), so all parts of all rows run in parallel. Equal keys keep their order.

Where k is small beside n, only those elements are ordered that can be among the k; selection.py
finds them. Of many short rows few_in_order.py keeps the first k, a vector of rows at a time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from rcompiler.frontend import dtypes
from rcompiler.frontend.body import Body
from rcompiler.frontend.builder import Builder, Value
from rcompiler.frontend.few_in_order import few_in_order
from rcompiler.frontend.scalar import Number, Scalar
from rcompiler.frontend.selection import first_groups, first_places, group_size, narrowed

ALL_PAIRS = 128  # longest row whose order is found by comparing all pairs
_RUN = 64  # elements of a run that is sorted by comparing all pairs
_PART = 64  # elements that one task of a merge writes at least
INSERTED = 32  # largest k for which a pass over a chunk inserts what beats its k-th
_CHUNK = 4096  # elements of a chunk at least
_GROUP = 8  # elements of a chunk that are looked at only if the smallest of them beats the k-th
# Elements of a chunk for each square of k: inserting k log(n / k) elements, each of which moves
# k / 2 others, should take less than the pass over all n.
_CHUNK_SQUARES = 16

# From how many rows on they are looked at side by side, each element of them compared with all k;
# up to which length, and to how many comparisons a row. In longer rows few elements beat the k-th.
_SIDE_BY_SIDE = 8
_SHORT = 1024
_SHORT_WORK = 16 * _SHORT

_LONG = 1 << 15  # elements of rows of which groups are left out even where few are looked for
_LONG_RATIO = 16  # elements for each that is looked for, from which on groups are left out
_SELECTED_RATIO = 2  # the same, from which on elements are selected before they are ordered


@dataclass(frozen=True)
class Runs:
    """Sorted runs of the elements of each row.

    keys, at: [rows * count, width], the keys and the positions in the row, int32 or int64. All
    runs have `length` elements but the last one of a row, which has `last`; what is behind them
    means nothing.
    """

    keys: Value
    at: Value
    count: int
    length: int
    last: int


def first_in_order(b: Builder, keys: Value, k: int) -> Value:
    """Positions [rows, k] of the ``k`` smallest of each row of integers ``keys`` [rows, n], the
    smallest first, of equal ones the first one first; int32, or int64 where rows are too long.

    1 <= k <= n.
    """
    rows, n = keys.shape
    if rows >= _SIDE_BY_SIDE and n <= _SHORT and k <= min(INSERTED, _SHORT_WORK // n):
        return few_in_order(b, keys, k)
    if n <= ALL_PAIRS:
        return _by_all_pairs(b, keys, k)
    size = group_size(n, k)
    if n >= (_LONG if k <= INSERTED else _LONG_RATIO * k) and size > 1:
        return _of_groups(b, keys, k, size)
    if k > INSERTED and n >= _SELECTED_RATIO * k:
        return _of_places(b, keys, k)
    runs = _inserted_runs(b, keys, k) if k <= INSERTED else _ranked_runs(b, keys)
    while runs.count > 1:
        runs = _merged(b, runs, rows, k)
    return b.slice(runs.at, [0, 0], [rows, k])


def keys_of(b: Builder, x: Value, largest: bool) -> Value:
    """Integers [rows * columns, n] that order as the elements of ``x`` [rows, n, columns] along n,
    backwards if ``largest``. Zeros are equal, and so are NaNs, which are the largest numbers.
    """
    rows, n, columns = x.shape
    wide = dtypes.bits(x.dtype) > 32
    kind = "int64" if wide else "int32"

    def key(s: Body, a: Scalar) -> Scalar:
        made = _float_key(s, a, kind) if dtypes.is_float(a.dtype) else _integer_key(s, a, kind)
        return ~made if largest else made

    turned = b.tabulate([rows, columns, n], kind, key, (x, "d0, d2, d1"))
    return b.reshape(turned, [rows * columns, n])


def _float_key(s: Body, a: Scalar, kind: str) -> Scalar:
    """The bits, those of a negative number as the distance below zero."""
    a = s.cast(a, "float64" if kind == "int64" else "float32")
    _, highest = dtypes.limits(kind)
    bits = s.bitcast(a, kind)
    bits = s.select(bits < 0, bits ^ highest, bits)
    bits = s.select(a.eq(0.0), 0, bits)
    return s.select(s.is_nan(a), highest, bits)


def _integer_key(s: Body, a: Scalar, kind: str) -> Scalar:
    """The number; of an unsigned one of full width, shifted by half of its range."""
    if dtypes.is_signed(a.dtype) or dtypes.bits(a.dtype) < dtypes.bits(kind):
        return s.cast(a, kind)
    return s.as_type(a, kind) ^ dtypes.limits(kind)[0]


# -- few of many -------------------------------------------------------------------------------
def _of_groups(b: Builder, keys: Value, k: int, size: int) -> Value:
    """Of the elements of the groups of ``size`` that hold all ``k``."""
    groups, inside = first_groups(b, keys, k, size)
    places = first_in_order(b, inside, k)

    def where(s: Body, place: Scalar) -> Scalar:
        place = s.cast(place, "index")
        group = s.extract(groups, [s.index(0), s.div(place, size)])
        return group * size + s.cast(s.rem(place, size), groups.dtype)

    return b.tabulate([keys.shape[0], k], groups.dtype, where, (places, "d0, d1"))


def _of_places(b: Builder, keys: Value, k: int) -> Value:
    """Of the k that are selected first."""
    at = first_places(b, keys, k)

    def key(s: Body, i: Scalar) -> Scalar:
        return s.extract(keys, [s.index(0), s.cast(i, "index")])

    def where(s: Body, place: Scalar) -> Scalar:
        return s.extract(at, [s.index(0), s.cast(place, "index")])

    shape = [keys.shape[0], k]
    chosen = b.tabulate(shape, keys.dtype, key, (at, "d0, d1"))
    return b.tabulate(shape, at.dtype, where, (first_in_order(b, chosen, k), "d0, d1"))


# -- short rows ---------------------------------------------------------------------------------
def _ranks(b: Builder, keys: Value) -> Value:
    """The place of each element in its sorted row: the number of elements before it."""

    def rank(s: Body, own: Scalar, other: Scalar, acc: Scalar) -> Scalar:
        earlier = s.index(2) < s.index(1)
        return acc + s.cast((other < own) | (earlier & other.eq(own)), "int32")

    return b.fold([(keys, "d0, d1"), (keys, "d0, d2")], keys.shape, "int32", 0, "ppr", rank)


def _by_all_pairs(b: Builder, keys: Value, k: int) -> Value:
    def where(s: Body, rank: Scalar, _: Scalar, acc: Scalar) -> Scalar:
        mine = rank.eq(s.cast(s.index(1), "int32"))
        return acc + s.select(mine, s.cast(s.index(2), "int32"), 0)

    shape = [keys.shape[0], k]
    reads = [(_ranks(b, keys), "d0, d2"), (b.empty(shape, "int32"), "d0, d1")]
    return b.fold(reads, shape, "int32", 0, "ppr", where)


# -- runs ---------------------------------------------------------------------------------------
def _ranked_runs(b: Builder, keys: Value) -> Runs:
    """Runs of neighbours: the rank of each among them is its place in the run."""
    rows, n = keys.shape
    count = -(-n // _RUN)
    _, highest = dtypes.limits(keys.dtype)
    padded = b.pad(keys, [0, 0], [0, count * _RUN - n], highest)  # ranks behind all others
    parts = b.reshape(padded, [rows * count, _RUN])
    ranks, kind = _ranks(b, parts), dtypes.position_type(n)

    def run(s: Body, row: Scalar, *tensors: Value) -> list:
        start = s.rem(row, count) * _RUN

        def element(i: Scalar, *carried: Value) -> list:
            place = s.cast(s.extract(ranks, [row, i]), "index")
            found = s.extract(parts, [row, i]), s.cast(start + i, kind)
            return [s.insert(v, t, [row, place]) for v, t in zip(found, carried, strict=True)]

        return s.for_(0, _RUN, list(tensors), element)

    outs = [b.empty(parts.shape, keys.dtype), b.empty(parts.shape, kind)]
    sorted_keys, at = b.loop(rows * count, outs, run)
    return Runs(sorted_keys, at, count, _RUN, n - (count - 1) * _RUN)


def _inserted_runs(b: Builder, keys: Value, k: int) -> Runs:
    """The first k of each chunk: a pass that inserts each element which beats the k-th, and looks
    only at groups of which the smallest does.
    """
    rows, n = keys.shape
    size = -(-min(max(_CHUNK, _CHUNK_SQUARES * k * k), n) // _GROUP) * _GROUP
    count, kind = -(-n // size), dtypes.position_type(n)
    _, highest = dtypes.limits(keys.dtype)
    keys = b.pad(keys, [0, 0], [0, -n % _GROUP], highest)
    groups = keys.shape[1] // _GROUP
    lows = b.reduce(
        b.reshape(keys, [rows * groups, _GROUP]), [1], highest, lambda s, a, acc: s.minimum(acc, a)
    )
    lows = b.reshape(lows, [rows, groups])

    most, inserted = size // _GROUP, entering(k, size)
    looked = min(inserted, most)  # groups; few have two elements that enter

    def chunk(s: Body, run: Scalar, *tensors: Value) -> list:
        row, start = s.div(run, count), s.rem(run, count) * size

        def element(i: Scalar, *carried: Any) -> list:
            key, least = s.extract(keys, [row, start + i]), carried[-1]

            def enter(*inner: Any) -> list:
                found = [key, s.cast(start + i, kind)]
                return _insert(s, run, list(inner[:-1]), found, i, k, highest)

            often = inserted / (looked * _GROUP)
            return s.when((i < k) | (key < least), carried, enter, often)

        def group(g: Scalar, *carried: Any) -> list:
            first, least = g * _GROUP, carried[-1]
            low = s.extract(lows, [row, s.div(start, _GROUP) + g])

            def look(*inner: Any) -> list:
                return s.for_(0, _GROUP, inner, lambda i, *c: element(first + i, *c))

            return s.when((first < k) | (low < least), carried, look, looked / most)

        end = s.minimum(s.const(most, "index"), groups - s.div(start, _GROUP))
        return s.for_(0, end, [*tensors, s.const(highest, keys.dtype)], group)[:-1]

    shape = [rows * count, k]
    kept, at = b.loop(rows * count, [b.empty(shape, keys.dtype), b.empty(shape, kind)], chunk)
    return Runs(kept, at, count, k, min(k, n - (count - 1) * size))


def entering(k: int, n: int) -> float:
    """How many of n elements in random order are among the first k of those up to them, in the
    mean: the first k, and of each i elements later the last one with a chance of k / i.
    """
    return min(n, k * (1 + math.log(max(n / k, 1))))


def _insert(
    s: Body, row: Scalar, held: list, new: list[Scalar], i: Scalar, k: int, highest: Number
) -> list:
    """Put element ``i`` into the sorted row of what is held of those before it; what is behind it
    moves on. Returns what is held, and the key that the next one must beat.
    """
    keys, key = held[0], new[0]
    last = s.minimum(i, k - 1)  # the place that becomes taken, or whose element goes

    def halve(_: Scalar, low: Scalar, high: Scalar) -> list:
        middle = s.shift_right(low + high, 1)
        before = (low < high) & (s.extract(keys, [row, s.minimum(middle, last)]) <= key)
        return narrowed(s, low, high, middle, before)

    # Of the first element nothing is held yet: places from `last` on are not read.
    place = s.for_(0, k.bit_length(), [s.const(0, "index"), last], halve)[0]

    def move(j: Scalar, *carried: Any) -> list:
        tensors, values = carried[:2], carried[2:]
        old = [s.extract(t, [row, j]) for t in tensors]
        pairs = zip(values, tensors, strict=True)
        return [*(s.insert(v, t, [row, j]) for v, t in pairs), *old]

    moved = s.for_(place, last, [*held, *new], move)
    held = [s.insert(v, t, [row, last]) for t, v in zip(moved[:2], moved[2:], strict=True)]
    threshold = s.select(i >= k - 1, s.extract(held[0], [row, last]), highest)
    return [*held, threshold]


# -- merges -------------------------------------------------------------------------------------
def _merged(b: Builder, runs: Runs, rows: int, k: int) -> Runs:
    """Two runs and two runs merged, up to their first k elements."""
    count = -(-runs.count // 2)
    length = min(2 * runs.length, k)
    size = min(_PART, length)
    parts = -(-length // size)
    kind = runs.at.dtype

    def part(s: Body, task: Scalar, *tensors: Value) -> list:
        pair, start = s.div(task, parts), s.rem(task, parts) * size
        merge = _Merge.of(s, runs, s.div(pair, count), s.rem(pair, count))
        i = merge.split(start) if parts > 1 else s.const(0, "index")
        end = s.clamp(s.minimum(merge.first_size + merge.second_size, length) - start, 0, size)

        def element(place: Scalar, keys: Value, at: Value, i: Scalar, j: Scalar) -> list:
            takes_first, key, position = merge.next(i, j)
            step = s.cast(s.cast(takes_first, "int64"), "index")
            keys = s.insert(key, keys, [task, place])
            at = s.insert(position, at, [task, place])
            return [keys, at, i + step, j + (1 - step)]

        return s.for_(0, end, [*tensors, i, s.minimum(start, merge.total) - i], element)[:2]

    shape = [rows * count * parts, size]
    outs = [b.empty(shape, runs.keys.dtype), b.empty(shape, kind)]
    keys, at = b.loop(rows * count * parts, outs, part)
    wide = [rows * count, parts * size]
    last = runs.last if runs.count % 2 else runs.length + runs.last
    return Runs(b.reshape(keys, wide), b.reshape(at, wide), count, length, min(last, length))


@dataclass(frozen=True)
class _Merge:
    """Two neighbouring runs: their rows in ``runs``, and how many elements they have."""

    s: Body
    runs: Runs
    first: Scalar
    second: Scalar
    first_size: Scalar
    second_size: Scalar

    @staticmethod
    def of(s: Body, runs: Runs, row: Scalar, pair: Scalar) -> _Merge:
        """Of the runs ``2 * pair`` and the one behind it, which may be missing, of a row."""
        own, final = pair * 2, runs.count - 1

        def size(number: Scalar) -> Scalar:
            last = s.select(number.eq(final), s.const(runs.last, "index"), 0)
            return s.select(number < final, runs.length, last)

        base = row * runs.count
        other = s.minimum(own + 1, final)
        return _Merge(s, runs, base + own, base + other, size(own), size(own + 1))

    @property
    def total(self) -> Scalar:
        return self.first_size + self.second_size

    def _key(self, row: Scalar, place: Scalar, size: Scalar) -> Scalar:
        """The key at a place, of another one where the run has ended."""
        inside = self.s.minimum(place, self.s.maximum(size - 1, 0))
        return self.s.extract(self.runs.keys, [row, inside])

    def split(self, start: Scalar) -> Scalar:
        """How many of the first ``start`` elements of the merged run are of the first run."""
        s, start = self.s, self.s.minimum(start, self.total)

        def halve(_: Scalar, low: Scalar, high: Scalar) -> list:
            middle = s.shift_right(low + high, 1)
            own = self._key(self.first, middle, self.first_size)
            behind = s.maximum(start - 1 - middle, 0)
            other = self._key(self.second, behind, self.second_size)
            before = (low < high) & (own <= other)
            return narrowed(s, low, high, middle, before)

        bounds = [s.maximum(start - self.second_size, 0), s.minimum(start, self.first_size)]
        low: Scalar = s.for_(0, self.runs.length.bit_length(), bounds, halve)[0]
        return low

    def next(self, i: Scalar, j: Scalar) -> tuple[Scalar, Scalar, Scalar]:
        """Of the elements ``i`` and ``j`` of the two runs, of which at least one is there, the one
        that comes first: whether it is that of the first run, its key and its position.
        """
        s = self.s
        own = self._key(self.first, i, self.first_size)
        other = self._key(self.second, j, self.second_size)
        takes = (i < self.first_size) & ((j >= self.second_size) | (own <= other))
        where = [s.select(takes, self.first, self.second), s.select(takes, i, j)]
        return takes, s.select(takes, own, other), s.extract(self.runs.at, where)
