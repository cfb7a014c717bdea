"""Bounds of integers: they hold for every element that numpy computes, and are not idle."""

from collections import namedtuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rcompiler.frontend.bounds import of_result, of_type, union
from rcompiler.support.extent import Extent, Symbol

INT64 = of_type("int64")
Tensor = namedtuple("Tensor", "bounds shape dtype elements", defaults=[None])


def operand(bounds=INT64, shape=(3, 4), dtype="int64"):
    return Tensor(bounds, shape, dtype)


def found(op, *operands, shape=(3, 4), dtype="int64", number=0, **attributes):
    return of_result(op, attributes, list(operands), Tensor(None, shape, dtype), number)


def test_types():
    assert (of_type("bool"), of_type("uint8"), of_type("int4")) == ((0, 1), (0, 255), (-8, 7))
    assert of_type("float32") is None and of_type("bfloat16") is None
    assert union((0, 1), (-3, -2)) == (-3, 1) and union((0, 1), None) is None and union() is None


@pytest.mark.parametrize("op", ["Reshape", "Transpose", "Slice", "Expand", "Tile", "Gather"])
def test_what_moves_keeps_its_bounds(op):
    assert found(op, operand((-2, 7)), operand()) == (-2, 7)


def test_what_is_put_together_has_the_bounds_of_all():
    a, b, unknown = operand((0, 3)), operand((-1, 2)), operand()
    assert found("Concat", a, b) == (-1, 3)
    assert found("Concat", a, b, unknown) == INT64
    assert found("Concat", a, operand(INT64, (0, 4))) == (0, 3)
    assert found("Where", operand((0, 1), dtype="bool"), a, b) == (-1, 3)
    assert found("ScatterElements", a, unknown, b) == (-1, 3)
    assert found("ScatterElements", a, unknown, b, reduction="add") == INT64
    assert found("Pad", operand((5, 6)), unknown) == (0, 6)
    assert found("Pad", operand((5, 6)), unknown, operand((9, 9))) == (5, 9)
    assert found("Trilu", operand((5, 6))) == (0, 6)
    assert found("OneHot", unknown, unknown, operand((2, 8))) == (2, 8)
    assert [found("Split", a, number=n) for n in range(3)] == [(0, 3)] * 3


def test_positions():
    assert found("ArgMax", operand(None, (3, 5), "float32"), axis=-1) == (0, 4)
    assert found("ArgMin", operand(None, (3, 5), "float32")) == (0, 2)
    assert found("ArgMax", operand(None, (3, 0), "float32"), axis=1) == INT64
    assert found("ArgMax", operand(None, (3, 5), "float32"), axis=9) == INT64
    assert found("TopK", operand(None, (3, 5), "float32"), number=1) == (0, 4)
    assert found("TopK", operand((7, 8), (3, 5))) == (7, 8)
    assert found("Multinomial", operand(None, (3, 6), "float32"), dtype="int32") == (0, 5)


def test_casts():
    assert found("Cast", operand((0, 1), dtype="bool")) == (0, 1)
    assert found("Cast", operand((0, 255), dtype="uint8"), dtype="int32") == (0, 255)
    assert found("Cast", operand((0, 300)), dtype="uint8") == (0, 255)  # it wraps
    assert found("Cast", operand(None, dtype="float32")) == INT64  # of NaN anything is made
    assert found("Cast", operand((0, 5)), dtype="float32") is None


def test_one_operand_may_be_enough():
    assert found("Max", operand(), operand((3, 3))) == (3, INT64[1])
    assert found("Min", operand(), operand((3, 3))) == (INT64[0], 3)
    assert found("Clip", operand(), operand((0, 0)), operand((4, 4))) == (0, 4)
    assert found("Clip", operand(), None, operand((4, 4))) == (INT64[0], 4)
    assert found("Clip", operand(), operand((9, 9)), operand((4, 4))) == (4, 4)
    assert found("Mod", operand(), operand((5, 5))) == (0, 4)
    assert found("Mod", operand(), operand((-5, -5))) == (-4, 0)
    assert found("Mod", operand(), operand((5, 5)), fmod=1) == (-4, 4)
    assert found("Mod", operand((0, 9)), operand((5, 5)), fmod=1) == (0, 4)
    assert found("Mod", operand(), operand((-1, 5))) == INT64
    assert found("BitwiseAnd", operand(), operand((7, 7))) == (0, 7)
    assert found("Sign", operand()) == (-1, 1)


def test_the_least_of_some_sizes():
    """As of how many boxes there are, and how many are wanted at most."""
    n = Extent.of(Symbol("n", 2, 3234))
    sizes = Tensor((0, 3234), (2,), "int64", np.array([300, n], object))
    assert found("ReduceMin", sizes, shape=()) == (2, 300)
    assert found("ReduceMax", sizes, shape=(1,)) == (300, 3234)
    assert found("ReduceMin", sizes, shape=(2,), noop_with_empty_axes=1) == (0, 3234)


def test_what_overflows_is_anything():
    assert found("Add", operand((0, INT64[1])), operand((1, 1))) == INT64
    assert found("Neg", operand()) == INT64 and found("Abs", operand()) == INT64
    assert found("Div", operand(), operand((-1, -1))) == INT64
    assert found("Mul", operand((0, 20), dtype="int8"), operand((0, 20)), dtype="int8") == (
        -128,
        127,
    )


def test_no_elements_and_unknown_operators():
    assert found("Reshape", operand((0, 1), (0,)), shape=(0,)) == INT64
    assert found("ReduceMax", operand((0, 1), (0, 4)), shape=(4,)) == INT64
    assert found("BitShift", operand((0, 1)), operand((0, 1))) == INT64
    assert found("Add") == INT64


def _modulo(a, b):
    return np.where(b == 0, 0, np.mod(a, np.where(b == 0, 1, b)))


NUMPY = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": lambda a, b: np.trunc(a / np.where(b == 0, 1, b)).astype(np.int64),
    "Mod": _modulo,
    "Max": np.maximum,
    "Min": np.minimum,
    "BitwiseAnd": np.bitwise_and,
    "Neg": lambda a, b: -a,
    "Abs": lambda a, b: abs(a),
    "CumSum": lambda a, b: np.cumsum(a, 0),
    "ReduceSum": lambda a, b: a.sum(0),
    "ReduceMax": lambda a, b: a.max(0),
}
SMALL = st.tuples(st.integers(-20, 20), st.integers(0, 9)).map(lambda p: (p[0], p[0] + p[1]))


@given(op=st.sampled_from(sorted(NUMPY)), a=SMALL, b=SMALL, seed=st.integers(0, 99))
@settings(max_examples=400)
def test_they_hold(op, a, b, seed):
    rng = np.random.default_rng(seed)
    x, y = (rng.integers(low, high, (3, 4), endpoint=True) for low, high in (a, b))
    got = NUMPY[op](x, y)
    low, high = found(op, operand(a), operand(b), shape=got.shape)
    assert low <= got.min() and got.max() <= high


@given(a=SMALL, b=SMALL, fmod=st.booleans(), seed=st.integers(0, 99))
@settings(max_examples=200)
def test_remainders_hold(a, b, fmod, seed):
    rng = np.random.default_rng(seed)
    x, y = (rng.integers(low, high, (3, 4), endpoint=True) for low, high in (a, b))
    y[y == 0] = 1 if b[1] >= 1 else b[0] or 1
    got = (np.fmod if fmod else np.mod)(x, y)
    low, high = found("Mod", operand(a), operand(b), fmod=int(fmod))
    assert low <= got.min() and got.max() <= high
