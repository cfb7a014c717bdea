"""Sizes that are known at run time: where each comes from, and the numbers that are made of them.

batch = b.size_argument(Symbol("batch", 1, 8))   // told by the arrays of a caller
found = b.count("found", number, 100)            // computed by the model
b.lengths[Symbol("length", 0, 9)] = lengths, ... // differs between the requests of a batch
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from rcompiler.support.extent import Extent, Monomial, Size, Symbol, divided, highest, lowest

from .body import Body
from .recurrence import RecurrenceOps
from .scalar import Operand, Scalar
from .value import SIZE_OF, Extents, Leaf, LengthsDiffer, SizeAtRunTime, Value

Reads = list[tuple[Value, str]]  # of a body: tensors, and the maps that read them


class SizeCounts(RecurrenceOps):
    """The part of Builder that knows where sizes come from."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: dict[Symbol, Value] = {}  # int64 scalars
        self.parts: dict[str, Value] = {}  # of graph inputs, by name
        self.told: dict[str, Symbol] = {}  # by an argument, by the name of it
        # lengths that differ between the requests of a batch, and the size that these requests are
        # along another axis; None where it is one request
        self.lengths: dict[Symbol, tuple[Value, Symbol | None]] = {}
        # by name numbers that a run computes, which may come to decide a shape; and the sizes that
        # some of them are
        self.leaves: dict[str, Leaf] = {}
        self.number_sizes: dict[Symbol, Extent] = {}
        self.limits: dict[str, int] = {}  # of counts: by results, the bounds that a caller gives
        self.limited: set[str] = set()  # results of all nodes that count

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

    def count(
        self,
        name: str,
        value: Value,
        high: int,
        low: int = 0,
        quotient: tuple[Extent, int] | None = None,
    ) -> Extent:
        """The size that the model computes, ``value``: an int64 scalar from ``low`` to ``high``.
        What is computed alike is one size, so that tensors of the same elements fit each other.

        name: of what is counted; a number makes it one of its own. quotient: see `Symbol`.
        """
        for symbol, known in self.counts.items():
            alike = value.name and value.name == known.name
            if alike and (symbol.low, symbol.high) == (low, high):
                return Extent.of(symbol)
        taken = {symbol.name for symbol in self.counts}
        own = next(n for n in itertools.chain([name], _numbered(name)) if n not in taken)
        symbol = Symbol(own, low, high, quotient)
        self.counts[symbol] = value
        return Extent.of(symbol)

    def quotient(self, name: str, size: Size, divisor: int) -> Size:
        """``size // divisor``, of a size that is never negative, by a number above 0. Where that is
        no polynomial for all counts, a run computes it: in one form for all that are equal by

            (x // a + c) // b = (x + a * c) // (a * b)
            (a * x + y) // a = x + y // a

        name: of what is counted so.
        """
        if not isinstance(size, Extent):
            return size // divisor
        terms = dict(size.terms)
        fixed = terms.pop((), 0)
        if [*terms.values()] == [1] and (inner := _as_quotient(*terms)) is not None:
            return self.quotient(name, inner[0] + inner[1] * fixed, inner[1] * divisor)
        whole, rest = divided(size, divisor)
        low, high = lowest(rest) // divisor, highest(rest) // divisor
        if low == high or not isinstance(rest, Extent):
            return whole + low
        made = self.elementwise(lambda s, a: a / divisor, self.number(rest))
        return self.count(name, made, high, low, (rest, divisor)) + whole

    def sized(self, whole: Value, extents: Iterable[Extent | None]) -> Value:
        """The tensor of which only the box of these extents is there."""
        own: Extents = tuple(extents)
        assert whole.whole is None and len(own) == whole.rank, (whole, own)
        if not any(own):
            return whole
        out = Value("", whole.shape, whole.dtype, inputs=whole.inputs)
        out.whole, out.extents, out.known = whole, own, whole.known
        if (refold := whole.refold) is not None:
            out.refold = lambda scale, shift: self.sized(refold(scale, shift), own)
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

    def told_sizes(
        self, sizes: Sequence[Size]
    ) -> tuple[Reads, Callable[[Sequence[Scalar]], list[Operand]]]:
        """For a body that asks for sizes: what it has to read of those that a run tells, and
        ``told(scalars)``, which makes all of them of the scalars of these reads: numbers, and
        scalars of int64.
        """
        open_ = [size for size in sizes if isinstance(size, Extent)]

        def told(scalars: Sequence[Scalar]) -> list[Operand]:
            rest = iter(scalars)
            return [next(rest) if isinstance(size, Extent) else size for size in sizes]

        return [(self.number(size), "") for size in open_], told

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

    def end(self, value: Value, axis: int) -> tuple[Value, str]:
        """Where what is there along an axis ends: a tensor, and the map that reads it."""
        length = self.length_along(value, axis)
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

    def length_along(self, value: Value, axis: int) -> Symbol | None:
        """What an axis is as long as, if that differs between the requests of a batch."""
        extent = value.extents[axis]
        if extent is None or extent != Extent.of(extent.symbols[0]):
            return None
        return extent.symbols[0] if extent.symbols[0] in self.lengths else None


def _as_quotient(product: Monomial) -> tuple[Extent, int] | None:
    return product[0].quotient if len(product) == 1 else None


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
