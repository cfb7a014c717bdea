"""Index expressions: one dimension of an access as an affine function of the axes.

    index  ::= constant + sum of coefficient * atom
    atom   ::= axis position | index floordiv d | index mod d          (d >= 1)

Sizes and origins are sequences with one entry per axis. Interval functions also take numpy arrays
as entries, so that many tiles are evaluated in one call.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Union

import numpy as np

from rcompiler.errors import CompilerError

Number = Any  # int or an integer numpy array


class ExpressionError(CompilerError):
    """A tensor expression that is not well formed."""


@dataclass(frozen=True)
class FloorDiv:
    """`inner floordiv divisor`, rounding towards minus infinity."""

    inner: "Index"
    divisor: int


@dataclass(frozen=True)
class Mod:
    """`inner mod divisor`, in [0, divisor)."""

    inner: "Index"
    divisor: int


Atom = Union[int, FloorDiv, Mod]  # noqa: UP007 - the names are not classes yet when mypy sees |


@dataclass(frozen=True)
class Index:
    """`constant + sum(coefficient * atom)`; terms are (coefficient, atom)."""

    terms: tuple[tuple[int, Atom], ...] = ()
    constant: int = 0

    @cached_property
    def linear(self) -> bool:
        return all(isinstance(atom, int) for _, atom in self.terms)

    def axes(self) -> frozenset[int]:
        """Positions of the axes the expression names."""
        return self._axes

    @cached_property
    def _axes(self) -> frozenset[int]:
        return frozenset(_axes(self))

    def coefficient(self, axis: int) -> int:
        """Coefficient of `axis` outside of any floordiv or mod."""
        return sum(c for c, atom in self.terms if isinstance(atom, int) and atom == axis)

    def bounds(self, sizes: Sequence[Number]) -> tuple[Number, Number]:
        """Least and greatest value while axis i runs over [0, sizes[i]).

        Exact for linear expressions; a mod that wraps, or several atoms over the same axis, may
        give a wider interval, never a narrower one.
        """
        low: Number = self.constant
        high: Number = self.constant
        for coefficient, atom in self.terms:
            if isinstance(atom, int):
                first, last = 0, sizes[atom] - 1
            else:
                first, last = _atom_bounds(atom, sizes)
            if coefficient >= 0:
                low, high = low + coefficient * first, high + coefficient * last
            else:
                low, high = low + coefficient * last, high + coefficient * first
        return low, high

    def at(self, point: Sequence[Number]) -> Number:
        """Value at one point (one coordinate, or one array of coordinates, per axis)."""
        value: Number = self.constant
        for coefficient, atom in self.terms:
            if isinstance(atom, FloorDiv):
                value = value + coefficient * (atom.inner.at(point) // atom.divisor)
            elif isinstance(atom, Mod):
                value = value + coefficient * (atom.inner.at(point) % atom.divisor)
            else:
                value = value + coefficient * point[atom]
        return value

    def rename(self, new: dict[int, tuple[int, int]]) -> "Index":
        """The expression over other axes: axis a becomes scale * axis b for new[a] = (b, scale)."""
        terms: list[tuple[int, Atom]] = []
        for coefficient, atom in self.terms:
            if isinstance(atom, FloorDiv):
                terms.append((coefficient, FloorDiv(atom.inner.rename(new), atom.divisor)))
            elif isinstance(atom, Mod):
                terms.append((coefficient, Mod(atom.inner.rename(new), atom.divisor)))
            else:
                axis, scale = new[atom]
                terms.append((coefficient * scale, axis))
        return index(*terms, constant=self.constant)


def index(*terms: tuple[int, Atom], constant: int = 0) -> Index:
    """`constant + sum(coefficient * atom)`: index((2, 1), (1, 3)) is 2 * axis 1 + axis 3.

    Terms over one atom are added up, so that bounds of linear expressions are exact.
    """
    sums: dict[Atom, int] = {}
    for term in terms:
        if len(term) != 2 or not isinstance(term[0], int):
            raise ExpressionError(f"index term {term!r}; write (coefficient, atom)")
        if not isinstance(term[1], int | FloorDiv | Mod):
            raise ExpressionError(f"index atom {term[1]!r}; an axis position, floordiv() or mod()")
        sums[term[1]] = sums.get(term[1], 0) + term[0]
    return Index(tuple((c, atom) for atom, c in sums.items() if c), constant)


def axis_index(position: int) -> Index:
    """The position along one axis."""
    return index((1, position))


def floordiv(inner: Index, divisor: int) -> FloorDiv:
    """`inner floordiv divisor`; ExpressionError unless divisor >= 1."""
    return FloorDiv(inner, _divisor(divisor))


def mod(inner: Index, divisor: int) -> Mod:
    """`inner mod divisor`; ExpressionError unless divisor >= 1."""
    return Mod(inner, _divisor(divisor))


def count_sums(terms: Sequence[tuple[int, int]]) -> int:
    """How many different values sum(coefficient * x) takes, x in [0, size).

    Exact. Strides that nest or overlap without holes, which is every convolution and matrix
    product, are counted in closed form; anything else by the bits of one integer.
    """
    sizes: dict[int, int] = {}
    for coefficient, size in terms:
        if size < 1:
            return 0
        if coefficient and size > 1:
            # the sum of two axes with one coefficient is one longer axis
            step = abs(coefficient)
            sizes[step] = sizes.get(step, 1) + size - 1
    count = span = 1  # different values so far; greatest value + 1
    for step in sorted(sizes):
        if count == span and step <= span:
            count = span = span + step * (sizes[step] - 1)
        elif step >= span:
            count, span = count * sizes[step], span + step * (sizes[step] - 1)
        else:
            return _count_bits(sizes)
    return count


def _count_bits(sizes: dict[int, int]) -> int:
    bits = 1
    for step, size in sizes.items():
        have = 1  # multiples of step already included: doubling needs log(size) shifts
        while have < size:
            more = min(have, size - have)
            bits |= bits << (step * more)
            have += more
    return bits.bit_count()


def _axes(expression: Index) -> Iterator[int]:
    for _, atom in expression.terms:
        if isinstance(atom, int):
            yield atom
        else:
            yield from _axes(atom.inner)


def _atom_bounds(atom: FloorDiv | Mod, sizes: Sequence[Number]) -> tuple[Number, Number]:
    low, high = atom.inner.bounds(sizes)
    if isinstance(atom, FloorDiv):
        return low // atom.divisor, high // atom.divisor
    wraps = low // atom.divisor != high // atom.divisor
    if isinstance(wraps, bool | np.bool_):
        return (0, atom.divisor - 1) if wraps else (low % atom.divisor, high % atom.divisor)
    first = np.where(wraps, 0, low % atom.divisor)
    return first, np.where(wraps, atom.divisor - 1, high % atom.divisor)


def _divisor(divisor: int) -> int:
    if not isinstance(divisor, int) or divisor < 1:
        raise ExpressionError(f"floordiv or mod by {divisor!r}; the divisor is an integer >= 1")
    return divisor
