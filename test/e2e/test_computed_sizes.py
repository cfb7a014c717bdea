"""Sizes that numbers decide which a model computes, or is given: ConstantOfShape, Expand, Tile,
Reshape and Range beside onnxruntime."""

import sys
from pathlib import Path

import numpy as np
import onnx.parser
import onnxruntime
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from poisoned import poison
from sized import sized_answers

import rcompiler
from rcompiler.errors import RangeError, ShapeError, UnsupportedOp
from rcompiler.frontend import import_onnx

F = np.float32


pytestmark = pytest.mark.usefixtures("shared_cache")


def text(body):
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 18]>\n{body}')


def by_onnxruntime(model):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    providers = ["CPUExecutionProvider"]
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=providers)


def same(found, wanted):
    for one, other in zip(found, wanted, strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        np.testing.assert_allclose(one, other, 1e-5, 1e-6)


def agree(model, draws, **options):
    """Compiled, and run in S1 with poison in all that is not there."""
    made, wanted = rcompiler.compile_onnx(model, eus=1, **options), by_onnxruntime(model)
    with poison():
        imported = import_onnx(model, limits=options.get("bounds"))
    for feeds in draws:
        right = wanted.run(None, feeds)
        same(made(feeds), right)
        answers, wrong = sized_answers(imported, feeds, {})
        assert not any(map(int, wrong))
        same(answers, right)
    return made


# How long things are is the sum of durations, which are clipped.
LENGTH = """
  clipped = Clip(d, zero, most)
  total = ReduceSum<keepdims=1>(clipped)
"""


def of_length(nodes, outputs, weights=""):
    return text(f"""
      g (int64[3] d, float[1, 1, 2] x) => ({outputs})
      <int64 zero = {{0}}, int64 most = {{5}}, int64 one = {{1}}, int64[1] two = {{2}},
       int64[1] last = {{-1}}{weights}> {{
        {LENGTH}{nodes}
      }}
    """)


def durations():
    x = np.random.default_rng(0).standard_normal((1, 1, 2)).astype(F)
    for d in ([1, 2, 3], [0, 0, 0], [9, -4, 1], [5, 5, 5]):
        yield {"d": np.int64(d), "x": x}


SHAPED = {
    "ConstantOfShape": "shape = Concat<axis=0>(two, total)  y = ConstantOfShape(shape)",
    "Expand": "shape = Concat<axis=0>(two, total, two)  y = Expand(x, shape)",
    "Tile": "ones = Concat<axis=0>(two, total, two)  y = Tile(x, ones)",
    "of a whole shape": "shape = Mul(total, two)  y = ConstantOfShape(shape)",
    "in the idiom of exporters": """
      wild = Concat<axis=0>(two, total, last)
      minus = Equal(wild, last)
      plain = ConstantOfShape<value=int64[1] {1}>(three)
      shape = Where(minus, plain, wild)
      y = Expand(x, shape)""",
    "of arithmetic": """
      next = Add(total, two)
      twice = Mul(next, two)
      flat = Squeeze(twice)
      again = Unsqueeze(flat, at)
      shape = Concat<axis=0>(again, total)
      y = ConstantOfShape(shape)""",
}


@pytest.mark.parametrize("nodes", SHAPED.values(), ids=SHAPED)
def test_shapes_of_bounded_numbers_need_no_bound(nodes):
    weights = ", int64[1] three = {3}, int64[1] at = {0}"
    made = agree(of_length(nodes, "float[...] y".replace("[...]", ""), weights), durations())
    assert max(made.outputs[0].shape) <= 34


def test_what_one_number_decides_is_of_one_size():
    """A tensor of zeros and a range are added, as exporters write positions."""
    nodes = """
      zeros = ConstantOfShape<value=int64[1] {3}>(total)
      n = Squeeze(total)
      places = Range(zero, n, one)
      y = Add(zeros, places)
      wide = Concat<axis=0>(two, total)
      spread = Expand(places, wide)
      z = Mul(spread, y)
    """
    agree(of_length(nodes, "int64[n] y, int64[m, n] z"), durations())


def test_a_shape_that_follows_from_the_elements():
    nodes = """
      zeros = ConstantOfShape<value=int64[1] {3}>(total)
      wide = Concat<axis=0>(two, total)
      spread = Expand(zeros, wide)
      twice = Mul(total, two)
      y = Reshape(spread, twice)
      half = Concat<axis=0>(total, two)
      z = Reshape(spread, half)
    """
    draws = [feeds for feeds in durations() if feeds["d"].any()]  # 0 is a dimension that is copied
    made = agree(of_length(nodes, "int64[n] y, int64[n, m] z"), draws)
    assert made.outputs[0].shape == (30,)


def given(op="y = ConstantOfShape(n)"):
    return text(f"g (int64[k] d) => (float[n] y) <int64[1] zero = {{0}}> {{\n"
                f"n = ReduceMax(d, zero)  {op} }}")  # fmt: skip


def test_numbers_without_bounds_want_one():
    shapes = {"k": 3}
    with pytest.raises(UnsupportedOp, match=r"unless bounds=\{'y': ...\} does") as caught:
        rcompiler.compile_onnx(given(), shapes=shapes)
    assert caught.value.gap.bounds == ("y",)
    made = rcompiler.compile_onnx(given(), eus=1, shapes=shapes, bounds={"y": 6})
    for d in ([1, 2, 3], [0, -1, -2], [6, 0, 0]):
        assert made(np.int64(d))[0].shape == (max(d),)
    with pytest.raises(RangeError, match="found 7 elements, more than the 6 that bounds") as caught:
        made(np.int64([7, 0, 1]))
    assert (caught.value.bound, caught.value.found) == ("y", 7)
    with pytest.raises(RangeError, match="is to make -2 elements along an axis"):
        made(np.int64([-7, -2, -3]))


def test_a_shape_that_does_not_fit_the_elements():
    model = text("""
      g (int64[3] d, float[2, 6] x) => (float[n, m] y) <int64[1] two = {2}> {
        n = ReduceMax(d)
        shape = Concat<axis=0>(n, two)
        y = Reshape(x, shape)
      }
    """)
    made = rcompiler.compile_onnx(model, eus=1)
    x = np.arange(12, dtype=F).reshape(2, 6)
    np.testing.assert_array_equal(made(np.int64([1, 6, 2]), x)[0], x.reshape(6, 2))
    np.testing.assert_array_equal(made(np.int64([-3, -1, -2]), x)[0], x.reshape(6, 2))
    with pytest.raises(RangeError, match="elements that do not fit the shape"):
        made(np.int64([1, 5, 2]), x)


def test_a_session_guesses_how_large_shapes_are():
    made, wanted = rcompiler.InferenceSession(given().SerializeToString()), by_onnxruntime(given())
    with pytest.warns(rcompiler.errors.RecompiledWarning, match="room for 128"):
        for d in (range(17), [*range(16), 70], range(60)):
            feeds = {"d": np.int64(d)}
            same(made.run(None, feeds), wanted.run(None, feeds))
    assert {model.outputs[0].shape for model in made.programs} == {(128,)}


def test_many_values_of_a_few_integers_make_a_guess():
    """The first ones have a program each, which has no room that a call does not need."""
    made, wanted = rcompiler.InferenceSession(given().SerializeToString()), by_onnxruntime(given())
    for n in range(9):
        feeds = {"d": np.int64([n, 3])}
        same(made.run(None, feeds), wanted.run(None, feeds))
        shapes = [model.outputs[0].shape for model in made.programs]
        assert shapes == ([(max(3, k),) for k in range(n + 1)] if n < 4 else [(64,)])


def test_values_are_kept_where_a_guess_does_not_do():
    halves = "zeros = ConstantOfShape(n) y, z = Split<num_outputs=2>(zeros)"
    model = given(halves)
    made, wanted = rcompiler.InferenceSession(model.SerializeToString()), by_onnxruntime(model)
    for n in (2, 4, 6, 8, 10, 12, 14):
        feeds = {"d": np.int64([n, 1])}
        same(made.run(None, feeds), wanted.run(None, feeds))
    assert not any("guess" in note for note in made.notes)


def test_a_shape_beyond_all_memory_is_refused():
    with pytest.raises(ShapeError, match="larger than 64 GiB"):
        rcompiler.compile_onnx(given(), shapes={"k": 3}, bounds={"y": 1 << 50})


def test_windows_over_a_length_that_may_be_none():
    nodes = """
      shape = Concat<axis=0>(wide, total)
      images = ConstantOfShape<value=float[1] {2}>(shape)
      y = Conv<pads=[1, 1]>(images, kernel)
      z = Conv<pads=[3, 3], strides=[2]>(images, broad)
    """
    weights = """, int64[2] wide = {1, 2}, float[1, 2, 3] kernel = {1, 2, 3, 4, 5, 6},
      float[1, 2, 5] broad = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}"""
    draws = [feeds for feeds in durations() if feeds["d"].any()]
    model = of_length(nodes, "float[a, b, n] y, float[a, b, m] z", weights)
    made = agree(model, draws)
    (nothing,) = (made(*feeds.values()) for feeds in durations() if not feeds["d"].any())
    assert nothing[0].shape == (1, 1, 0)


def test_a_window_longer_than_the_least_length_is_refused():
    nodes = """
      shape = Concat<axis=0>(wide, total)
      images = ConstantOfShape<value=float[1] {2}>(shape)
      y = Conv(images, kernel)
    """
    weights = ", int64[2] wide = {1, 2}, float[1, 2, 3] kernel = {1, 2, 3, 4, 5, 6}"
    with pytest.raises(UnsupportedOp, match="there may be no window"):
        rcompiler.compile_onnx(of_length(nodes, "float[a, b, n] y", weights))


def regulated(nodes):
    """Durations that floats say, clipped, as of networks from text to speech."""
    return text(f"""
      g (float[5] x) => (float[a, b] y, int64[n] z)
      <float low = {{0}}, float high = {{6}}, float scale = {{1.5}}, int64 zero = {{0}},
       int64 one = {{1}}, int64[1] at = {{0}}, int64[1] three = {{3}}> {{
        grown = Exp(x)
        whole = Round(grown)
        clipped = Clip(whole, low, high)
        longer = Mul(clipped, scale)
        up = Ceil(longer)
        d = Cast<to=7>(up)
        total = ReduceSum<keepdims=0>(d)
        ends = CumSum(d, zero)
        {nodes}
      }}
    """)


REGULATED = {
    "sum": """z = Range(zero, total, one)
        places = Unsqueeze(z, at)
        last = Unsqueeze(ends, axis)
        there = Less(places, last)
        y = Cast<to=1>(there)""",
    "last of the running sum": """
        n = Gather(ends, index)
        shape = Reshape(n, flat)
        wide = Concat<axis=0>(three, shape)
        y = ConstantOfShape(wide)
        z = Range(zero, n, one)""",
    "limits that are floats": """
        wide = ReduceSum<keepdims=0>(up)
        f = Range(low, wide, half)
        z = Cast<to=7>(f)
        y = Unsqueeze(f, at)""",
}


@pytest.mark.parametrize("nodes", REGULATED.values(), ids=REGULATED)
def test_clipped_floats_say_how_much_room_there_is(nodes):
    model = regulated(nodes)
    for name, number in (("axis", [1]), ("index", -1), ("flat", [-1]), ("half", F(0.5))):
        array = np.asarray(number) if name == "half" else np.int64(number)
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    draws = np.random.default_rng(5).standard_normal((4, 5)).astype(F) * F([[0.2], [1], [2], [9]])
    made = agree(model, [{"x": x} for x in draws])
    assert max(made.outputs[0].shape) <= 90


def test_what_is_likely_is_looked_at():
    """NaN is in no interval: what a cast makes of it is any integer."""
    model = text("""
      g (float[1] x) => (float[n] y) <float low = {0}, float high = {6}> {
        clipped = Clip(x, low, high)
        n = Cast<to=7>(clipped)
        y = ConstantOfShape(n)
      }
    """)
    made = rcompiler.compile_onnx(model, eus=1)
    assert made.outputs[0].shape == (6,)
    for x in (-1, 2.5, 70):
        assert made(F([x]))[0].shape == (int(np.clip(x, 0, 6)),)
    try:
        (y,) = made(F([np.nan]))
    except RangeError as error:
        assert "ConstantOfShape" in str(error)
    else:
        assert y.size <= 6


def test_three_small_numbers_have_a_least_and_a_greatest():
    """Of a few integers each may be a size: operators of any number of operands, too."""
    model = text("""
      g (int64[2] a, int64[2] b, int64[2] c) => (int64[2] y, int64[2] z) {
        y = Min(a, b, c)
        z = Max(c, a, b)
      }
    """)
    made = rcompiler.compile_onnx(model, eus=1)
    given = [np.int64(x) for x in ([3, -4], [2, 9], [7, -8])]
    y, z = made(*given)
    assert (y.tolist(), z.tolist()) == ([2, -8], [7, 9])


def test_a_zero_in_a_shape_takes_the_size_that_is_there():
    """As of a number that decides how much there is."""
    model = text("""g (int64[1] n) => (float[m] y)
      <int64[2] column = {0, 1}, int64[1] one = {1}, int64 least = {0}, int64 most = {8}> {
        count = Clip(n, least, most)
        table = Reshape(count, column)
        shape = Squeeze(table, one)
        y = ConstantOfShape(shape)
    }""")
    agree(model, [{"n": np.array([count])} for count in (3, 0, 8)])


def test_a_count_beside_a_number_is_refused_as_a_size_at_run_time():
    """It may be one, and repeated; the model is not wrong."""
    model = text("""g (float[8] x, int64[1] k, float[5] z) => (float[c] y, int64[c] i) {
        v, i = TopK(x, k)
        y = Add(v, z)
    }""")
    with pytest.raises(UnsupportedOp, match="one in some calls only"):
        rcompiler.compile_onnx(model)
    made = rcompiler.compile_onnx(model, values={"k": np.array([5])}, cache=False)
    x, z = np.arange(8, dtype=F), np.ones(5, F)
    np.testing.assert_array_equal(made(x=x, z=z)[0], [8, 7, 6, 5, 4])


def test_a_slice_of_sizes_along_a_matrix_of_axes_is_left_to_its_lowering():
    """What computes on sizes does not know it, and says nothing; the lowering takes it."""
    model = text("""g (float[n, 4] x) => (float[m] y)
      <int64[1] start = {0}, int64[1] end = {1}, int64[1, 1] axes = {0}> {
        sizes = Shape(x)
        shape = Slice(sizes, start, end, axes)
        y = ConstantOfShape(shape)
    }""")
    assert import_onnx(model, shapes={"n": range(1, 9)}).outputs
