"""runtime/family.py: which program takes inputs of some sizes."""

import pytest

from rcompiler.runtime.family import smallest

# Rows of all requests, and the longest of them.
PACKED = [((1, 128), (1, 8)), ((1, 64), (1, 512)), ((1, 64), (1, 128))]


@pytest.mark.parametrize(
    "programs, sizes, packed, found",
    [
        ([((1, 8),), ((1, 4),), ((3, 3),)], (3,), False, 2),
        ([((1, 8),), ((1, 4),), ((3, 3),)], (2,), False, 1),
        ([((1, 8),), ((1, 4),), ((3, 3),)], (9,), False, None),
        ([((1, 8),), ((1, 4),)], (-1,), False, 1),
        ([((1, 4), (1, 9)), ((1, 9), (1, 4))], (3, 3), False, 0),  # of equal ones the first
        ([((1, 2), (1, 99)), ((1, 9), (1, 9))], (2, 5), False, 1),  # by elements
        (PACKED, (50, 4), True, 2),  # by rows
        (PACKED, (50, 300), True, 1),
        (PACKED, (100, 4), True, 0),
        (PACKED[:2], (50, 4), True, 1),
    ],
)
def test_the_smallest_program_by_hand(programs, sizes, packed, found):
    assert smallest(programs, sizes, packed) == found
