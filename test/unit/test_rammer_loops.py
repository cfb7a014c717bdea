"""Loops of instruction lists: found, as small as by hand, and written out to the same list."""

import pytest
from counted import calls_in
from hypothesis import given, settings
from hypothesis import strategies as st
from unrolled import unroll

from rcompiler.rammer.loops import Line, Repeat, roll, size_of


def line(name, *numbers):
    return Line((name, "a", "b"), numbers)


def test_what_moves_evenly_is_a_loop():
    """The example of the module."""
    lines = [
        step
        for i in range(3)
        for step in (line("run", 64 * i), line("wait", 5 + i), line("signal", 7, 1 + i))
    ]
    (loop,) = roll(lines)
    assert loop == Repeat(3, tuple(lines[:3]), (64, 1, 0, 1))
    assert unroll([loop]) == lines


def test_two_are_no_loop_and_three_that_move_unevenly_neither():
    assert roll([line("a", 0), line("a", 64)]) == (line("a", 0), line("a", 64))
    uneven = [line("a", 0), line("a", 64), line("a", 65), line("a", 200), line("a", 7)]
    assert roll(uneven) == tuple(uneven)


def test_edges_are_left_outside():
    body = [[line("run", 64 * i), line("wait", 3 * i)] for i in range(6)]
    lines = [*body[0][:1], *(step for part in body[1:] for step in part), line("other", 1)]
    found = roll(lines)
    assert found == (body[0][0], Repeat(5, tuple(body[1]), (64, 3)), line("other", 1))


def test_bytes_that_come_back_every_third_time_make_a_loop_of_three():
    lines = [line(name, (0, 64, 192)[i % 3]) for i in range(24) for name in "ab"]
    found = roll(lines)
    assert found == (Repeat(8, tuple(lines[:6]), (0,) * 6),)


def test_loops_in_loops():
    lines = [line(name, 1000 * i + 10 * j) for i in range(4) for j in range(5) for name in "ab"]
    lines = [step for i in range(4) for step in [*lines[10 * i : 10 * i + 10], line("c", i)]]
    inner = Repeat(5, (line("a", 0), line("b", 0)), (10, 10))
    assert roll(lines) == (Repeat(4, (inner, line("c", 0)), (1000, 1000, 1)),)


def test_a_loop_that_is_not_smaller_is_none():
    """Three short lines that all move: the loop would take more than they do."""
    lines = [Line(("s",), (i,)) for i in range(3)]
    assert roll(lines) == tuple(lines)
    assert len(roll([Line(("s",), (i,)) for i in range(30)])) == 1


lists = st.recursive(
    st.builds(
        lambda name, numbers: [Line((name,), tuple(numbers))],
        st.sampled_from("abc"),
        st.lists(st.integers(-3, 3), min_size=1, max_size=1),
    ),
    lambda inner: st.one_of(
        st.builds(lambda parts: sum(parts, []), st.lists(inner, min_size=1, max_size=4)),
        st.builds(
            lambda body, count, steps: [
                Line(step.fixed, tuple(n + i * steps[k % len(steps)] for n in step.numbers))
                for i in range(count)
                for k, step in enumerate(body)
            ],
            inner,
            st.integers(2, 6),
            st.lists(st.integers(-2, 2), min_size=1, max_size=3),
        ),
    ),
    max_leaves=12,
)


@settings(max_examples=400)
@given(lists)
def test_rolled_and_unrolled_is_the_same(lines):
    found = roll(lines)
    assert unroll(found) == lines
    assert size_of(found) <= size_of(lines)
    assert roll(lines) == found


@pytest.mark.parametrize("period", [7, 500])
def test_a_hundred_thousand_instructions(period):
    lines = [line("k" + str(i % period % 5), i // period * 64, i % period) for i in range(100_000)]
    found = roll(lines)
    assert unroll(found) == lines
    assert size_of(found) < 4 * size_of(lines[:period]) + 5 * 5 * period
    assert calls_in(lambda: roll(lines)) < 30 * len(lines)  # 13 of each, which take a second
