"""Builder methods on tensors of which only a part is there: sizes that are known at run time.

Each method of the layers below is asked with whole tensors, at their bounds, and the result is
told which part of it is the answer (`Value.extents`). What lies behind that part is never looked
at: what is folded along such an axis is masked first, by a number that changes nothing.

    %inside = arith.cmpi slt, %position, %size : i64        // of the axis, at run time
    %a = arith.select %inside, %element, %neutral : f32     // in the body of a generic, so it fuses
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from rcompiler.support.extent import (
    Extent,
    InexactDivision,
    Size,
    Symbol,
    highest,
    lowest,
    product,
)

from . import dtypes
from .body import Body
from .core import Fn, dims, stored
from .recurrence import RecurrenceOps
from .scalar import Number, Scalar
from .sized_reshapes import keeps_prefix, reshaped_extents
from .value import SIZE_OF, Extents, LengthsDiffer, SizeAtRunTime, Value, extent_of

_DIM = re.compile(r"d(\d+)")


def sized(value: Value) -> bool:
    """Whether only a part of it is there."""
    return value.whole is not None


def bare(value: Value) -> Value:
    """All elements, also those that are no answer."""
    return value if value.whole is None else value.whole


class SizedOps(RecurrenceOps):
    """The part of Builder that knows of sizes at run time."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: dict[Symbol, Value] = {}  # int64 scalars
        self.parts: dict[str, Value] = {}  # of graph inputs, by name
        self.told: dict[str, Symbol] = {}  # by an argument, by the name of it
        # lengths that differ between the requests of a batch, and the size that these requests are
        # along another axis; None where it is one request
        self.lengths: dict[Symbol, tuple[Value, Symbol | None]] = {}
        self.limits: dict[str, int] = {}  # of counts: by results, the bounds that a caller gives
        self.limited: set[str] = set()  # results of all nodes that count

    # -- sizes and what is made of them ---------------------------------------------------------
    def size_argument(self, symbol: Symbol) -> None:
        """The count of a symbol is an argument: the caller's arrays tell it."""
        name = SIZE_OF + symbol.name
        value = Value(self._fresh("size"), (), "int64", inputs=frozenset([name]))
        self._depends[value.name] = value.inputs
        self.arguments.append((value, name))
        self.counts[symbol], self.told[value.name] = value, symbol

    def part(self, name: str, whole: Value, extents: Sequence[Extent | None]) -> Value:
        """The graph input of which only the box of these extents is there."""
        self.parts[name] = self.sized(whole, extents)
        return self.parts[name]

    def sizes_computed(self, results: Sequence[tuple[str, Value]]) -> tuple[Symbol, ...]:
        """Those of named values that no argument tells, in the order in which they came up."""
        extents = [extent for _, value in results for extent in value.extents if extent]
        symbols = {s for e in extents for s in e.symbols} - set(self.told.values())
        return tuple(symbol for symbol in self.counts if symbol in symbols)

    def count(self, name: str, value: Value, high: int, low: int = 0) -> Extent:
        """The size that the model computes, ``value``: an int64 scalar from ``low`` to ``high``.
        What is computed alike is one size, so that tensors of the same elements fit each other.

        name: of what is counted; a number makes it one of its own.
        """
        for symbol, known in self.counts.items():
            alike = value.name and value.name == known.name
            if alike and (symbol.low, symbol.high) == (low, high):
                return Extent.of(symbol)
        taken = {symbol.name for symbol in self.counts}
        own = next(n for n in itertools.chain([name], _numbered(name)) if n not in taken)
        symbol = Symbol(own, low, high)
        self.counts[symbol] = value
        return Extent.of(symbol)

    def quotient(self, name: str, size: Size, divisor: int) -> Size:
        """``size // divisor``, of a size that is never negative, by a number above 0. Where that is
        no polynomial for all counts, a run computes it.

        name: of what is counted so.
        """
        try:
            return size // divisor
        except InexactDivision:
            made = self.elementwise(lambda s, a: a / divisor, self.number(size))
            return self.count(name, made, highest(size) // divisor, lowest(size) // divisor)

    def sized(self, whole: Value, extents: Iterable[Extent | None]) -> Value:
        """The tensor of which only the box of these extents is there."""
        own: Extents = tuple(extents)
        assert whole.whole is None and len(own) == whole.rank, (whole, own)
        if not any(own):
            return whole
        out = Value("", whole.shape, whole.dtype, inputs=whole.inputs)
        out.whole, out.extents, out.known = whole, own, whole.known
        return out

    def number(self, size: Size) -> Value:
        """An int64 scalar."""
        if isinstance(size, int):
            return self.constant(size, "int64")
        if len(size.terms) == 1 and size == Extent.of(size.symbols[0]):
            return self._count(size.symbols[0])
        return self.numbers(np.array(size, object), "int64")

    def _count(self, symbol: Symbol) -> Value:
        """The one number that a symbol is in a call. Raises LengthsDiffer if it is several."""
        if symbol not in self.counts:
            raise LengthsDiffer(f"'{symbol.name}' differs between the requests of a call")
        return self.counts[symbol]

    def numbers(self, elements: np.ndarray, dtype: str) -> Value:
        """A tensor of sizes; a constant where they are known."""
        if all(isinstance(each, int | np.integer) for each in elements.reshape(-1)):
            return self.constant(elements.astype(np.int64), dtype)
        symbols = {s for e in elements.reshape(-1) if isinstance(e, Extent) for s in e.symbols}
        known = [self.counts[symbol] for symbol in symbols if symbol in self.counts]
        needs = frozenset[str]().union(*(count.inputs for count in known))
        out = Value("", elements.shape, dtype, inputs=needs)
        out.elements = elements
        return out

    def computed(self, value: Value) -> str:
        """SSA name of the numbers that are made of sizes at run time."""
        elements = value.elements
        assert elements is not None
        flat = list(elements.reshape(-1))
        symbols = sorted({s for e in flat if isinstance(e, Extent) for s in e.symbols})

        def body(s: Body, *counts: Scalar) -> Scalar:
            by_name = dict(zip(symbols, counts, strict=True))
            made = [_polynomial(s, size, by_name) for size in flat]
            position = s.const(0, "index")
            for d, extent in enumerate(value.shape):
                position = position * extent + s.index(d)
            found = made[-1]
            for number, each in reversed(list(enumerate(made[:-1]))):
                found = s.select(position.eq(number), each, found)
            return s.cast(found, value.dtype)

        reads = [(self._count(symbol), "") for symbol in symbols]
        return self.tabulate(value.shape, value.dtype, body, *reads).name

    def masked(self, value: Value, axes: Iterable[int] | None = None, number: Number = 0) -> Value:
        """With ``number`` where nothing is along axes (default: all): there all is there now."""
        axes = range(value.rank) if axes is None else axes
        partial = [axis for axis in axes if value.extents[axis] is not None]
        cut = [axis for axis in partial if number or axis not in value.zeros]
        if not cut:
            left = (None if axis in partial else e for axis, e in enumerate(value.extents))
            return self.sized(bare(value), left)
        ends = [self._end(value, axis) for axis in cut]
        kind = dtypes.position_type(max(value.shape))  # narrow positions are compared in vectors

        def body(s: Body, a: Scalar, *ends: Scalar) -> Scalar:
            pairs = zip(cut, ends, strict=True)
            inside = [s.cast(s.index(d), kind) < s.cast(end, kind) for d, end in pairs]
            both = inside[0]
            for each in inside[1:]:
                both = both & each
            return s.select(both, a, s.const(stored(number, a.dtype), a.dtype))

        whole = bare(value)
        reads = [(whole, ", ".join(dims(value.rank))), *ends]
        made = self.tabulate(whole.shape, whole.dtype, body, *reads)
        rest = [None if axis in partial else extent for axis, extent in enumerate(value.extents)]
        return self.sized(made, rest)

    def _end(self, value: Value, axis: int) -> tuple[Value, str]:
        """Where what is there along an axis ends: a tensor, and the map that reads it."""
        length = self._length(value, axis)
        if length is None:
            return self.number(value.sizes[axis]), ""
        ends, requests = self.lengths[length]
        if requests is None:
            return self.reshape(ends, []), ""
        own = Extent.of(requests)
        of = [number for number, other in enumerate(value.extents) if other == own]
        if len(of) != 1:
            raise SizeAtRunTime(f"no one axis says whose '{length.name}' it is")
        return ends, f"d{of[0]}"

    def _length(self, value: Value, axis: int) -> Symbol | None:
        """What an axis is as long as, if that differs between the requests of a batch."""
        extent = value.extents[axis]
        if extent is None or extent != Extent.of(extent.symbols[0]):
            return None
        return extent.symbols[0] if extent.symbols[0] in self.lengths else None

    def counted(self, value: Value, axes: Sequence[int], keepdims: bool) -> Value:
        """How many elements are there along axes: a scalar, or where that differs between requests
        in the shape that is left of the tensor."""
        differing = [axis for axis in axes if self._length(value, axis)]
        beside = product(value.sizes[axis] for axis in axes if axis not in differing[:1])
        if not differing:
            return self.number(beside)
        counts, read = self._end(value, differing[0])
        if read:
            left = [d for d in range(value.rank) if keepdims or d not in axes]
            of = [read == f"d{d}" for d in left]
            shape = [value.shape[d] if own else 1 for d, own in zip(left, of, strict=True)]
            extents = [value.extents[d] if own else None for d, own in zip(left, of, strict=True)]
            counts = self.sized(self.reshape(counts, shape), extents)
        return self.elementwise(lambda s, n, m: n * m, counts, self.number(beside))

    # -- generics -------------------------------------------------------------------------------
    def tabulate(
        self, shape: Sequence[int], dtype: str, fn: Fn, *reads: tuple[Value, str]
    ) -> Value:
        if not any(sized(value) for value, _ in reads):
            return super().tabulate(shape, dtype, fn, *reads)
        extents = _extents_of_dims(reads)
        made = super().tabulate(shape, dtype, fn, *((bare(value), own) for value, own in reads))
        return self.sized(made, (extents.get(d) for d in range(len(shape))))

    def fold(
        self,
        reads: Sequence[tuple[Value, str]],
        shape: Sequence[int],
        dtype: str,
        init: Number,
        iterators: str,
        fn: Fn,
        write: str | None = None,
    ) -> Value:
        """As below; with ``init`` for every element that is not there, ``fn`` must not change what
        it folds, as it is with sums of products, maxima and the like.
        """
        if not any(sized(value) for value, _ in reads):
            return super().fold(reads, shape, dtype, init, iterators, fn, write)
        extents = _extents_of_dims(reads)
        within = []
        for value, own in reads:
            folded = [
                axis
                for axis, dim in enumerate(_results(own))
                if value.extents[axis] is not None and iterators[int(dim[1:])] == "r"
            ]
            within.append((bare(self.masked(value, folded, init)), own))
        made = super().fold(within, shape, dtype, init, iterators, fn, write)
        written = dims(len(shape)) if write is None else _results(write)
        return self.sized(made, (extents.get(int(dim[1:])) for dim in written))

    # -- layout ---------------------------------------------------------------------------------
    def reshape(
        self, value: Value, shape: Sequence[int], extents: Sequence[Extent | None] | None = None
    ) -> Value:
        """As below. extents: of the result; default: what they must be, if each dimension that is
        not all there stays the first of its group."""
        if not sized(value):
            assert extents is None or not any(extents)
            return super().reshape(value, shape)
        if extents is None:
            extents = reshaped_extents(value.sizes, value.shape, shape)
        sizes = [d if e is None else e for d, e in zip(shape, extents, strict=True)]
        if keeps_prefix(value.sizes, value.shape, sizes, shape):
            return self.sized(super().reshape(bare(value), shape), extents)
        return self.sized(self._rearranged(value, shape, sizes), extents)

    def _rearranged(self, value: Value, shape: Sequence[int], sizes: Sequence[Size]) -> Value:
        """The elements that are there, in row-major order under another shape."""
        own, wanted = ([self.number(size) for size in each] for each in (value.sizes, sizes))
        whole = bare(value)

        def body(s: Body, *ends: Scalar) -> Scalar:
            # none of them is 0 where an element is there
            counts = [s.maximum(s.cast(end, "index"), 1) for end in ends]
            left, position = counts[len(own) :], s.const(0, "index")
            for d, count in enumerate(left):
                position = position * count + s.index(d)
            at: list[Scalar] = []
            for count in reversed(counts[1 : len(own)]):
                at.insert(0, s.rem(position, count))
                position = position / count
            at.insert(0, s.minimum(position, whole.shape[0] - 1))
            return s.extract(whole, at)

        reads = [(size, "") for size in (*own, *wanted)]
        return self.tabulate(shape, value.dtype, body, *reads)

    def transpose(self, value: Value, perm: Sequence[int]) -> Value:
        if not sized(value):
            return super().transpose(value, perm)
        made = self.sized(super().transpose(bare(value), perm), [value.extents[p] for p in perm])
        made.zeros = frozenset(axis for axis, p in enumerate(perm) if p in value.zeros)
        return made

    def broadcast_to(
        self, value: Value, shape: Sequence[int], extents: Sequence[Extent | None] | None = None
    ) -> Value:
        """As below. extents: of the result, where it has some that the tensor has not."""
        if not sized(value) and (extents is None or not any(extents)):
            return super().broadcast_to(value, shape)
        own = [None] * (len(shape) - value.rank) + list(value.extents)
        wanted = own if extents is None else list(extents)
        for d, (extent, to) in enumerate(zip(own, wanted, strict=True)):
            repeated = d < len(shape) - value.rank or value.shape[d - len(shape)] == 1
            if extent != to and not (extent is None and repeated):
                raise SizeAtRunTime(f"{extent} elements are not repeated to {to}")
        return self.sized(super().broadcast_to(bare(value), shape), wanted)

    def slice(
        self,
        value: Value,
        starts: Sequence[int],
        sizes: Sequence[int],
        steps: Sequence[int] | None = None,
    ) -> Value:
        if not sized(value):
            return super().slice(value, starts, sizes, steps)
        for axis, extent in enumerate(value.extents):
            whole = starts[axis] == 0 and sizes[axis] == value.shape[axis]
            if extent is not None and not (whole and (steps is None or steps[axis] == 1)):
                raise SizeAtRunTime(f"axis {axis} of {value!r} is cut")
        return self.sized(super().slice(bare(value), starts, sizes, steps), value.extents)

    def pad(
        self, value: Value, low: Sequence[int], high: Sequence[int], number: Number = 0
    ) -> Value:
        if not sized(value):
            return super().pad(value, low, high, number)
        for axis, extent in enumerate(value.extents):
            if extent is not None and (low[axis] or high[axis]):
                raise SizeAtRunTime(f"axis {axis} of {value!r} is padded")
        return self.sized(super().pad(bare(value), low, high, number), value.extents)

    def concat(self, values: Sequence[Value], axis: int) -> Value:
        """As below; along an axis that is not all there each part begins where the one before it
        ends."""
        if not any(map(sized, values)):
            return super().concat(values, axis)
        sides = {v.extents[:axis] + v.extents[axis + 1 :] for v in values}
        if len(sides) > 1:
            raise SizeAtRunTime("the parts have different sizes beside the joined axis")
        total: Size = 0
        ends = [total := v.sizes[axis] + total for v in values]
        whole = [bare(v) for v in values]
        if any(v.extents[axis] is not None for v in values[:-1]):
            made = self._joined(whole, axis, ends)
        else:
            made = super().concat(whole, axis)
        extents = list(values[0].extents)
        extents[axis] = extent_of(total)
        return self.sized(made, extents)

    def _joined(self, values: Sequence[Value], axis: int, ends: Sequence[Size]) -> Value:
        """Parts along an axis, each up to its end; the last one has what is beyond."""
        shape = list(values[0].shape)
        shape[axis] = sum(v.shape[axis] for v in values)

        def body(s: Body, *counts: Scalar) -> Scalar:
            stops = [s.cast(count, "index") for count in counts]
            here, found = s.index(axis), None
            for number in reversed(range(len(values))):
                part, at = values[number], [s.index(d) for d in range(len(shape))]
                start = stops[number - 1] if number else s.const(0, "index")
                at[axis] = s.clamp(here - start, 0, part.shape[axis] - 1)
                element = s.extract(part, at)
                found = element if found is None else s.select(here < stops[number], element, found)
            assert found is not None
            return found

        reads = [(self.number(end), "") for end in ends[:-1]]
        return self.tabulate(shape, values[0].dtype, body, *reads)

    def picked(self, value: Value, axis: int, start: Size, size: Size, step: int = 1) -> Value:
        """``size`` elements of one axis from ``start`` on, where one of them, or the size of the
        axis, is known at run time only."""
        count = highest(size)
        shape = [count if d == axis else n for d, n in enumerate(value.shape)]
        extents = list(value.extents)
        extents[axis] = extent_of(size)
        whole, last = bare(value), value.shape[axis] - 1
        if isinstance(start, int) and step == 1 and start + count <= last + 1:
            return self.sized(self.slice_along(whole, axis, start, count), extents)

        def body(s: Body, first: Scalar) -> Scalar:
            at = [s.index(d) for d in range(len(shape))]
            at[axis] = s.clamp(s.cast(first, "index") + at[axis] * step, 0, last)
            return s.extract(whole, at)

        read = (self.number(start), "")
        return self.sized(self.tabulate(shape, value.dtype, body, read), extents)


def _numbered(name: str) -> Iterator[str]:
    return (f"{name} {number}" for number in itertools.count(2))


def _polynomial(s: Body, size: Size, counts: dict[Symbol, Scalar]) -> Scalar:
    """An int64 scalar."""
    if not isinstance(size, Extent):
        return s.const(int(size), "int64")
    total: Scalar | None = None
    for each, number in size.terms:
        term = s.const(number, "int64")
        for symbol in each:
            term = counts[symbol] if number == 1 and len(each) == 1 else term * counts[symbol]
        total = term if total is None else total + term
    assert total is not None
    return total


def _results(map_: str) -> list[str]:
    return [each.strip() for each in map_.split(",")] if map_.strip() else []


def _extents_of_dims(reads: Sequence[tuple[Value, str]]) -> dict[int, Extent | None]:
    """What is there along each dim of a generic that reads tensors by these maps.

    Raises SizeAtRunTime where they do not agree, or an axis is not read element by element.
    """
    found: dict[int, Extent | None] = {}
    for value, map_ in reads:
        for extent, text in zip(value.extents, _results(map_), strict=True):
            dim = _DIM.fullmatch(text)
            if dim is None and extent is None:
                continue
            if dim is None:
                raise SizeAtRunTime(f"{extent} elements are read at '{text}'")
            known = found.setdefault(int(dim[1]), extent)
            if known != extent:
                told = [f"{each} elements" if each else "all elements" for each in (known, extent)]
                raise SizeAtRunTime(f"one operand has {told[0]} along an axis, another {told[1]}")
    return found
