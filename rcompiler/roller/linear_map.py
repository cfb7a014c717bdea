"""A small constant matrix times a vector, as few multiply-adds.

    y = M x        with M known while the code is written

Zeros cost nothing and ones no product. Rows (columns) that differ in signs only share their work:
r = u + v and s = u - v where u holds the terms of equal sign and v the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

Row = dict[int, Fraction]  # coefficients by the number of the term


@dataclass(frozen=True)
class LinearSteps:
    """Steps to compute y from x.

    Value k < `inputs` is x[k]; each of `sums` makes the next one: (value, coefficient) terms, added
    from the left. `outputs`: which value each y is.
    """

    inputs: int
    sums: tuple[tuple[tuple[int, float], ...], ...]
    outputs: tuple[int, ...]

    @property
    def operations(self) -> int:
        """Multiplications, additions and multiply-adds; one each."""
        return sum(
            len(terms) - (len(terms) > 0 and terms[0][1] == 1.0) + (len(terms) == 0)
            for terms in self.sums
        )


def plan(matrix: Sequence[Sequence[float]], whole: bool = False) -> LinearSteps:
    """The steps for a matrix of finite numbers. Their order follows from the matrix alone.

    whole: of integers, with coefficients that are integers.
    """
    return _Planner(matrix, whole).run()


class _Planner:
    def __init__(self, matrix: Sequence[Sequence[float]], whole: bool) -> None:
        self._whole = whole
        self._inputs = len(matrix[0]) if matrix else 0
        self._rows: list[Row] = [{k: Fraction(c) for k, c in enumerate(row) if c} for row in matrix]
        self._sums: list[tuple[tuple[int, float], ...]] = []

    def run(self) -> LinearSteps:
        self._pair_columns()
        outputs: dict[int, int] = {}
        for r, row in enumerate(self._rows):
            if r in outputs:
                continue
            other = self._like(r, outputs)
            if other is None:
                outputs[r] = self._sum(row)
            else:
                outputs[r], outputs[other] = self._butterfly(row, self._rows[other])
        return LinearSteps(
            self._inputs, tuple(self._sums), tuple(outputs[r] for r in range(len(self._rows)))
        )

    # -- columns: x[j] + x[k] and x[j] - x[k] instead of x[j] and x[k]
    def _pair_columns(self) -> None:
        done: set[int] = set()
        for j in range(self._inputs):
            for k in range(j + 1, self._inputs):
                if not {j, k} & done and self._worth_pairing(j, k):
                    done |= {j, k}
                    self._pair(j, k)

    def _worth_pairing(self, j: int, k: int) -> bool:
        """Both columns in at least three rows, equal in some and opposite in others."""
        pairs = [(row.get(j, Fraction(0)), row.get(k, Fraction(0))) for row in self._rows]
        pairs = [(a, b) for a, b in pairs if a or b]
        same = sum(a == b for a, b in pairs)
        return len(pairs) >= 3 and 0 < same < len(pairs) and all(abs(a) == abs(b) for a, b in pairs)

    def _pair(self, j: int, k: int) -> None:
        plus = self._add([(j, 1.0), (k, 1.0)])
        minus = self._add([(j, 1.0), (k, -1.0)])
        for row in self._rows:
            if j in row:
                row[plus if row[j] == row[k] else minus] = row[j]
                del row[j], row[k]

    # -- rows
    def _like(self, r: int, done: dict[int, int]) -> int | None:
        """A row with the same magnitudes and several terms of equal and of opposite sign."""
        mine = self._rows[r]
        for s in range(r + 1, len(self._rows)):
            other = self._rows[s]
            if s in done or set(other) != set(mine) or len(mine) < 3:
                continue
            same = sum(mine[k] == other[k] for k in mine)
            if 0 < same < len(mine) and all(abs(mine[k]) == abs(other[k]) for k in mine):
                return s
        return None

    def _butterfly(self, mine: Row, other: Row) -> tuple[int, int]:
        even = self._sum({k: c for k, c in mine.items() if other[k] == c})
        rest = {k: c for k, c in mine.items() if other[k] != c}
        unit = _unit(list(rest.values()), self._whole)
        odd = self._sum({k: c / unit for k, c in rest.items()})
        scale = float(unit)
        return self._add([(even, 1.0), (odd, scale)]), self._add([(even, 1.0), (odd, -scale)])

    # -- sums
    def _sum(self, row: Row) -> int:
        """A term without a product first, where there is one."""
        terms = [(k, float(c)) for k, c in sorted(row.items())]
        first = next((t for t in terms if t[1] == 1.0), None)
        if first is not None:
            terms.remove(first)
            terms.insert(0, first)
        return terms[0][0] if len(terms) == 1 and first is not None else self._add(terms)

    def _add(self, terms: list[tuple[int, float]]) -> int:
        self._sums.append(tuple(terms))
        return self._inputs + len(self._sums) - 1


def _unit(coefficients: Sequence[Fraction], whole: bool) -> Fraction:
    """A coefficient that divides all of them exactly in f32, or in integers; 1 if none does."""
    for unit in coefficients:
        ratios = [c / unit for c in coefficients]
        if whole and any(r.denominator > 1 for r in ratios):
            continue
        if all(Fraction(float(np.float32(float(r)))) == r for r in ratios):
            return unit
    return Fraction(1)
