"""Integer expressions that are linear in named symbols, as the loop nest needs them for addresses.

A symbol is the SSA name of an i64 (a loop variable, a tile origin, an index read from memory) or
`LANE`, the position inside a vector. Floor division and remainder are resolved symbolically where
the known ranges allow it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

LANE = "<lane>"


class Linear:
    """constant + sum(coefficient * symbol); terms are sorted by symbol and have no zero
    coefficient.

    Immutable. A plain class with a stored hash: generation of one register tile makes and compares
    10^5 of them.
    """

    __slots__ = ("_hash", "constant", "terms")

    def __init__(self, constant: int = 0, terms: tuple[tuple[str, int], ...] = ()) -> None:
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
        return Linear(constant, tuple(sorted(term for term in total.items() if term[1])))

    def __add__(self, other: Linear | int) -> Linear:
        if isinstance(other, int):
            return Linear(self.constant + other, self.terms) if other else self
        if not other.terms:
            return Linear(self.constant + other.constant, self.terms)
        if not self.terms:
            return Linear(self.constant + other.constant, other.terms)
        total = dict(self.terms)
        for symbol, coefficient in other.terms:
            total[symbol] = total.get(symbol, 0) + coefficient
        terms = tuple(sorted((s, c) for s, c in total.items() if c))
        return Linear(self.constant + other.constant, terms)

    def __mul__(self, factor: int) -> Linear:
        if factor == 1:
            return self
        if factor == 0 or not self.terms:
            return Linear(self.constant * factor)
        return Linear(self.constant * factor, tuple((s, c * factor) for s, c in self.terms))

    def coefficient(self, symbol: str) -> int:
        for name, coefficient in self.terms:
            if name == symbol:
                return coefficient
        return 0

    def without(self, symbol: str) -> Linear:
        return Linear(self.constant, tuple(t for t in self.terms if t[0] != symbol))

    def at_lane(self, lane: int) -> Linear:
        """The value in one lane of the vector."""
        return self.without(LANE) + self.coefficient(LANE) * lane

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


Coordinates = list[Linear]  # one for each dim of a tensor, or of a nest of loops
Split = Callable[[Linear, int], tuple[Linear, Linear]]  # quotient and remainder by a number
