"""What numpy does slowly gives what numpy gives."""

import numpy as np
import pytest

from rcompiler.roller.numerics import distinct, maximum, minimum, some, where


@pytest.mark.parametrize("values", [[], [3], [2, 2], [[5, 1], [1, 7]], [0.5, -1.0, 0.5]])
def test_distinct_values(values):
    found, expected = distinct(np.array(values)), np.unique(np.array(values))
    assert found.dtype == expected.dtype and found.tolist() == expected.tolist()


def test_plain_numbers_stay_plain():
    assert type(minimum(2, 3.0)) is int and type(maximum(2, 3.0)) is float
    assert where(True, 1, 2) == 1 and where(False, 1, 2) == 2 and some(True) and not some(False)


def test_arrays_are_those_of_numpy():
    three = np.array([1, 2, 3])
    assert minimum(three, 2).tolist() == [1, 2, 2] and maximum(2, three).tolist() == [2, 2, 3]
    assert where(three > 1, three, 0).tolist() == [0, 2, 3]
    assert some(three > 2) and not some(three > 3)
