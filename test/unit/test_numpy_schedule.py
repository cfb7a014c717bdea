"""Schedules in numpy: the order of rTasks, the memory, and what is found where either is wrong."""

import numpy as np
import pytest
from numpy_schedule.memory import Memory, Tensor
from numpy_schedule.order import rtasks
from s4 import s4_of
from small_networks import SMALL, feeds_of

from rcompiler.rammer.program import Barrier, Buffer, Program, Run, Signal, Wait
from rcompiler.tools import models
from rcompiler.tools._reference import compare, reference

F4 = Tensor((4,), np.dtype(np.float32))


def run(name, first=0, count=1, stride=1):
    return Run("k", name, first, count, stride, ())


def program(*queues, dynamic=False, eus=None):
    return Program("p", eus or len(queues), (), tuple(map(tuple, queues)), 0, 0, dynamic)


def orders(given):
    """What is run in many orders: operators with the numbers of tasks."""
    found = [rtasks(given, np.random.default_rng(seed)) for seed in range(100)]
    return [[(step.operator, number) for _, step, number in each] for each in found]


def test_the_tasks_of_a_run_come_by_its_stride():
    assert orders(program([run("a", 1, 3, 2)]))[0] == [("a", 1), ("a", 3), ("a", 5)]


def test_what_nothing_orders_comes_in_any_order():
    found = orders(program([run("a"), run("b")], [run("c")]))
    assert len({tuple(each) for each in found}) == 3
    assert all(each.index(("a", 0)) < each.index(("b", 0)) for each in found)


def test_waits_and_barriers_are_kept():
    late = [Wait("e", 2), run("c"), Barrier(), run("d")]
    given = program([run("a"), Signal("e"), Barrier()], [run("b"), Signal("e"), Barrier()], late)
    for each in orders(given):
        assert {*each[:2]} == {("a", 0), ("b", 0)}
        assert each[2:] == [("c", 0), ("d", 0)]


def test_each_queue_is_taken_once():
    queues = [[run(name), run(name.upper())] for name in "abcd"]
    for each in orders(program(*queues, dynamic=True, eus=2)):
        assert sorted(name for name, _ in each) == [*"ABCDabcd"]
        assert {each[0][0], each[1][0]} <= {*"abAB"}


@pytest.mark.parametrize("queues", [[[Wait("e", 1)]], [[Barrier()], [Wait("e", 1), Barrier()]]])
def test_a_deadlock_is_told(queues):
    with pytest.raises(ValueError, match="wait for what never comes"):
        orders(program(*queues))


def test_a_barrier_that_not_all_come_to_is_a_deadlock():
    with pytest.raises(ValueError, match="wait for what never comes"):
        orders(program([Barrier()], [run("a")]))


# -- memory ---------------------------------------------------------------------------------------
def test_what_nobody_has_written_is_no_number():
    buffer = Buffer("t", "temp", 16, 16)
    given = Program("p", 1, (buffer,), ((),), 32, 0)
    memory = Memory([given], [])
    assert np.isnan(memory.view(buffer, F4, 0)).all()


def test_a_temporary_that_lies_over_another_has_its_bytes():
    a, b = Buffer("a", "temp", 0, 16), Buffer("b", "temp", 8, 16)
    memory = Memory([Program("p", 1, (a, b), ((),), 24, 0)], [])
    memory.view(a, F4, 0)[...] = [1, 2, 3, 4]
    np.testing.assert_array_equal(memory.view(b, F4, 0)[:2], [3, 4])


def test_a_pinned_tensor_is_of_one_eu():
    pinned = Buffer("w", "pinned", 0, 16)
    memory = Memory([Program("p", 2, (pinned,), ((), ()), 0, 0, pinned=16)], [])
    memory.view(pinned, F4, 0)[:2] = 5
    np.testing.assert_array_equal(memory.view(pinned, F4, 0), [5, 5, np.nan, np.nan])
    assert np.isnan(memory.view(pinned, F4, 1)).all()


def test_a_next_value_lies_over_the_last_one_which_the_caller_keeps():
    last, following = Buffer("x", "input", 0, 16, 0), Buffer("y", "output", 0, 16, 0, over=0)
    given = np.float32([1, 2, 3, 4])
    memory = Memory([Program("p", 1, (last, following), ((),), 0, 0)], [given])
    memory.view(following, F4, 0)[1] = 7
    np.testing.assert_array_equal(memory.output(0, 0, F4), [1, 7, 3, 4])
    np.testing.assert_array_equal(memory.view(last, F4, 0), [1, 7, 3, 4])
    np.testing.assert_array_equal(given, [1, 2, 3, 4])


# -- models ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("target", ["cpu:v4", "cuda:h200"])
@pytest.mark.parametrize("name", ["mlp", "two_branch"])
def test_a_network_in_several_orders(name, target):
    model = models.build(name, **SMALL[name])
    made = s4_of(model, target=target)
    feeds = feeds_of(made.inputs)
    _, expected = reference(model, feeds)
    for seed in range(3):
        for found, wanted in zip(made(*feeds.values(), seed=seed), expected, strict=True):
            assert compare(found, wanted).right
