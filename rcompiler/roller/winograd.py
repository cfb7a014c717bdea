"""Winograd's minimal filtering F(m, r): m outputs of an r-tap filter by m + r - 1 products.

    y = A^T ((G g) * (B^T d))         d: m + r - 1 neighbouring inputs, g: the taps, y: m outputs

in one dimension, and nested for images (Lavin, Gray, CVPR'16, §4). The matrices follow from the
points that the polynomials of inputs and taps are evaluated at (Toom-Cook, transposed). All is
exact here: matrices of Fractions.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

Matrix = tuple[tuple[Fraction, ...], ...]

# Beside 0 and infinity, with both signs. The textbook's 1, 2 for m = 4 give matrices of integers,
# but four times the error: the products of B^T d and G g are larger than what they cancel to. These
# are the points of few binary digits (so that all of B^T and A^T is exact in f32) with the least
# measured error near the minimum of `growth`, which 1/2, 2 and 5/8, 13/8 share within a fifth.
_POINTS = {2: (Fraction(1),), 4: (Fraction(5, 8), Fraction(3, 2))}

SIZES = tuple(sorted(_POINTS))
"""The m for which points are known."""


@dataclass(frozen=True)
class Filtering:
    """F(m, r): `inputs` is B^T, `taps` is G and `outputs` is A^T; `scale`: what results are
    multiplied by.
    """

    inputs: Matrix
    taps: Matrix
    outputs: Matrix
    scale: int = 1

    @property
    def size(self) -> int:
        """m: outputs of one tile."""
        return len(self.outputs)

    @property
    def products(self) -> int:
        """m + r - 1: products, and inputs, of one tile."""
        return len(self.inputs)

    @property
    def growth(self) -> Fraction:
        """How much larger the error bound is than that of the direct sum, in one dimension.

        Every rounding happens on terms of size at most |A^T| (|G| |g|) (|B^T| |d|), where the sum
        itself has terms of |g| |d|. With |g|, |d| <= 1 that is, row by row, the sum over i of
        |A^T[p, i]| * ||G[i]||_1 * ||B^T[i]||_1, against r. In two dimensions: the square.
        """
        sizes = [_norm(g) * _norm(b) for g, b in zip(self.taps, self.inputs, strict=True)]
        terms = (_norm([a * n for a, n in zip(row, sizes, strict=True)]) for row in self.outputs)
        return max(terms) / len(self.taps[0])


@cache
def filtering(size: int, taps: int = 3) -> Filtering:
    """F(size, taps) at the points of least error. Raises KeyError for a size not in SIZES."""
    points = [Fraction(0), *(s * p for p in _POINTS[size] for s in (1, -1))]
    return toom_cook(size, taps, points[: size + taps - 2])


@cache
def whole_filtering(size: int, taps: int = 3) -> Filtering:
    """F(size, taps) of whole numbers: at 0, 1, -1, 2, -2; results are `scale` times as large.

    What the Lagrange polynomials divide by, which stands in G elsewhere, goes into A^T and `scale`.
    Raises KeyError for a size not in SIZES.
    """
    points = [
        Fraction(0),
        *(Fraction(s * p) for p in range(1, 1 + len(_POINTS[size])) for s in (1, -1)),
    ]
    exact = toom_cook(size, taps, points[: size + taps - 2])
    weights = [1 / row[0] if row[0] else Fraction(1) for row in exact.taps]
    scale = math.lcm(*(abs(int(w)) for w in weights))
    filters = tuple(tuple(w * g for g in row) for w, row in zip(weights, exact.taps, strict=True))
    outputs = tuple(
        tuple(scale * a / w for w, a in zip(weights, row, strict=True)) for row in exact.outputs
    )
    return Filtering(exact.inputs, filters, outputs, scale)


def toom_cook(size: int, taps: int, points: Sequence[Fraction]) -> Filtering:
    """F(size, taps) from size + taps - 2 different finite points; infinity is the last one.

    Row i of B^T holds the coefficients of prod(x - p_j, j != i). What the Lagrange polynomials
    divide by goes into G, which is computed once and for all. Raises ValueError for wrong points.
    """
    if len(points) != size + taps - 2 or len(set(points)) != len(points):
        raise ValueError(f"F({size}, {taps}) needs {size + taps - 2} different finite points")
    inputs, filters = [], []
    for i, point in enumerate(points):
        others = [p for j, p in enumerate(points) if j != i]
        weight = Fraction(1)
        for other in others:
            weight *= point - other
        inputs.append((*_polynomial(others), Fraction(0)))
        filters.append(tuple(point**k / weight for k in range(taps)))
    inputs.append(_polynomial(points))
    filters.append((*[Fraction(0)] * (taps - 1), Fraction(1)))
    outputs = tuple((*(p**k for p in points), Fraction(k == size - 1)) for k in range(size))
    return Filtering(tuple(inputs), tuple(filters), outputs)


def _norm(row: Sequence[Fraction]) -> Fraction:
    """Sum of magnitudes."""
    return sum(map(abs, row), Fraction(0))


def _polynomial(roots: Sequence[Fraction]) -> tuple[Fraction, ...]:
    """Coefficients of prod(x - root), the constant one first."""
    found = [Fraction(1)]
    for root in roots:
        shifted = [Fraction(0), *found]
        found = [a - root * b for a, b in zip(shifted, [*found, Fraction(0)], strict=True)]
    return tuple(found)
