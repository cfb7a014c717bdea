"""rTasks at the end of an axis that are cut off: their work, their time, fair shares of them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rammer_cases import chain, kernel

from rcompiler.device.model import Costs
from rcompiler.rammer.cost import alone_ns, balanced, run_ns, size_of
from rcompiler.rammer.kernel import Access, Kernel
from rcompiler.rammer.policy.base import schedule_base
from rcompiler.rammer.program import Run
from rcompiler.rammer.schedule import POLICIES, schedule
from rcompiler.rammer.simulate import simulate

COSTS = Costs(task_ns=10, hand_off_ns=100, barrier_ns=200, launch_ns=500, min_task_ns=1)


def uneven(rows=128, step=48, columns=16):
    """Tiles of `step` rows by one column; the last rows may be fewer."""
    grid = (-(-rows // step), columns)
    own = kernel("k", (grid[0] * step, columns), grid, "t").writes[0]
    cut = Access((rows, columns), own.itemsize, own.dims)
    return Kernel("k", grid, (cut,), (cut,), estimated_ns=1000.0)


def test_rtasks_count_for_what_they_write():
    # 32 rTasks of 48 rows and 16 of 32: 42.67 in the mean, so 1.125 and 0.75.
    k = uneven()
    assert size_of(k, 0, 48) == pytest.approx(48)
    assert size_of(k, 0, 16) == pytest.approx(18)
    assert size_of(k, 31, 2) == pytest.approx(1.125 + 0.75)
    assert size_of(k, 15, 3, stride=16) == pytest.approx(1.125 + 1.125 + 0.75)
    assert run_ns(k, size_of(k, 32, 16), COSTS) == pytest.approx(10 + 12_000)


def test_equal_rtasks_are_counted():
    k = kernel("k", (8, 8), (4, 2), "t")
    assert k.progress is None
    assert size_of(k, 3, 4) == 4
    counts = np.array([3, 5])
    assert balanced(k, counts) is counts


def test_a_result_of_nothing_has_no_work():
    for shape, grid in (((0, 4), (0, 4)), ((10, 0), (3, 1))):
        empty = Access(shape, 4, uneven(10, 3, 4).writes[0].dims)
        k = Kernel("k", grid, (), (empty,), estimated_ns=1.0)
        assert k.progress is None and size_of(k, 0, k.tasks) == k.tasks


def test_eus_share_the_work_and_not_the_number_of_rtasks():
    # Half of 48 mean rTasks are 24: 21 of the large ones are 23.625, 22 are 24.75.
    k = uneven()
    assert balanced(k, np.array([24, 24])).tolist() == [21, 27]
    graph = chain([k], [[-1]])
    [program] = schedule_base(graph, 2, COSTS)
    shares = [(run.first, run.count) for [run] in program.queues if isinstance(run, Run)]
    assert shares == [(0, 21), (21, 27)]
    # 27 of them: 11 of 1.125 and 16 of 0.75, against 24 of 1.125 if all counted the same.
    line = simulate([program], graph, COSTS)
    assert line.makespan_ns == pytest.approx(500 + 10 + 24_375)


def test_an_operator_by_itself_takes_its_longest_share():
    assert alone_ns(uneven(), 2) == pytest.approx(24_375)  # 11 of 1.125 and 16 of 0.75
    # 1.2, 1.2, 1.2 and 0.4: a task each; two of 1.2 and two of 1.6, whoever gets the short one.
    k = uneven(rows=10, step=3, columns=1)
    assert [alone_ns(k, eus) for eus in (1, 2, 4, 8)] == pytest.approx([4000, 2400, 1200, 1200])
    assert alone_ns(kernel("k", (8, 8), (4, 2), "t", estimated_ns=10.0), 3) == 30


@settings(max_examples=50)
@given(st.integers(1, 70), st.integers(1, 9), st.integers(1, 5), st.integers(1, 9))
def test_the_time_by_itself_is_that_of_a_launch(rows, step, columns, eus):
    k = uneven(rows, step, columns)
    graph = chain([k], [[-1]])
    line = simulate(schedule_base(graph, eus, COSTS), graph, COSTS)
    assert line.makespan_ns == pytest.approx(500 + 10 + alone_ns(k, eus))


def test_a_task_each_stays_a_task_each():
    # Four rTasks of 1.2, 1.2, 1.2 and 0.4: shares of one rTask are best, though not equal work.
    k = uneven(rows=10, step=3, columns=1)
    for policy in POLICIES:
        found = schedule(chain([k], [[-1]]), 4, COSTS, policy=policy)
        runs = [s for p in found.programs for q in p.queues for s in q if isinstance(s, Run)]
        assert [run.count for run in runs] == [1, 1, 1, 1], policy


@settings(max_examples=200)
@given(st.integers(1, 70), st.integers(1, 9), st.integers(1, 5), st.integers(1, 9))
def test_shares_are_no_further_from_even_than_an_rtask(rows, step, columns, eus):
    k = uneven(rows, step, columns)
    counts = np.full(eus, k.tasks // eus)
    counts[: k.tasks % eus] += 1
    found = balanced(k, counts)
    assert found.sum() == k.tasks and (found >= 0).all()
    largest = max(size_of(k, n, 1) for n in range(k.tasks))
    first = np.cumsum(found) - found
    for start, count, want in zip(first.tolist(), found.tolist(), counts.tolist(), strict=True):
        assert abs(size_of(k, start, count) - want) <= largest + 1e-9
