"""Covers of ranges by vectors and register tiles."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rcompiler.kernelgen.tiling import lane_cover
from rcompiler.roller.thread_tiles import step_cover


@given(st.integers(0, 300), st.sampled_from([1, 2, 4, 8, 16]))
def test_lane_cover(extent: int, lanes: int):
    widths = lane_cover(extent, lanes)
    covered, left = 0, extent
    for width in widths:  # every width is used as often as it fits
        assert width <= lanes
        covered += left // width * width
        left %= width
    assert covered == extent
    assert widths == sorted(set(widths), reverse=True)


@pytest.mark.parametrize(
    ("extent", "step", "expected"),
    [
        (56, 7, [(7, 8)]),
        (56, 6, [(6, 8), (4, 2)]),  # 6 and 2 are 4 and 4
        (7, 5, [(5, 1), (2, 1)]),  # an odd number
        (57, 6, [(6, 9), (3, 1)]),  # half a tile
        (4, 6, [(4, 1)]),
        (0, 6, [(1, 0)]),
    ],
)
def test_step_cover(extent: int, step: int, expected: list[tuple[int, int]]):
    assert step_cover(extent, step, even=True) == expected


@pytest.mark.parametrize("even", [False, True])
def test_every_step_cover_covers(even: bool):
    for extent in range(40):
        for step in range(1, 20):
            cover = step_cover(extent, step, even=even)
            assert sum(size * count for size, count in cover) == extent
            assert all(0 < size <= step for size, _ in cover)
    assert step_cover(56, 6, even=False) == [(6, 9), (2, 1)]
