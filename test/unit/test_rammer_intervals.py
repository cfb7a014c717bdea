"""Lists of byte intervals against sets of bytes."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rcompiler.rammer.regions import merge_ranges
from rcompiler.rammer.reuse import meet, without


@st.composite
def intervals(draw):
    pairs = draw(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 5)), max_size=6))
    ranges = np.array([(start, start + size) for start, size in pairs], np.int64).reshape(-1, 2)
    return [(low, high) for low, high in merge_ranges(ranges).tolist()]


def bytes_of(found):
    return {byte for low, high in found for byte in range(low, high)}


@given(intervals(), intervals())
def test_what_two_lists_share(a, b):
    assert meet(a, b) == bool(bytes_of(a) & bytes_of(b))


@given(intervals(), intervals())
def test_what_is_left_of_a_list(a, b):
    rest = without(a, b)
    assert bytes_of(rest) == bytes_of(a) - bytes_of(b)
    assert all(one[1] <= two[0] for one, two in zip(rest, rest[1:], strict=False))
    assert all(low < high for low, high in rest)


def test_neighbours_do_not_meet():
    assert not meet([(0, 4), (8, 12)], [(4, 8), (12, 16)])
    assert without([(0, 16)], [(4, 8), (12, 16)]) == [(0, 4), (8, 12)]
