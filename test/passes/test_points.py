"""Points of loop nests at once: the same as loop after loop, by numbers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rcompiler.passes.tiles import points as of
from rcompiler.passes.tiles.points import WriteCounts

# Stand for index values, which are keys only.
TASK, OUTER, INNER = "task", "i", "j"


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 3), st.integers(0, 7), st.integers(1, 3), st.integers(1, 4), st.data())
def test_turns_are_those_of_loops(first, size, step, tasks, data):
    """Task after task, of each turn after turn; the inner loop begins where the outer one is."""
    most = data.draw(st.integers(1, 9))  # so that groups end anywhere
    wanted = [
        (task, i, j)
        for task in range(tasks)
        for i in range(first, size + task, step)
        for j in range(i, size, 2)
    ]
    saved, of._MOST = of._MOST, most
    try:
        found = []
        for outer in of.tasks(TASK, (tasks,)):
            for middle in outer.turns(OUTER, first, outer.known[TASK] + size, step):
                for inner in middle.turns(INNER, middle.known[OUTER], size, 2):
                    at = [inner.known[v] for v in (TASK, OUTER, INNER)]
                    assert inner.count <= most and np.array_equal(inner.task[0], at[0])
                    found += zip(*(a.tolist() for a in at), strict=True)
    finally:
        of._MOST = saved
    assert found == wanted


def test_the_first_point_of_which_something_holds():
    [points] = of.tasks(TASK, (2, 3))
    assert points.count == 6 and [of.at_point(n, 4) for n in points.task] == [1, 1]
    number = points.known[TASK]
    assert points.first(number > 2) == 3 and points.first(number > 5) is None
    assert points.first(True) == 0 and points.first(False) is None
    some = points.where(number % 2 == 1)
    assert some.count == 3 and some.known[TASK].tolist() == [1, 3, 5]
    assert points.where(number >= 0) is points and points.where(False).count == 0


def test_a_kernel_of_one_task_without_axes():
    [points] = of.tasks(TASK, ())
    assert points.count == 1 and points.task == ()


def test_numbers_that_would_wrap_are_refused():
    """64 bits: 2 ** 32 * 2 ** 32 is 0 in an array, and no Python integer wraps."""
    large = np.array([1, 1 << 32])
    assert of.times(large, 3).tolist() == [3, 3 << 32]
    for a, b in ((large, large), (large, 1 << 32), (1 << 32, 1 << 32), (-large, 1 << 62)):
        with pytest.raises(OverflowError):
            of.times(a, b)
    for number in (1 << 40, -(1 << 40), np.array([0, -(1 << 41)])):
        with pytest.raises(OverflowError):
            of.bounded(number)


def test_writes_are_counted_once_for_each_point():
    counts = WriteCounts((4, 6))
    assert counts.first_not_once() == ([0, 0], 0)
    rows = np.array([0, 1, 2, 3])
    # of each row the even columns, then the odd ones: of the last row one column too few
    counts.add(((rows, rows + 1), (0, 5)), (1, 2), 4)
    counts.add(((rows, rows + 1), (1, np.array([6, 6, 6, 4]))), (1, 2), 4)
    assert counts.first_not_once() == ([3, 5], 0)
    counts.add(((3, 4), (5, 6)), (1, 1), 1)
    assert counts.first_not_once() is None
    counts.add(((3, 4), (2, 4)), (1, 1), 2)
    assert counts.first_not_once() == ([3, 2], 3)


def test_a_number_is_written_as_often_as_there_are_points():
    counts = WriteCounts(())
    counts.add((), (), 2)
    assert counts.first_not_once() == ([], 2)
