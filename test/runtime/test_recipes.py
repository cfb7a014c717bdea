"""runtime/recipes.py: each step makes what numpy makes, in any blocks; wrong ones are refused."""

import json

import ml_dtypes
import numpy as np
import pytest

from rcompiler.runtime import deferred as deferred_module
from rcompiler.runtime import recipes
from rcompiler.runtime.deferred import Deferred, whole, write
from rcompiler.runtime.recipes import (
    MOST_STEPS,
    Broadcast,
    Cast,
    Combine,
    Derived,
    Form,
    FromBf16,
    Pad,
    Permute,
    Recipe,
    Reshape,
    Signed,
    Whole,
    forms,
    plain,
)

F32, F64 = np.dtype("float32"), np.dtype("float64")
ZERO, TWO = bytes(4), np.float32(2).tobytes()
# G of Winograd's F(4 x 4)
FILTER = ((0.25, 0.0, 0.0), (-1 / 6, -1 / 6, -1 / 6), (-1 / 6, 1 / 6, -1 / 6),
          (1 / 24, 1 / 12, 1 / 6), (1 / 24, -1 / 12, 1 / 6), (0.0, 0.0, 1.0))  # fmt: skip


def combined(array, axis, matrix):
    """Each sum by itself, term by term."""
    terms, sums = np.moveaxis(array, axis, 0), []
    for row in matrix:
        total = np.zeros(terms.shape[1:], array.dtype)
        for factor, term in zip(row, terms, strict=True):
            if factor:
                total = total + term * array.dtype.type(factor)
        sums.append(total)
    return np.moveaxis(np.stack(sums), 0, axis)


CASES = {
    "reshape": (Reshape((6, 20)), lambda w: w.reshape(6, 20)),
    "permute": (Permute((2, 0, 1)), lambda w: w.transpose(2, 0, 1)),
    "broadcast": (Broadcast((4, 3, 10)), lambda w: w),
    "pad": (Pad((1, 0, 2), (6, 3, 15), TWO),
            lambda w: np.pad(w, ((1, 1), (0, 0), (2, 3)), constant_values=2)),
    "cast": (Cast("float64"), lambda w: w.astype("f8")),
    "combine": (Combine(1, FILTER), lambda w: combined(w, 1, FILTER)),
}  # fmt: skip


def numbers(*shape):
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


def computed(array):
    """The same as an array that is computed box by box."""
    return Deferred(array.shape, array.dtype, lambda box: array[box])


def test_integers_have_signs():
    """What a file calls uint8 and uint16: of all of them, through float32 and back."""
    signed = np.arange(-128, 128, dtype=np.int8)
    array = signed.view(np.uint8).reshape(2, 128)
    wide = Derived(array, Signed("uint16"))
    numbers = Derived(array, Signed("uint16"), Signed("float32"))
    back = Derived(array, Signed("float32"), Whole())
    assert np.array_equal(whole(wide).view(np.int16).ravel(), signed)
    assert whole(wide).dtype == whole(back).dtype == np.uint16
    assert np.array_equal(whole(numbers).ravel(), signed) and whole(numbers).dtype == np.float32
    assert np.array_equal(whole(back).view(np.int16).ravel(), signed)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("block", [7, 1 << 15])
@pytest.mark.parametrize("source", [np.asarray, computed])
def test_each_step_makes_what_numpy_makes(name, block, source, monkeypatch):
    monkeypatch.setattr(deferred_module, "BLOCK", block)
    step, expected = CASES[name]
    w = numbers(4, 3, 10)
    wanted = np.ascontiguousarray(expected(w))
    made = Derived(source(w), step)
    assert step.result(Form(w.shape, w.dtype)) == (made.shape, made.dtype)
    assert (made.shape, made.dtype) == (wanted.shape, wanted.dtype)
    out = np.empty(made.shape, made.dtype)
    write(made, out)
    assert out.tobytes() == wanted.tobytes() == np.ascontiguousarray(whole(made)).tobytes()
    box = tuple(slice(n // 3, n) for n in made.shape)
    assert np.array_equal(made[box], wanted[box])


def test_bf16_is_the_upper_half_of_f32():
    """1, -2, the largest below infinity, a number below the normal ones, infinity."""
    bits = np.array([0x3F80, 0xC000, 0x7F7F, 0x0001, 0x7F80], np.uint16)
    made = whole(Derived(bits, FromBf16()))
    assert made.dtype == np.float32
    assert made.tolist() == [1.0, -2.0, (2 - 2.0**-7) * 2.0**127, 2.0**-133, np.inf]


def test_a_broadcast_repeats_dims_of_one_element():
    w = numbers(4, 1, 5)
    for source in (w, computed(w)):
        made = whole(Derived(source, Broadcast((4, 3, 5))))
        assert np.array_equal(made, np.broadcast_to(w, (4, 3, 5)))


WINOGRAD = (
    Reshape((2, 4, 3, 8, 3, 3)), Permute((0, 2, 4, 5, 3, 1)), Cast("float64"),
    Combine(3, FILTER), Permute((3, 0, 1, 2, 4, 5)), Combine(3, FILTER),
    Permute((3, 0, 1, 2, 4, 5)), Cast("float32"), Reshape((36, 6, 32)),
)  # fmt: skip


def winograd(w):
    """The same without recipes."""
    blocked = w.reshape(2, 4, 3, 8, 3, 3).transpose(0, 2, 4, 5, 3, 1).astype(np.float64)
    once = combined(blocked, 3, FILTER).transpose(3, 0, 1, 2, 4, 5)
    twice = combined(once, 3, FILTER).transpose(3, 0, 1, 2, 4, 5)
    return twice.astype(np.float32).reshape(36, 6, 32)


@pytest.mark.parametrize("block", [1, 100, 1 << 15])
def test_filters_are_transformed_to_the_same_bits_in_any_blocks(block, monkeypatch):
    monkeypatch.setattr(deferred_module, "BLOCK", block)
    w = numbers(8, 24, 3, 3)
    out = np.empty((36, 6, 32), np.float32)
    write(Derived(w, *WINOGRAD), out)
    assert out.tobytes() == winograd(w).tobytes()


def test_numbers_that_are_none_pass_in_silence():
    w = np.array([[np.nan, np.inf, -0.0], [3e38, -3e38, 1e-45]], np.float32)
    matrix = ((1.0, 0.0, 1.0), (4.0, 4.0, 4.0), (0.0, 1.0, 1.0))
    with np.errstate(all="raise"):
        made = whole(Derived(w, Combine(1, matrix), Cast("float64")))
    assert np.isnan(made[:, :2]).tolist() == [[True, True], [False, True]]
    assert made[:, 2].tolist() == [np.inf, float(np.float32(-3e38))]


def test_what_is_made_of_what_is_made_has_one_source():
    w = numbers(6, 4)
    first = Derived(w, Permute((1, 0)), Reshape((2, 2, 6)))
    last = Derived(first, Reshape((4, 6)), Permute((1, 0)), Permute((1, 0)))
    assert last.source is w
    assert last.steps == (Permute((1, 0)), Reshape((4, 6)), Permute((0, 1)))
    assert np.array_equal(whole(last), w.T)


def recipe(*steps, shape=(8, 24, 3, 3), dtype=F32):
    return Recipe(128, 64, Form(shape, dtype), tuple(steps), 1)


def test_a_file_gives_the_same_recipes():
    steps = (*WINOGRAD, Pad((0, 0, 0), (36, 6, 40), TWO))
    one = recipe(*steps)
    again = recipes.decoded(json.loads(json.dumps(one.data())))
    assert again == one
    every = recipe(Reshape((4, 1)), Broadcast((4, 5)), Permute((1, 0)), shape=(4,))
    assert recipes.decoded(json.loads(json.dumps(every.data()))) == every
    kept = np.zeros(64 + 4 * 1728, np.uint8)
    kept[64:] = numbers(8, 24, 3, 3).reshape(-1).view(np.uint8)
    wanted = np.pad(winograd(numbers(8, 24, 3, 3)), ((0, 0), (0, 0), (0, 8)), constant_values=2)
    assert np.array_equal(whole(again.made(kept)), wanted)


@pytest.mark.parametrize(
    ("dtype", "known"),
    [("float32", "float32"), ("int8", "uint8"), ("bool", "uint8"), (ml_dtypes.bfloat16, "uint16"),
     ("int64", "uint64"), ("float16", "float16")],
)  # fmt: skip
def test_types_of_a_file_are_those_of_casts_and_bytes(dtype, known):
    assert plain(np.dtype(dtype)).name == known


def test_what_is_too_wide_has_no_recipe():
    assert plain(np.dtype("complex128")) is None


W = Form((8, 24, 3, 3), F32)


@pytest.mark.parametrize(
    ("form", "steps", "reason"),
    [
        (W, [Reshape((8, 24, 8))], "another size"),
        (W, [Reshape((-8, -24, 9))], "impossible shape"),
        (W, [Permute((0, 1, 2))], "no permutation"),
        (W, [Permute((0, 0, 1, 2))], "no permutation"),
        (W, [Permute((-1, 0, 1, 2))], "no permutation"),
        (W, [Broadcast((8, 24, 3, 5))], "broadcast to a shape that does not fit"),
        (W, [Broadcast((8, 24, 3))], "broadcast to a shape that does not fit"),
        (Form((4, 1), F32), [Broadcast((4, 0))], "impossible shape"),
        (Form((4, 1), F32), [Broadcast((4, 65))], "64 times the bytes"),
        (Form((1, 1), F32), [Broadcast((1 << 40, 1 << 20))], "64 times the bytes"),
        (W, [Pad((0, 0, 0, 0), (8, 24, 3, 2), ZERO)], "padding that does not fit"),
        (W, [Pad((-1, 0, 0, 0), (8, 24, 3, 3), ZERO)], "padding that does not fit"),
        (W, [Pad((0, 0, 0), (8, 24, 3, 3), ZERO)], "padding that does not fit"),
        (W, [Pad((0, 0, 0, 0), (8, 24, 3, 3), b"\0")], "padding that does not fit"),
        (W, [Pad((0, 0, 0, 0), (1 << 40, 24, 3, 3), ZERO)], "64 times the bytes"),
        (W, [Cast("float64")] * (MOST_STEPS + 1), "16 steps"),
        (W, [Cast("uint8")], "cast between types"),
        (W, [FromBf16()], "bf16 of other than 16 bits"),
        (W, [Signed("uint16")], "signed numbers between types"),
        (Form((4,), np.dtype("uint32")), [Signed("float32")], "signed numbers between types"),
        (Form((4,), np.dtype("uint8")), [Signed("uint32")], "signed numbers between types"),
        (W, [Cast("float64"), Whole()], "not float32"),
        (Form((4,), np.dtype("uint32")), [Cast("float32")], "cast between types"),
        (Form((3,), np.dtype("uint32")), [Combine(0, ((1.0, 1.0, 1.0),))], "are no floats"),
        (Form((3,), np.dtype("complex64")), [], "type that has no steps"),
        (W, [Combine(4, FILTER)], "not there"),
        (W, [Combine(-1, FILTER)], "not there"),
        (W, [Combine(1, FILTER)], "matrix that does not fit"),
        (W, [Combine(2, ((1.0, 0.0),))], "matrix that does not fit"),
        (W, [Combine(2, ())], "impossible shape"),
        (W, [Combine(2, ((1.0, float("nan"), 1.0),))], "matrix that does not fit"),
        (W, [Combine(2, ((1.0, 1.0, 1.0),) * 200)], "matrix that does not fit"),
        (Form((0, 4), F32), [], "impossible shape"),
        (Form((1,) * 17, F32), [], "impossible shape"),
    ],
)
def test_steps_that_do_not_fit_are_refused(form, steps, reason):
    with pytest.raises(ValueError, match=reason):
        forms(form, steps)


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.pop(),
        lambda data: data.append(1),
        lambda data: data.__setitem__(0, "0"),
        lambda data: data.__setitem__(1, 1 << 70),
        lambda data: data.__setitem__(2, [1.5]),
        lambda data: data.__setitem__(3, "object"),
        lambda data: data.__setitem__(3, "<f4,O"),
        lambda data: data.__setitem__(3, ["float32"]),
        lambda data: data.__setitem__(4, [["eval", "1"]]),
        lambda data: data.__setitem__(4, [[[], 1]]),
        lambda data: data.__setitem__(4, [[]]),
        lambda data: data.__setitem__(4, [["reshape"]]),
        lambda data: data.__setitem__(4, [["reshape", [True]]]),
        lambda data: data.__setitem__(4, [["pad", [0], [1], "zz"]]),
        lambda data: data.__setitem__(4, [["pad", [0], [1], 7]]),
        lambda data: data.__setitem__(4, [["cast", None]]),
        lambda data: data.__setitem__(4, [["combine", 0, [[1, 2]]]]),
        lambda data: data.__setitem__(4, [["combine", 0, [["1.0"]]]]),
        lambda data: data.__setitem__(4, [["combine", 0, 3.0]]),
        lambda data: data.__setitem__(4, 3),
    ],
)
def test_data_of_other_types_is_refused(change):
    data = recipe(*WINOGRAD).data()
    change(data)
    with pytest.raises((KeyError, TypeError, ValueError)):
        recipes.decoded(data)


def test_halves_are_widened_as_numpy_does():
    """All 65,536 of them, and by what a file says."""
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    one = Recipe(0, 0, Form((1 << 16,), np.dtype(np.float16)), (Cast("float32"),), 0)
    again = recipes.decoded(json.loads(json.dumps(one.data())))
    with np.errstate(all="ignore"):
        expected = halves.astype(np.float32)
    assert whole(again.made(halves.view(np.uint8))).tobytes() == expected.tobytes()
