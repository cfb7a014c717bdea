"""Floats that are quotients of sizes, beside the floats that numpy has for each size."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rcompiler.frontend.sizes.arithmetic import Undecided
from rcompiler.frontend.sizes.ratios import _Floats, _quotient
from rcompiler.support.extent import Extent, Symbol

STEPS = st.tuples(
    st.sampled_from(["plus", "minus", "times", "over"]),
    st.sampled_from([0.5, 1, 2, 3, 5, 7, 0.25, 0.1, 0.3, 1.5, 10, 11, 32, 100, -2, -0.75]),
)


def run(floats, steps, start, dtype):
    """What is noted of a chain, and what numpy computes for each size."""
    ratio = floats.of(Extent.of(start))
    values = np.arange(start.low, start.high + 1).astype(dtype)
    for name, number in steps:
        number = dtype(number)
        if name == "plus":
            ratio, values = floats.plus(ratio, float(number)), values + number
        elif name == "minus":
            ratio, values = floats.plus(ratio, floats.negative(float(number))), values - number
        elif name == "times":
            ratio, values = floats.times(ratio, float(number)), values * number
        else:
            ratio, values = floats.over(ratio, float(number)), values / number
    return ratio, values


@settings(max_examples=400, deadline=None)
@given(st.lists(STEPS, min_size=1, max_size=4), st.integers(0, 2000), st.integers(0, 300))
def test_a_quotient_decides_only_what_the_floats_say(steps, low, more):
    """In f16, of which all floats can be looked at."""
    symbol, floats = Symbol("h", low, min(low + more, 2048)), _Floats("float16")
    with np.errstate(all="ignore"):
        try:
            ratio, values = run(floats, steps, symbol, np.float16)
        except Undecided:
            assume(False)
    assert ratio.low <= values.min() and values.max() <= ratio.high
    if not floats.decides(ratio):
        return
    for h, value in zip(range(symbol.low, symbol.high + 1), values, strict=True):
        over = ratio.over.at({"h": h}) if isinstance(ratio.over, Extent) else ratio.over
        exact = Fraction(over, ratio.by)
        for fn in (math.floor, math.ceil):
            assert fn(value) == fn(exact)
        if ratio.roundings == 0:
            assert Fraction(float(value)) == exact


@pytest.mark.parametrize(
    ("steps", "most", "decided"),
    [
        ([("over", 2)], 1 << 24, True),
        ([("times", 0.5)], 1 << 24, True),
        ([("times", 0.75)], 1 << 22, True),
        ([("times", 0.75)], 1 << 24, False),
        ([("over", 3)], 1 << 22, True),
        ([("over", 3)], 1 << 24, False),
        ([("minus", 10), ("over", 5), ("plus", 1)], 1 << 20, True),
        ([("over", 3), ("times", 3)], 100, False),
        ([("times", 0.1)], 1000, False),
    ],
)
def test_what_is_decided_in_f32(steps, most, decided):
    floats = _Floats("float32")
    ratio, _ = run(floats, steps, Symbol("h", most - 20, most), np.float32)
    assert floats.decides(ratio) == decided


class Counting:
    """A builder that is asked for quotients only."""

    def quotient(self, name, size, divisor):
        self.asked = size, divisor
        return size // divisor


class Node:
    def __init__(self, op):
        self.op_type, self.output = op, ["y"]


@pytest.mark.parametrize("op", ["Floor", "Ceil", "Round", "Cast"])
@pytest.mark.parametrize(("over", "by"), [(7, 3), (8, 3), (9, 3), (-4, 3), (7, 5), (13, 5)])
def test_whole_numbers_of_quotients(op, over, by):
    ratio = _Floats("float64").over(over, by)
    fn = {"Floor": math.floor, "Ceil": math.ceil, "Round": round, "Cast": math.floor}[op]
    assert _quotient(Counting(), Node(op), ratio) == fn(Fraction(over, by))


def test_halves_are_rounded_by_the_run():
    assert _quotient(Counting(), Node("Round"), _Floats("float32").over(5, 2)) is None
