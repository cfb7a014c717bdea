"""Alignment rules: near-equal splits, lines, cache sets."""

from math import ceil

from hypothesis import given
from hypothesis import strategies as st

from rcompiler.device.model import MemoryLevel
from rcompiler.roller.rtile import (
    grid_of,
    line_unit,
    near_equal,
    set_conflicts,
    shape_waste,
    splits,
)

L1 = MemoryLevel("L1", 32 << 10, 64, 8, 300.0, 300.0)
levels = st.builds(
    lambda sets, ways: MemoryLevel("L", sets * ways * 64, 64, ways, 1.0, 1.0),
    st.sampled_from([1, 2, 8, 64]),
    st.integers(1, 12),
)


def test_near_equal_by_hand():
    # 128 = 9 x 13 + 11 is offered, 9 x 14 + 2 is not
    assert near_equal(128, 14) == (13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1)
    assert near_equal(56, 28)[:4] == (28, 19, 14, 12)
    assert near_equal(7, 30) == (7, 4, 3, 2, 1)


@given(st.integers(1, 2000), st.integers(1, 64))
def test_near_equal_is_the_smallest_tile_for_its_parts(size, limit):
    tiles = near_equal(size, limit)
    assert tiles == tuple(sorted(set(tiles), reverse=True))
    for tile in tiles:
        assert 1 <= tile <= limit
        parts = ceil(size / tile)
        assert (tile - 1) * parts < size  # one less would not cover


@given(st.integers(1, 5000), st.integers(1, 70), st.integers(1, 300))
def test_splits_are_aligned(size, unit, limit):
    tiles = splits(size, unit, limit)
    assert tiles[0] == size
    for tile in tiles:
        assert tile == size or tile % unit == 0
        assert ceil(size / tile) <= limit


def test_shape_waste_and_grid():
    assert shape_waste(128, 14) == (140 - 128) / 128
    assert shape_waste(128, 16) == 0
    assert grid_of((128, 768), (13, 48)) == (10, 16)


def test_line_unit_avoids_false_sharing():
    assert line_unit(8, 64, 4) == 16
    assert line_unit(48, 64, 4) == 48
    assert line_unit(4, 64, 8) == 8


def test_set_conflicts_by_hand():
    # 32 KiB, 8 ways: rows 4 KiB apart all fall into one set
    assert set_conflicts(4096, 14, L1) == 14
    assert set_conflicts(4096 + 64, 14, L1) == 1
    assert set_conflicts(2048, 14, L1) == 7


@given(st.integers(1, 9000), st.integers(1, 200), levels)
def test_set_conflicts_equals_counting(stride, rows, level):
    hits: dict[int, int] = {}
    for row in range(rows):
        position = stride * row // level.line % level.sets
        hits[position] = hits.get(position, 0) + 1
    assert set_conflicts(stride, rows, level) == max(hits.values())
