"""Which bytes prefetches ask for, against the boxes that tasks read."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rcompiler.kernelgen.simt.prefetch import Runs

WHOLE = (-1, 0, 0, 0)


def asked(runs: Runs, coordinates: tuple[int, ...]) -> set[int]:
    """The bytes of all runs of a task, in its tensor."""
    start = runs.offset + sum(coordinates[axis] * step for axis, step in runs.starts)
    starts = np.full(1, start)
    for extent, pitch in zip(runs.extents, runs.pitches, strict=True):
        starts = (starts[:, None] + pitch * np.arange(extent)).ravel()
    return set((starts[:, None] + np.arange(runs.size)).ravel().tolist())


@st.composite
def cases(draw):
    """Shape, element size, box and grid coordinates of a task that hangs over nowhere."""
    shape = draw(st.lists(st.integers(1, 6), min_size=1, max_size=4))
    box, coordinates = [], []
    for size in shape:
        if draw(st.booleans()):
            box.append(WHOLE)
            continue
        extent = draw(st.integers(1, size))
        scale = draw(st.integers(1, extent))
        offset = draw(st.integers(0, size - extent))
        box.append((len(coordinates), scale, offset, extent))
        coordinates.append(draw(st.integers(0, (size - extent - offset) // scale)))
    return shape, draw(st.sampled_from([1, 2, 4, 8])), box, tuple(coordinates)


@given(case=cases())
def test_all_of_a_box_is_asked_for_and_nothing_else(case):
    shape, item, box, coordinates = case
    ranges = [
        range(size)
        if axis < 0
        else range(scale * coordinates[axis] + offset, scale * coordinates[axis] + offset + extent)
        for size, (axis, scale, offset, extent) in zip(shape, box, strict=True)
    ]
    elements = np.ravel_multi_index(np.meshgrid(*ranges, indexing="ij"), shape).ravel()
    wanted = set((elements[:, None] * item + np.arange(item)).ravel().tolist())
    runs = Runs.of(shape, item, box)
    assert asked(runs, coordinates) == wanted
    assert runs.size * math.prod(runs.extents) == len(wanted)


@given(case=cases(), sector=st.sampled_from([4, 32]))
def test_each_sector_of_a_run_is_asked_for(case, sector):
    shape, item, box, coordinates = case
    runs = Runs.of(shape, item, box)
    count, start = runs.sectors(sector), sum(coordinates[axis] * n for axis, n in runs.starts)
    for first in (runs.offset + start, *(runs.offset + start + pitch for pitch in runs.pitches)):
        places = [first + min(n * sector, runs.size - 1) for n in range(count)]
        wanted = {byte // sector for byte in range(first, first + runs.size)}
        assert {place // sector for place in places} == wanted


def test_rows_of_whole_columns_are_one_run_by_hand():
    """8 of 32 rows of 16 floats: 512 bytes in a row, from one task to the next as many."""
    runs = Runs.of((32, 16), 4, [(0, 8, 0, 8), WHOLE])
    assert (runs.size, runs.extents, runs.starts, runs.bytes) == (512, (), ((0, 512),), 2048)
    assert runs.sectors(32) == 16
    runs = Runs.of((32, 16), 4, [WHOLE, (0, 5, 0, 5)])
    assert (runs.size, runs.extents, runs.pitches) == (20, (32,), (64,))
    assert runs.sectors(32) == 2  # the second task begins 20 bytes on
