"""Names and numbers that move in the loops of a text: written and read back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rcompiler
from rcompiler.dialects.iterations import moving_number, name_at, name_problems
from rcompiler.passes.schedule.program_lines import Numbers, split_name
from rcompiler.rammer.loops import Line
from rcompiler.tools import models


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("step12_MatMul_3.view", [12, 3]),
        ("0", [0]),
        ("x", []),
        ("", []),
        ("a007b10", [10]),  # 7 would not be printed so
        ("w_444c13ca", [444, 13]),
        ("t1234567890_9", [9]),  # too long to be a count
    ],
)
def test_numbers_of_names(name, numbers):
    template, found = split_name(name)
    assert list(found) == numbers
    line = Line((), tuple(numbers))
    assert Numbers(line, [()] * len(numbers)).name(template) == name


@given(st.text(st.characters(codec="ascii", exclude_characters="{}"), max_size=12))
def test_any_name_is_written_as_it_is(name):
    template, numbers = split_name(name)
    assert Numbers(Line((), tuple(numbers)), [()] * len(numbers)).name(template) == name


small = st.integers(0, 50)


@given(small, st.lists(st.integers(-3, 3), min_size=1, max_size=3), st.lists(small, min_size=3))
def test_moving_numbers_move(first, steps, index):
    index = tuple(index[: len(steps)])
    name = f"a{moving_number(first, steps)}b"
    value = first + sum(i * step for i, step in zip(index, steps, strict=True))
    assert name_at(name, index) == f"a{value}b"
    assert not list(name_problems(name, len(steps)))


def test_how_they_are_written():
    assert moving_number(4, [1]) == "{4+i}"
    assert moving_number(4, [0, -2]) == "{4-2j}"
    assert moving_number(4, [5, 1]) == "{4+5i+j}"
    assert moving_number(4, [0, 0]) == moving_number(4, []) == "4"


@pytest.mark.parametrize("name", ["{", "a{4+}", "{4}", "{x+i}", "{4+2*i}", "{{4+i}}", "}"])
def test_what_is_no_moving_number(name):
    assert list(name_problems(name, 1))
    assert not list(name_problems(name, 0))  # outside of loops it is a name like any other
    assert name_at(name, ()) == name


def test_no_name_of_a_model_is_kept():
    """Names of weights are made of their content: no other model has them."""
    rcompiler.compile_onnx(models.build("two_branch"), cache=False).close()
    assert split_name.cache_info().currsize == 0
