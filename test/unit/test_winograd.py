"""The matrices of Winograd's minimal filtering, exactly."""

import random
from fractions import Fraction

import numpy as np
import pytest

from rcompiler.roller.winograd import SIZES, filtering, toom_cook, whole_filtering


def times(matrix, vector):
    return [sum(a * x for a, x in zip(row, vector, strict=True)) for row in matrix]


def rows(text):
    return tuple(tuple(map(Fraction, line.split())) for line in text.split(";"))


def test_f_2_3_is_that_of_the_paper():
    """Lavin, Gray, CVPR'16, §4.1, with the signs of two products the other way round."""
    f = filtering(2)
    assert f.inputs == rows("-1 0 1 0; 0 1 1 0; 0 -1 1 0; 0 -1 0 1")
    assert f.taps == rows("-1 0 0; 1/2 1/2 1/2; 1/2 -1/2 1/2; 0 0 1")
    assert f.outputs == rows("1 1 1 0; 0 1 -1 1")


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("taps", [1, 2, 3])
def test_the_filtering_is_the_sum_of_products(size, taps):
    draw = random.Random(size)
    f = filtering(size, taps)
    assert (f.size, f.products) == (size, size + taps - 1)
    d = [Fraction(draw.randint(-99, 99)) for _ in range(f.products)]
    g = [Fraction(draw.randint(-99, 99)) for _ in range(taps)]
    products = [a * b for a, b in zip(times(f.inputs, d), times(f.taps, g), strict=True)]
    expected = [sum(d[k + p] * g[p] for p in range(taps)) for k in range(size)]
    assert times(f.outputs, products) == expected


@pytest.mark.parametrize(("size", "scale"), [(2, 2), (4, 24)])
def test_whole_numbers_give_a_multiple_of_the_sum(size, scale):
    draw = random.Random(size)
    f = whole_filtering(size)
    assert f.scale == scale
    assert all(x.denominator == 1 for m in (f.inputs, f.taps, f.outputs) for row in m for x in row)
    d, g = ([draw.randint(-99, 99) for _ in range(n)] for n in (f.products, 3))
    products = [a * b for a, b in zip(times(f.inputs, d), times(f.taps, g), strict=True)]
    expected = [scale * sum(d[k + p] * g[p] for p in range(3)) for k in range(size)]
    assert times(f.outputs, products) == expected


def test_any_points_will_do():
    f = toom_cook(2, 3, [Fraction(0), Fraction(2), Fraction(-1, 3)])
    g, d = [1, 2, 3], [4, 5, 6, 7]
    products = [a * b for a, b in zip(times(f.inputs, d), times(f.taps, g), strict=True)]
    assert times(f.outputs, products) == [4 + 10 + 18, 5 + 12 + 21]


@pytest.mark.parametrize("points", [[0, 1], [0, 1, 1], [0, 1, 2, 3]])
def test_wrong_points_are_refused(points):
    with pytest.raises(ValueError, match="3 different finite points"):
        toom_cook(2, 3, [Fraction(p) for p in points])


@pytest.mark.parametrize("size", SIZES)
def test_what_runs_is_exact_in_f32(size):
    f = filtering(size)
    for x in (x for matrix in (f.inputs, f.outputs) for row in matrix for x in row):
        assert Fraction(float(np.float32(float(x)))) == x


def test_growth_of_the_error_bound():
    """F(2, 3) by hand: the sums of B^T and G are 2, 2, 2, 2 and 1, 3/2, 3/2, 1, over 3 taps."""
    assert filtering(2).growth == Fraction(2 * 1 + 2 * 2 * Fraction(3, 2), 3)
    textbook = toom_cook(4, 3, [Fraction(p) for p in (0, 1, -1, 2, -2)])
    assert textbook.growth == 16
    assert filtering(4).growth ** 2 < textbook.growth**2 / 4
