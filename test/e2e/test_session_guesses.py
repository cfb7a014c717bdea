"""Sessions of models in which numbers decide sizes and trip counts: values that programs are
compiled for, and guesses of how many there are, which calls may have made greater. Beside
onnxruntime."""

import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import onnx.parser
import onnxruntime
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from speech import letters, text_to_speech

import rcompiler
from rcompiler.errors import RangeError, RecompiledWarning, ShapeError

F = np.float32


pytestmark = pytest.mark.usefixtures("shared_cache")


def guessed(compiled):
    """The bounds that were asked for, where there were any."""
    return [options["bounds"] for options in compiled if options.get("bounds")]


def text(body):
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 18]>\n{body}')
    return model.SerializeToString()


def by_onnxruntime(model):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def agree(model, draws, made=None, **options):
    """The session answers as onnxruntime does; warnings are for who calls."""
    made = made or rcompiler.InferenceSession(model, eus=1, **options)
    wanted = by_onnxruntime(model)
    for feeds in draws:
        for found, right in zip(made.run(None, feeds), wanted.run(None, feeds), strict=True):
            assert (found.shape, found.dtype) == (right.shape, right.dtype)
            np.testing.assert_allclose(found, right, 1e-4, 1e-5)
    return made


# -- values ----------------------------------------------------------------------------------------
def sizes_of_a_mask():
    """As SAM resizes its masks to the image, whose sizes are two floats."""
    return text("""
      g (float[1, 1, 8, 8] x, float[2] size) => (float[1, 1, h, w] y) <int64[2] ones = {1, 1}> {
        whole = Cast<to=7>(size)
        sizes = Concat<axis=0>(ones, whole)
        y = Resize<mode="linear", coordinate_transformation_mode="half_pixel">(x, , , sizes)
      }
    """)


def test_a_few_floats_decide_a_program(compiled):
    x = np.random.default_rng(0).standard_normal((1, 1, 8, 8)).astype(F)
    draws = [{"x": x, "size": F(size)} for size in ((5, 7), (12, 9), (5, 7))]
    made = agree(sizes_of_a_mask(), draws)
    assert [model.outputs[0].shape for model in made.programs] == [(1, 1, 12, 9), (1, 1, 5, 7)]
    assert made.notes == ("each value of 'size' has a program of its own, as shapes depend on it",)


def decided(nodes, kind, shape):
    """An image, and numbers that decide what becomes of it."""
    model = onnx.parser.parse_model(f"""
      <ir_version: 8, opset_import: ["": 18, "com.microsoft": 1]>
      g (float[1, 2, 4, 6] x, {kind}[{shape}] k) => (float y) <float seven = {{7}}> {{ {nodes} }}
    """)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    return model.SerializeToString()


DECIDED = {
    "scales": ("y = Resize<mode='linear'>(x, , k)", "float", [[1, 1, 2, 0.5], [1, 1, 1.5, 1]]),
    "pads": ("y = Pad(x, k)", "int64", [[0, 0, 1, 2, 0, 0, 0, 3], [0] * 8]),
    "pads of a function": (
        "y = com.microsoft.Pad(x, k, seven)", "int64", [[0, 0, 1, 2, 0, 0, 0, 3], [0] * 8]
    ),
    "k": ("y, i = TopK(x, k)", "int64", [[2], [3]]),
    "repeats": ("y = Tile(x, k)", "int64", [[1, 2, 1, 1], [2, 1, 1, 3]]),
    "repeats that are floats": (
        "r = Cast<to=7>(k) y = Tile(x, r)", "float", [[1, 2, 1, 1], [2, 1, 1, 3]]
    ),
}  # fmt: skip


@pytest.mark.parametrize(("nodes", "kind", "draws"), DECIDED.values(), ids=DECIDED)
def test_numbers_that_decide_what_operators_make(nodes, kind, draws):
    x = np.random.default_rng(0).standard_normal((1, 2, 4, 6)).astype(F)
    numbers = [np.array(draw, {"float": F, "int64": np.int64}[kind]) for draw in draws]
    model = decided(nodes.replace("'", '"'), kind, len(draws[0]))
    made = agree(model, [{"x": x, "k": each} for each in (*numbers, numbers[0])])
    assert len(made.programs) <= len(draws)
    assert sum(np.prod(p.outputs[0].shape) for p in made.programs) < 1000


# -- guesses ---------------------------------------------------------------------------------------
def steps():
    return text("g (float[] end) => (float[n] y) <float z = {0}, float one = {1}> {\n"
                "y = Range(z, end, one) }")  # fmt: skip


def test_a_guess_is_made_greater_by_the_call_that_finds_more(compiled):
    made = rcompiler.InferenceSession(steps(), eus=1)
    ends = [np.array(end, F) for end in (8.5, 3, 0, 64)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        agree(steps(), [{"end": end} for end in ends], made)
    with pytest.warns(RecompiledWarning, match=r"a call has 100 of 'y', .* room for 128; bounds="):
        agree(steps(), [{"end": np.array(100, F)}], made)
    with warnings.catch_warnings():  # it is said once
        warnings.simplefilter("error")
        agree(steps(), [{"end": np.array(end, F)} for end in (9000, 100, 1, 8000)], made)
    guesses = [bounds["y"] for bounds in guessed(compiled)]
    assert guesses == [64, 128, 16384]
    assert len(made.programs) == 1
    assert made.notes == (
        "'y' has room for 16384, which is a guess: nothing in the model bounds it, and a call had "
        "9000; bounds={'y': ...} says how many there may be",
    )


def test_a_call_for_more_than_there_can_be_leaves_the_others_alone(compiled):
    made = rcompiler.InferenceSession(steps(), eus=1)
    agree(steps(), [{"end": np.array(5, F)}], made)
    with pytest.warns(RecompiledWarning), pytest.raises(ShapeError, match="larger than 64 GiB"):
        made.run(None, {"end": np.array(1e12, F)})
    agree(steps(), [{"end": np.array(7, F)}], made)
    assert compiled[-1]["bounds"] == {"y": 64}


def test_what_a_caller_bounds_is_no_guess():
    made = rcompiler.InferenceSession(steps(), eus=1, bounds={"y": 10})
    agree(steps(), [{"end": np.array(10, F)}], made)
    with pytest.raises(RangeError, match="found 11 elements, more than the 10") as caught:
        made.run(None, {"end": np.array(11, F)})
    assert (caught.value.bound, caught.value.found) == ("y", 11)


def halving():
    """A loop that only what it computes ends."""
    return text("""
      g (float[n] x) => (float[n] y, int64 count)
      <float half = {0.5}, float one = {1}, int64 zero = {0}, int64 step = {1}> {
        top = ReduceMax<keepdims=0>(x)
        again = Greater(top, one)
        y, count = Loop(, again, x, zero) <
          body = b (int64 i, bool c, float[n] v, int64 k) => (bool more, float[n] w, int64 l) {
            w = Mul(v, half)
            next = ReduceMax<keepdims=0>(w)
            more = Greater(next, one)
            l = Add(k, step)
          }
        >
      }
    """)


@pytest.mark.filterwarnings("ignore::rcompiler.errors.RecompiledWarning")
def test_a_loop_that_numbers_end(compiled):
    draws = [{"x": F([0.1, top, -3])} for top in (9, 0.5, 2.0**14, 2.0**40, 5)]
    made = agree(halving(), draws)
    (name,) = {name for bounds in guessed(compiled) for name in bounds}
    assert [bounds[name] for bounds in guessed(compiled)] == [16, 32, 64]
    assert len(made.programs) == 1


@pytest.mark.filterwarnings("ignore::rcompiler.errors.RecompiledWarning")
def test_programs_for_several_shapes_share_a_guess(compiled):
    body = """
      g (float[n] x) => (float[k] y, float[n] z) <float a = {0}, float one = {1}> {
        total = ReduceSum<keepdims=0>(x)
        y = Range(a, total, one)
        z = Neg(x)
      }
    """
    draws = [{"x": np.full(size, level, F)} for size in (2, 3, 2, 5, 7, 9) for level in (1, 40)]
    made = agree(text(body), draws)
    assert all(model.outputs[0].shape[0] >= 128 for model in made.programs)


@pytest.mark.filterwarnings("ignore::rcompiler.errors.RecompiledWarning")
def test_calls_from_several_threads_find_more():
    made = rcompiler.InferenceSession(steps(), eus=1)
    wrong = []

    def calls(ends):
        for end in ends:
            try:
                (y,) = made.run(None, {"end": np.array(end, F)})
                if not np.array_equal(y, np.arange(end, dtype=F)):
                    wrong.append(end)
            except Exception as error:
                wrong.append(error)

    threads = [threading.Thread(target=calls, args=([3, size, 7],)) for size in (70, 500, 300, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    # by 300 it may have become 512 before 500 was looked at, which then fits
    assert max(model.outputs[0].shape for model in made.programs) in ((512,), (1024,))


@pytest.mark.filterwarnings("ignore::rcompiler.errors.RecompiledWarning")
def test_bound_outputs_of_a_call_that_finds_more():
    made = rcompiler.InferenceSession(steps(), eus=1)
    binding = made.io_binding()
    binding.bind_cpu_input("end", np.array(70, F))
    binding.bind_output("y")
    made.run_with_iobinding(binding)
    np.testing.assert_array_equal(binding.get_outputs()[0].numpy(), np.arange(70, dtype=F))


def test_values_where_a_guess_does_not_do():
    """`Split` in equal parts is not translated for sizes of the run time."""
    model = text("""
      g (float[] end) => (float[a] y, float[b] z) <float f = {0}, float one = {1}> {
        r = Range(f, end, one)
        y, z = Split<num_outputs=2>(r)
      }
    """)
    made = agree(model, [{"end": np.array(end, F)} for end in (8, 6)])
    assert [model.outputs[0].shape for model in made.programs] == [(4,), (3,)]


@pytest.mark.parametrize("transposed", [True, False], ids=["ConvTranspose", "channels"])
@pytest.mark.filterwarnings("ignore::rcompiler.errors.RecompiledWarning")
def test_a_network_from_text_to_speech(transposed, compiled):
    """How long speech is depends on durations that the network computes."""
    model = text_to_speech(transposed=transposed).SerializeToString()
    calls = [(1, 12, 1.0), (1, 20, 1.5), (2, 7, 0.7), (1, 12, 4.0), (1, 9, 1.0), (1, 21, 0.8)]
    draws = [letters(*each, seed=seed) for seed, each in enumerate(calls)]
    wanted, made = by_onnxruntime(model), rcompiler.InferenceSession(model, eus=1)
    lengths = set()
    for feeds in draws:
        found, right = made.run(None, feeds), wanted.run(None, feeds)
        lengths.add(right[0].shape)
        np.testing.assert_array_equal(found[1], right[1])
        assert found[0].shape == right[0].shape
        np.testing.assert_allclose(found[0], right[0], 1e-3, 1e-4)
    assert len(lengths) == len(draws)
    assert len(compiled) < 2 * len(draws)


def regions(size, mode="avg", half="half_pixel"):
    """Adaptive sampling: as many points in a bin as pixels of the region are."""
    return text(f"""
      g (float[2, 3, {size}, {size}] x, float[k, 4] rois, int64[k] batch)
      => (float[k, 3, 4, 2] y) {{
        y = RoiAlign<output_height=4, output_width=2, sampling_ratio=0, spatial_scale=0.5,
                     mode="{mode}", coordinate_transformation_mode="{half}">(x, rois, batch)
      }}
    """)  # fmt: skip


def drawn_regions(size, *boxes):
    x = np.random.default_rng(3).standard_normal((2, 3, size, size)).astype(F)
    return {"x": x, "rois": F(boxes), "batch": np.arange(len(boxes)) % 2}


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("half", ["half_pixel", "output_half_pixel"])
def test_regions_of_the_run_time_are_sampled_as_densely_as_they_are_large(mode, half, compiled):
    small = drawn_regions(12, [0, 0, 9, 9], [2.3, 1.1, 7.7, 23], [4, 4, 4, 4])
    if mode == "max":  # which onnxruntime takes of weighted corners, see its #6146
        (found,) = rcompiler.InferenceSession(regions(12, mode, half), eus=1).run(None, small)
        known = {**small, "rois": small["rois"]}
        values = {"rois": known["rois"], "batch": known["batch"]}
        fixed = rcompiler.compile_onnx(regions(12, mode, half), eus=1, values=values)
        np.testing.assert_allclose(found, fixed(small["x"])[0], 1e-6)
        return
    agree(regions(12, mode, half), [small, drawn_regions(12, [1, 3, 20, 11])])
    assert not guessed(compiled)


@pytest.mark.filterwarnings("ignore::rcompiler.errors.RecompiledWarning")
def test_large_regions_want_more_points_than_are_guessed(compiled):
    draws = [drawn_regions(40, [0, 0, 9, 9]), drawn_regions(40, [0, 0, 79, 79], [5, 5, 80, 90])]
    made = agree(regions(40), [*draws, draws[0]])
    # for one region, for two, with more rows, with more columns, and for one again
    assert [bounds["y"] for bounds in guessed(compiled)] == [8, 8, 16, 32, 32]
    (y,) = made.run(None, draws[0])
    assert y.shape == (1, 3, 4, 2)


def test_regions_beyond_the_image_are_sampled_too():
    model, draws = regions(12), [drawn_regions(12, [-30, -5, 60, 9], [0, 0, 9, 9])]
    bound = rcompiler.compile_onnx(model, eus=1, shapes={"k": 2})
    with pytest.raises(RangeError, match=r"a region of \d+ points .* bounds=\{'y': ...\}"):
        bound(*draws[0].values())
    with pytest.warns(RecompiledWarning):
        agree(model, draws)
