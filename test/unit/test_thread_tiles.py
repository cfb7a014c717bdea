"""How threads share in tiles: all elements are covered, and no group has more than it must."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rcompiler.roller.thread_tiles import (
    IN_FLIGHT,
    SUMS_IN_FLIGHT,
    BlockThreads,
    ThreadTiles,
    group_width,
)

EXTENTS = st.lists(st.integers(1, 70), min_size=1, max_size=3)


@given(st.data(), EXTENTS, st.sampled_from([1, 2, 4, 8, 12, 32, 64]), st.booleans())
def test_every_element_is_covered_once(data, extents, lanes, sums):
    registers = [data.draw(st.integers(1, 2 * extent)) for extent in extents]
    vector = data.draw(st.integers(-1, len(extents) - 1))
    group = data.draw(st.sampled_from([group_width(lanes, 32), 32]))
    threads = BlockThreads(256, group)
    tiles = ThreadTiles.of(registers, vector, lanes, extents, threads, sums=sums)
    for dim, extent in enumerate(extents):
        parts = list(tiles.cover(dim, extent))
        assert sum(size * count for size, count in parts) == extent
        if dim == vector:  # whole vectors, or less than one
            assert all(size % tiles.lanes == 0 or size < tiles.lanes for size, _ in parts)
    assert tiles.lanes <= 32 and threads.count % tiles.lanes == 0 or lanes == 12


def test_no_group_is_idle():
    """64 rows for 64 groups of 4 threads: the 8 rows of a register tile become one."""
    tiles = ThreadTiles.of([8, 4], 1, 4, [64, 4], BlockThreads(256, 4), sums=False)
    assert tiles.register_tile == (1, 4)
    many = ThreadTiles.of([8, 4], 1, 4, [512, 4], BlockThreads(256, 4), sums=False)
    assert many.register_tile == (8, 4)


def test_groups_that_share_in_sums_are_warps():
    """Of 8 warps each has one of 8 register tiles of 4 rows; of 256 threads, 224 would be idle."""
    alone = ThreadTiles.of([4], -1, 1, [32], BlockThreads(256, 1), sums=True)
    shared = ThreadTiles.of([4], -1, 1, [32], BlockThreads(256, 32), sums=True)
    assert (alone.register_tile, shared.register_tile) == ((1,), (4,))


def test_extents_of_a_run_leave_the_tile_as_it_is():
    tiles = ThreadTiles.of([8, 4], 1, 4, [None, 4], BlockThreads(256, 4), sums=False)
    assert tiles.register_tile == (8, 4)


def test_what_a_thread_reads_before_it_stores():
    tiles = ThreadTiles.of([2, 8], 1, 8, [64, 20], BlockThreads(64, 8), sums=False)
    assert tiles.in_flight(2, 8) == IN_FLIGHT
    assert tiles.in_flight(2, 4) == 2  # what is left at the end of rows
    sums = ThreadTiles.of([2, 8], 1, 8, [64, 20], BlockThreads(64, 8), sums=True)
    assert sums.in_flight(2, 8) == 2  # of one register tile, whatever it has
    assert sums.in_flight(12, 8) == SUMS_IN_FLIGHT


@pytest.mark.parametrize(("lanes", "width"), [(1, 1), (3, 2), (32, 32), (64, 32), (0, 1)])
def test_the_threads_of_a_group(lanes, width):
    assert group_width(lanes, 32) == width
    assert math.log2(width).is_integer()
