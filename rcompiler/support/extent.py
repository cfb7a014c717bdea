"""Sizes that are known at run time only, as polynomials of a few counts.

    seq = Extent.of(Symbol("seq", 1, 512))
    (seq * 12 + 3) // 3             # 4*seq + 1, as it is for every seq
    (seq - 1).highest               # 511

A size is an int, or an Extent where a run-time count is part of it. Two Extents are equal where
they are for all counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

SIZE_BESIDE = "{size}"  # in what is said of an index: a size that a call tells
MAX_TERMS = 64  # of what is read from a file
MAX_DEGREE = 16
MAX_COEFFICIENT = 1 << 62


class InexactDivision(ArithmeticError):
    """A quotient that is no polynomial with integer coefficients."""


@dataclass(frozen=True, order=True)
class Symbol:
    """A count that is known at run time.

    Attributes:
        name: of a dimension of the inputs, or of what the model counts.
        low, high: the least and the greatest number that it may be, 0 <= low <= high.
        quotient: an extent and a number that it is the quotient of, rounded down, if it is one.
    """

    name: str
    low: int
    high: int
    quotient: tuple[Extent, int] | None = field(default=None, compare=False, repr=False)


Monomial = tuple[Symbol, ...]  # sorted; a symbol stands there as often as its power says
Size: TypeAlias = "int | Extent"


@dataclass(frozen=True)
class Extent:
    """A polynomial that is no constant.

    Attributes:
        terms: products of symbols, the empty one among them, with coefficients that are not 0;
            sorted, so that equal polynomials are equal.
    """

    terms: tuple[tuple[Monomial, int], ...]

    @staticmethod
    def of(symbol: Symbol) -> Extent:
        """The symbol itself."""
        return Extent((((symbol,), 1),))

    # -- arithmetic: what comes to a constant is an int -----------------------------------------
    def __add__(self, other: Size) -> Size:
        return _made([*self.terms, *_terms(other)])

    def __neg__(self) -> Extent:
        return Extent(tuple((each, -number) for each, number in self.terms))

    def __sub__(self, other: Size) -> Size:
        return self + -other

    def __rsub__(self, other: int) -> Size:
        return -self + other

    def __mul__(self, other: Size) -> Size:
        own, others = self.terms, _terms(other)
        return _made([(_product(a, b), n * m) for a, n in own for b, m in others])

    __radd__, __rmul__ = __add__, __mul__

    def __floordiv__(self, other: Size) -> Size:
        """The quotient rounded down, where it is one polynomial for all counts.

        Raises:
            InexactDivision: it is none.
            ZeroDivisionError: by 0.
        """
        if isinstance(other, Extent):
            return _quotient(self, other)
        if not other:
            raise ZeroDivisionError(f"({self}) / 0")
        if any(number % other for each, number in self.terms if each):
            raise InexactDivision(f"({self}) / {other}")
        return _made([(each, number // other) for each, number in self.terms])

    def __rfloordiv__(self, other: int) -> Size:
        return _quotient(other, self)

    # -- values ---------------------------------------------------------------------------------
    def at(self, counts: Mapping[str, int]) -> int:
        """The number that it is for these counts, by their names."""
        return sum(n * math.prod(counts[s.name] for s in each) for each, n in self.terms)

    def replaced(self, sizes: Mapping[Symbol, Size]) -> Size:
        """With sizes in the place of some of its symbols."""
        total: Size = 0
        for each, number in self.terms:
            factors = (sizes.get(symbol, Extent.of(symbol)) for symbol in each)
            total = product([number, *factors]) + total
        return total

    @property
    def symbols(self) -> list[Symbol]:
        """Those that it depends on, sorted."""
        return sorted({symbol for each, _ in self.terms for symbol in each})

    @cached_property
    def lowest(self) -> int:
        """No count makes it less; where it only grows with each count, this is its least number."""
        return self._extreme(-1)

    @cached_property
    def highest(self) -> int:
        """No count makes it more; where it only grows with each count, this is its greatest."""
        return self._extreme(1)

    def _extreme(self, sign: int) -> int:
        """The better one of what is found with quotients as counts of their own, and with each as
        ``(x - rest) / divisor``: of ``h - 2*(h // 2)`` that is the rest, 0 or 1.
        """
        found = self._monotonic(sign)
        if all(symbol.quotient is None for symbol in self.symbols):
            return found
        factor, left = _without_quotients(self)
        extreme = left._monotonic(sign) if isinstance(left, Extent) else left
        unit = math.gcd(*(number for _, number in self.terms))  # all that it is are multiples of it
        if sign > 0:
            return min(found, extreme // (factor * unit) * unit)
        return max(found, -(-extreme // (factor * unit)) * unit)

    def _monotonic(self, sign: int) -> int:
        """With each count written as what it exceeds its least number by, all products are
        monotonic: those of one sign alone are as large as they can be.
        """
        shifted: Size = 0
        for each, number in self.terms:
            product: Size = number
            for s in each:
                product = product * (Extent.of(Symbol(s.name, 0, s.high - s.low)) + s.low)
            shifted = product + shifted
        return sum(
            number * math.prod(symbol.high for symbol in each)
            for each, number in _terms(shifted)
            if not each or number * sign > 0
        )

    # -- what an axis tells ---------------------------------------------------------------------
    @property
    def multiple(self) -> tuple[int, int] | None:
        """A factor above 0 and a number, where it is ``factor * symbol + number`` of one symbol:
        then a size tells which count it is of. None for all else.
        """
        terms = dict(self.terms)
        number = terms.pop((), 0)
        [[each, factor], *others] = terms.items()
        return None if others or len(each) > 1 or factor < 1 else (factor, number)

    # -- text and data --------------------------------------------------------------------------
    def __str__(self) -> str:
        parts = []
        for each, number in sorted(self.terms, key=lambda term: (-len(term[0]), term[0])):
            names = [symbol.name for symbol in each]
            factors = names if abs(number) == 1 and names else [str(abs(number)), *names]
            parts.append(("- " if number < 0 else "+ ") + "*".join(factors))
        text = " ".join(parts)
        return text[2:] if text.startswith("+ ") else "-" + text[2:]

    def to_data(self) -> list[list[Any]]:
        """``[[3, "seq"], [1]]``: coefficients, each with the names that it is multiplied by."""
        return [[number, *(symbol.name for symbol in each)] for each, number in self.terms]

    @staticmethod
    def from_data(data: Any, symbols: Iterable[Symbol]) -> Extent:
        """What `to_data` has made, or a stranger.

        Raises:
            TypeError: it is nothing that `to_data` makes of these symbols.
        """
        by_name = {symbol.name: symbol for symbol in symbols}
        if not isinstance(data, list | tuple) or not 1 <= len(data) <= MAX_TERMS:
            raise TypeError("no terms of an extent")
        terms: list[tuple[Monomial, int]] = []
        for term in data:
            if not isinstance(term, list | tuple) or not 1 <= len(term) <= MAX_DEGREE:
                raise TypeError("no term of an extent")
            number, *names = term
            if type(number) is not int or not 0 < abs(number) <= MAX_COEFFICIENT:
                raise TypeError("no coefficient of an extent")
            if not all(isinstance(name, str) and name in by_name for name in names):
                raise TypeError("an extent of unknown counts")
            terms.append((tuple(sorted(by_name[name] for name in names)), number))
        made = _made(terms)
        if not isinstance(made, Extent):
            raise TypeError("an extent that is a constant")
        return made


def count_of(size: int, multiple: tuple[int, int]) -> int | None:
    """The count that ``factor * count + number`` is a size of; None where it is of none."""
    factor, number = multiple
    count, rest = divmod(size - number, factor)
    return None if rest else count


def lowest(size: Size) -> int:
    """A number that the size is never below."""
    return size.lowest if isinstance(size, Extent) else size


def highest(size: Size) -> int:
    """A number that the size is never above."""
    return size.highest if isinstance(size, Extent) else size


def at_most(a: Size, b: Size) -> bool:
    """Whether a <= b is known for all counts."""
    return lowest(b - a) >= 0


def product(sizes: Iterable[Size]) -> Size:
    found: Size = 1
    for size in sizes:
        found = size * found
    return found


def divided(size: Extent, divisor: int) -> tuple[Size, Size]:
    """Two sizes of which ``whole * divisor + rest`` is this one, and ``rest`` is below the divisor
    where it is a number. Where ``rest`` is none, both grow with each count, as this one does, or
    ``whole`` is 0.
    """
    factors = [number for each, number in size.terms if each]
    if min(factors) < 0 and any(number % divisor for number in factors):
        return 0, size
    whole = _made((each, number // divisor) for each, number in size.terms)
    return whole, size - whole * divisor


def _without_quotients(size: Extent) -> tuple[int, Size]:
    """A factor above 0, and the size times it, written without the counts that are quotients."""
    factor = 1
    left: Size = size
    while isinstance(left, Extent) and len(left.terms) <= MAX_TERMS:
        quotients = [symbol for symbol in left.symbols if symbol.quotient is not None]
        if not quotients:
            break
        [symbol, *_] = quotients
        assert symbol.quotient is not None
        dividend, divisor = symbol.quotient
        power = max(each.count(symbol) for each, _ in left.terms)
        times = dividend - Extent.of(Symbol(f"rest of {symbol.name}", 0, divisor - 1))
        total: Size = 0
        for each, number in left.terms:
            own = each.count(symbol)
            others = (Extent.of(other) for other in each if other != symbol)
            scaled = number * divisor ** (power - own)
            total = product([scaled, *[times] * own, *others]) + total
        factor, left = factor * divisor**power, total
    return factor, left


def _terms(size: Size) -> Iterable[tuple[Monomial, int]]:
    if isinstance(size, Extent):
        return size.terms
    return [((), int(size))] if size else []


def _made(terms: Iterable[tuple[Monomial, int]]) -> Size:
    found: dict[Monomial, int] = {}
    for each, number in terms:
        found[each] = found.get(each, 0) + number
    kept = {each: number for each, number in found.items() if number}
    if not kept or list(kept) == [()]:
        return kept.get((), 0)
    return Extent(tuple(sorted(kept.items())))


def _product(a: Monomial, b: Monomial) -> Monomial:
    return tuple(sorted((*a, *b)))


def _quotient(a: Size, b: Extent) -> Size:
    """Long division of polynomials. Raises InexactDivision unless nothing is left."""
    leading, by = _leading(b)
    left, found = a, 0
    quotient: Size = found
    while left:
        each, number = _leading(left)
        rest = list(each)
        for symbol in leading:
            if symbol not in rest:
                raise InexactDivision(f"({a}) / ({b})")
            rest.remove(symbol)
        if number % by:
            raise InexactDivision(f"({a}) / ({b})")
        part = _made([(tuple(rest), number // by)])
        quotient, left = part + quotient, left - part * b
    return quotient


def _leading(size: Size) -> tuple[Monomial, int]:
    """The greatest term in the lexicographic order of powers, which products keep."""
    terms = list(_terms(size))
    symbols = sorted({symbol for each, _ in terms for symbol in each})
    return max(terms, key=lambda term: [term[0].count(symbol) for symbol in symbols])
