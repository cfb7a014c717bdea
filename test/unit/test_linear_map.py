"""Plans of small linear maps: the same map, in fewer steps."""

import random
from fractions import Fraction

import pytest

from rcompiler.roller.linear_map import plan
from rcompiler.roller.winograd import SIZES, filtering


def apply(steps, x):
    values = list(map(Fraction, x))
    for terms in steps.sums:
        values.append(sum((values[k] * Fraction(c) for k, c in terms), Fraction(0)))
    return [values[k] for k in steps.outputs]


def matrix_of(steps):
    units = [[int(k == n) for k in range(steps.inputs)] for n in range(steps.inputs)]
    columns = [apply(steps, unit) for unit in units]
    return [list(row) for row in zip(*columns, strict=True)]


def test_random_maps_are_kept():
    draw = random.Random(0)
    for _ in range(300):
        rows, columns = draw.randint(1, 6), draw.randint(1, 6)
        numbers = [0, 0, 1, -1, 2, -0.5, 0.375]
        matrix = [[draw.choice(numbers) for _ in range(columns)] for _ in range(rows)]
        assert matrix_of(plan(matrix)) == matrix


@pytest.mark.parametrize(("size", "operations"), [(2, (4, 4)), (4, (12, 12))], ids=lambda v: str(v))
def test_transforms_share_their_work(size, operations):
    """F(4, 3): 12 instead of the 22 and 18 multiply-adds of the elements that are not 0."""
    assert set(SIZES) == {2, 4}
    f = filtering(size)
    for matrix, expected in zip((f.inputs, f.outputs), operations, strict=True):
        steps = plan([[float(x) for x in row] for row in matrix])
        assert steps.operations == expected
        assert matrix_of(steps) == [list(row) for row in matrix]


def test_rows_that_differ_in_signs_are_a_butterfly():
    steps = plan([[1, 2, 4, 8], [1, -2, 4, -8]])
    even, odd, *_ = steps.sums
    assert even == ((0, 1.0), (2, 4.0))
    assert odd == ((1, 1.0), (3, 4.0))  # of unit 2, so that the product is in the last step
    assert steps.sums[2:] == (((4, 1.0), (5, 2.0)), ((4, 1.0), (5, -2.0)))
    assert steps.operations == 4


def test_a_unit_that_does_not_divide_exactly_is_left_in():
    steps = plan([[1, 3, 10], [1, -3, -10]])
    assert ((1, 3.0), (2, 10.0)) in steps.sums
    assert matrix_of(steps) == [[1, 3, 10], [1, -3, -10]]


def test_copies_and_zeros_cost_nothing_or_little():
    steps = plan([[0, 1], [0, 0], [1, 0]])
    assert steps.outputs[0] == 1
    assert steps.outputs[2] == 0
    assert steps.sums == ((),)
    assert plan([[0, 1], [1, 0]]).operations == 0


def test_integers_keep_integer_coefficients():
    """2x + 4y and 2x - 4y: no half of one is a coefficient of the other."""
    matrix = [[1, 2, 4, 3], [1, -2, -4, 3], [0, 1, 0, 2]]
    steps = plan(matrix, whole=True)
    assert all(c == int(c) for terms in steps.sums for _, c in terms)
    values: list[float] = [3, 5, 7, 11]
    for terms in steps.sums:
        values.append(sum(values[k] * c for k, c in terms))
    expected = [sum(c * x for c, x in zip(row, values, strict=False)) for row in matrix]
    assert [values[k] for k in steps.outputs] == expected
