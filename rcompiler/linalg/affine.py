"""Integer expressions that are linear in named symbols, as the loop nest needs them for addresses.

A symbol is the SSA name of an i64 (a loop variable, a tile origin, an index read from memory) or
`LANE`, the position inside a vector. Floor division and remainder are resolved symbolically where
the known ranges allow it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

LANE = "~lane"  # sorted behind all other symbols, see `Linear.stride`

Terms = tuple[tuple[str, int], ...]  # coefficients of symbols


class Linear:
    """constant + sum(coefficient * symbol); terms are sorted by symbol and have no zero
    coefficient.

    Immutable. A plain class with a stored hash: generation of one register tile makes and compares
    10^5 of them.
    """

    __slots__ = ("_hash", "constant", "terms")

    def __init__(self, constant: int = 0, terms: Terms = ()) -> None:
        self.constant = constant
        self.terms = terms
        self._hash = hash((constant, terms))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Linear)
            and self._hash == other._hash
            and self.constant == other.constant
            and self.terms == other.terms
        )

    def __repr__(self) -> str:
        return " + ".join([str(self.constant), *(f"{c}*{s}" for s, c in self.terms)])

    @staticmethod
    def of(symbol: str, coefficient: int = 1) -> Linear:
        return Linear(0, ((symbol, coefficient),)) if coefficient else Linear()

    @staticmethod
    def weighted(values: Iterable[Linear], weights: Iterable[int]) -> Linear:
        """The sum of the values, each times its weight."""
        constant, total = 0, dict[str, int]()
        for value, weight in zip(values, weights, strict=True):
            constant += value.constant * weight
            for symbol, coefficient in value.terms:
                total[symbol] = total.get(symbol, 0) + coefficient * weight
        return Linear(constant, _sorted(total))

    def __add__(self, other: Linear | int) -> Linear:
        if isinstance(other, int):
            return Linear(self.constant + other, self.terms) if other else self
        if not other.terms:
            constant = other.constant
            return Linear(self.constant + constant, self.terms) if constant else self
        if not self.terms:
            return other + self.constant
        total = dict(self.terms)
        for symbol, coefficient in other.terms:
            total[symbol] = total.get(symbol, 0) + coefficient
        return Linear(self.constant + other.constant, _sorted(total))

    def __mul__(self, factor: int) -> Linear:
        if factor == 1:
            return self
        if factor == 0 or not self.terms:
            return Linear(self.constant * factor)
        return Linear(self.constant * factor, tuple([(s, c * factor) for s, c in self.terms]))

    def coefficient(self, symbol: str) -> int:
        for name, coefficient in self.terms:
            if name == symbol:
                return coefficient
        return 0

    @property
    def stride(self) -> int:
        """From lane to lane."""
        terms = self.terms
        return terms[-1][1] if terms and terms[-1][0] == LANE else 0

    @property
    def first(self) -> Linear:
        """The value in the first lane."""
        return Linear(self.constant, self.terms[:-1]) if self.stride else self

    def at_lane(self, lane: int) -> Linear:
        """The value in one lane of the vector."""
        stride = self.stride
        return self.first + stride * lane if stride else self

    def renamed(self, names: Mapping[str, str]) -> Linear:
        """With other symbols in place of some."""
        terms = sorted((names.get(symbol, symbol), factor) for symbol, factor in self.terms)
        return Linear(self.constant, tuple(terms))

    def lowest(self, ranges: Mapping[str, int]) -> int:
        """A lower bound; a symbol without a known range counts as 0 (none is subtracted)."""
        falls = (c * (ranges[s] - 1) for s, c in self.terms if c < 0 and s in ranges)
        return self.constant + sum(falls)

    def highest(self, ranges: Mapping[str, int]) -> int | None:
        """An upper bound; None if a symbol has no known range."""
        if any(s not in ranges for s, _ in self.terms):
            return None
        return self.constant + sum(c * (ranges[s] - 1) for s, c in self.terms if c > 0)

    @property
    def is_constant(self) -> bool:
        return not self.terms

    def split(self, divisor: int, ranges: Mapping[str, int]) -> tuple[Linear, Linear] | None:
        """(self floordiv divisor, self mod divisor) if that is linear; None otherwise.

        `ranges` maps a symbol to its exclusive upper bound (its lower bound is 0); an unknown
        symbol has no bound.
        """
        whole = tuple((s, c // divisor) for s, c in self.terms if c % divisor == 0)
        rest = tuple((s, c) for s, c in self.terms if c % divisor)
        quotient, remainder = divmod(self.constant, divisor)
        low = high = remainder
        for symbol, coefficient in rest:
            if symbol not in ranges:
                return None
            extreme = coefficient * (ranges[symbol] - 1)
            low, high = low + min(extreme, 0), high + max(extreme, 0)
        if low < 0 or high >= divisor:
            return None
        return Linear(quotient, whole), Linear(remainder, rest)


def _sorted(total: dict[str, int]) -> Terms:
    """The terms of a sum."""
    return tuple(sorted([term for term in total.items() if term[1]]))


def lanes_differ(coordinates: Iterable[Linear]) -> bool:
    """Whether each lane of a vector is at coordinates of its own."""
    for coordinate in coordinates:
        terms = coordinate.terms  # as `Linear.stride`, which is asked for very often
        if terms and terms[-1][0] == LANE:
            return True
    return False


Coordinates = list[Linear]  # one for each dim of a tensor, or of a nest of loops
Split = Callable[[Linear, int], tuple[Linear, Linear]]  # quotient and remainder by a number
