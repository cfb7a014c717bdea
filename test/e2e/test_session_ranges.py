"""Sessions that are called with sizes that nobody has told before: ranges of them, built as they
come, and what is kept. Compilations are counted, and builds waited for; no clock is asked."""

import gc
import os
import threading
import warnings

import numpy as np
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper

import rcompiler
from rcompiler.driver.program_worker import serve
from rcompiler.errors import CompilerError, DeviceError, RecompiledWarning, ShapeError

PRODUCT = """
  <ir_version: 8, opset_import: ["": 17]>
  g (float[n, 16] x) => (float[n, 8] y) { y = MatMul(x, w) }
"""
W = np.random.default_rng(0).standard_normal((16, 8)).astype(np.float32)


pytestmark = pytest.mark.usefixtures("shared_cache")


def product():
    model = onnx.parser.parse_model(PRODUCT)
    model.graph.initializer.append(numpy_helper.from_array(W, "w"))
    return model.SerializeToString()


def session(model=None, **options):
    return rcompiler.InferenceSession(product() if model is None else model, eus=1, **options)


def call(made, rows, seed=0):
    x = np.random.default_rng(seed).standard_normal((rows, 16)).astype(np.float32)
    (y,) = made.run(None, {"x": x})
    np.testing.assert_allclose(y, x @ W, 1e-4, 1e-4)
    return y


def builds(made):
    made._by_shape.ranges.model.wait()
    return [(build.sizes, build.state) for build in made._by_shape.ranges.model.builds]


def test_the_third_size_makes_a_range(compiled):
    """Which takes all that come then, in any order."""
    with session() as made:
        for turn in range(3):
            for rows in range(1, 11):
                call(made, rows, turn)
        assert len(compiled) == 3
        assert made.notes == ()
        shapes = [model.inputs[0].shape for model in made.programs]
        assert shapes[:3] == [(1, 16), (2, 16), (16, 16)]


def test_a_least_size_that_was_refused_is_not_tried_again():
    """Of 1 to 3 there is no window: what is built behind the first range leaves them out, too."""
    model = onnx.parser.parse_model("""
      <ir_version: 8, opset_import: ["": 17]>
      g (float[n, 1, w] x) => (float[n, 1, v] y) {
        y = MaxPool<kernel_shape=[4], strides=[4]>(x)
      }
    """)
    with session(model.SerializeToString()) as made:
        for n, w in ((1, 8), (1, 9), (1, 10), (2, 9), (3, 11)):
            x = np.random.default_rng(w).standard_normal((n, 1, w)).astype(np.float32)
            (y,) = made.run(None, {"x": x})
            whole = x[:, :, : w // 4 * 4].reshape(n, 1, -1, 4)
            np.testing.assert_array_equal(y, whole.max(-1))
        sizes = [each for each, _ in builds(made)]
        assert {"n": (1, 16), "w": (8, 32)} in sizes
        assert all(each["w"][0] == 8 for each in sizes)
        assert made.notes == ()


def test_sizes_near_the_end_of_a_range_have_the_next_one_built(compiled):
    with session() as made:
        for rows in (1, 9, 5):
            call(made, rows)
        assert builds(made) == [({"n": (1, 16)}, "built")]
        call(made, 13)
        assert builds(made) == [({"n": (1, 16)}, "built"), ({"n": (1, 32)}, "built")]
        call(made, 30)
        assert builds(made)[-1] == ({"n": (1, 64)}, "built")
        call(made, 60)
        assert len(compiled) == 3


def test_a_size_beyond_all_ranges_is_answered(compiled):
    """By a program for it, while one for a range that has it is built, which others wait for."""
    with session() as made:
        for rows in (1, 9, 5, 300):
            call(made, rows)
        assert len(compiled) == 4
        for rows in (290, 100, 310):
            call(made, rows)
        assert builds(made)[1] == ({"n": (1, 512)}, "built")
        assert len(compiled) == 4


def test_sizes_that_come_often_have_a_program_of_their_own(compiled):
    with session() as made:
        for rows in (8, 16, 3):
            call(made, rows)
        assert builds(made) == [({"n": (1, 32)}, "built")]
        for _ in range(64):
            call(made, 3)
        assert builds(made) == [({"n": (1, 32)}, "built"), ({"n": (3, 3)}, "built")]
        call(made, 3)
        model, _ = made.program({"x": np.zeros((3, 16), np.float32)})
        assert model.inputs[0].shape == (3, 16) and not any(model.inputs[0].extents)
        assert len(compiled) == 3


def test_many_sizes_of_a_part_of_a_range_have_a_program(compiled):
    with session() as made:
        for rows in (200, 100, 150):
            call(made, rows)
        assert builds(made) == [({"n": (1, 256)}, "built")]
        for turn in range(9):
            call(made, 34 + (7 * turn) % 27)  # none of them often, nor one after the other
        assert ({"n": (1, 64)}, "built") in builds(made)
        assert len(made.programs) <= 5 and len(compiled) == 3


@pytest.mark.parametrize("how", ["argument", "entry", "programs"])
def test_ranges_can_be_switched_off(compiled, how):
    options = rcompiler.SessionOptions()
    if how == "entry":
        options.add_session_config_entry("rcompiler.ranges", "0")
    given = {"argument": {"ranges": False}, "entry": {}, "programs": {"programs": 20}}[how]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = session(sess_options=options, **given)
        for _ in range(2):
            for rows in range(1, 6):
                call(made, rows)
    assert len(compiled) == 5
    assert [model.inputs[0].shape[0] for model in made.programs] == [1, 2, 3, 4, 5]
    made.close()


def test_bad_options_are_refused():
    for wrong in ({"ranges": 3}, {"keep_bytes": 0}, {"keep_bytes": 1.5}, {"programs": 0}):
        with pytest.raises(CompilerError, match=next(iter(wrong))):
            session(**wrong)
    options = rcompiler.SessionOptions()
    options.add_session_config_entry("rcompiler.ranges", "yes")
    with pytest.raises(CompilerError, match=r"rcompiler\.ranges.*'0' or '1'"):
        session(sess_options=options)


def test_what_is_kept_is_decided_by_bytes(compiled):
    """A program is dropped for others, and who compiles it again is told the remedy, once."""
    with session(ranges=False, keep_bytes=7 << 18) as made:
        for rows in (1, 2, 3):
            call(made, rows)
        assert len(made.programs) == 3
        call(made, 1)
        call(made, 4)
        assert [model.inputs[0].shape[0] for model in made.programs] == [3, 1, 4]
        with pytest.warns(RecompiledWarning, match=r"shapes=\{'batch': range") as told:
            call(made, 2)
            call(made, 3)
        assert len(told) == 1 and len(compiled) == 6


def test_as_many_programs_as_are_asked_for(compiled):
    with session(programs=2) as made:
        for rows in (1, 2, 3):
            call(made, rows)
        with pytest.warns(RecompiledWarning):
            call(made, 1)
        assert len(made.programs) == 2 and len(compiled) == 4


def test_a_model_that_is_refused_for_a_range_says_so(compiled):
    """And is compiled for each size, as without ranges."""
    model = onnx.parser.parse_model("""
      <ir_version: 8, opset_import: ["": 17]>
      g (float[n] x) => (float[2, m] y) <int64[2] s = {2, -1}> { y = Reshape(x, s) }
    """)
    with session(model.SerializeToString()) as made:
        for _ in range(2):
            for size in (2, 4, 8, 6):
                x = np.arange(size, dtype=np.float32)
                np.testing.assert_array_equal(made.run(None, {"x": x})[0], x.reshape(2, -1))
        [note] = made.notes
        assert "size of n has a program of its own" in note and "Reshape" in note
        exact = [asked["shapes"] for asked in compiled if isinstance(asked["shapes"], dict)]
        assert [asked["x"] for asked in exact] == [(2,), (4,), (8,), (6,)]


def test_a_table_of_positions_ends_a_range(compiled):
    """What is guessed beyond it is refused in silence, and not tried again."""
    model = onnx.parser.parse_model("""
      <ir_version: 8, opset_import: ["": 17]>
      g (float[b, n] x) => (float[b, n] y)
        <int64[1] zero = {0}, int64[1] at = {1}> {
          sizes = Shape(x)
          end = Gather(sizes, at)
          positions = Slice(table, zero, end)
          y = Add(x, positions)
      }
    """)
    table = np.arange(32, dtype=np.float32)
    model.graph.initializer.append(numpy_helper.from_array(table, "table"))
    with session(model.SerializeToString()) as made, warnings.catch_warnings():
        warnings.simplefilter("error")

        def add(batch, size):
            x = np.ones((batch, size), np.float32)
            np.testing.assert_array_equal(made.run(None, {"x": x})[0], x + table[:size])

        for size in (7, 20, 10, 31):  # near the end of the range: the next one is refused
            add(1, size)
        tried = [
            ({"b": (1, 1), "n": (1, 32)}, "built"),
            ({"b": (1, 1), "n": (1, 64)}, "failed"),
        ]
        assert builds(made) == tried
        add(1, 32)
        assert builds(made) == tried
        [note] = made.notes
        assert "no program for b from 1 to 1, n from 1 to 64" in note
        assert len(compiled) == 3
        for batch in (2, 3):
            add(batch, 32)
        found = builds(made)
        assert found[2:] == [({"b": (1, 16), "n": (32, 32)}, "built")]
        assert len(compiled) == 5


def test_a_range_begins_where_a_model_can(compiled):
    """Sizes below the first range have one of their own, from the least that was seen on."""
    model = onnx.parser.parse_model("""
      <ir_version: 8, opset_import: ["": 17]>
      g (float[1, 1, n] x) => (float[1, 1, m] y) { y = MaxPool<kernel_shape=[8]>(x) }
    """)
    with session(model.SerializeToString()) as made, warnings.catch_warnings():
        warnings.simplefilter("error")

        def pool(size):
            x = np.arange(size, dtype=np.float32).reshape(1, 1, -1)
            np.testing.assert_array_equal(made.run(None, {"x": x})[0], x[:, :, 7:])

        for size in (20, 30, 25):
            pool(size)
        assert builds(made) == [({"n": (20, 64)}, "built")]
        pool(12)
        assert builds(made)[1:] == [({"n": (12, 64)}, "built")]
        asked = len(compiled)
        for size in (14, 19, 12, 31):
            pool(size)
        assert len(compiled) == asked


def test_inputs_that_disagree_are_answered_as_without_ranges(compiled):
    """onnxruntime takes a row for an input whose dimension has the same name as four rows."""
    model = onnx.parser.parse_model("""
      <ir_version: 8, opset_import: ["": 17]>
      g (float[n, 3] x, float[n, 3] y) => (float[n, 3] z) { z = Add(x, y) }
    """)
    with session(model.SerializeToString()) as made:
        for rows in (1, 2, 3, 4):
            x = np.ones((rows, 3), np.float32)
            np.testing.assert_array_equal(made.run(None, {"x": x, "y": x})[0], 2 * x)
        assert len(compiled) == 3
        y = np.ones((1, 3), np.float32)
        np.testing.assert_array_equal(made.run(None, {"x": x, "y": y})[0], x + y)
        assert len(compiled) == 4
        with pytest.raises(ShapeError, match="float64"):
            made.run(None, {"x": x.astype(np.float64), "y": x})
        with pytest.raises(ShapeError, match="shape"):
            made.run(None, {"x": x[:, :2], "y": x})
        with pytest.raises(ShapeError, match="shape"):
            made.run(None, {"x": x[0], "y": x})
    assert len(compiled) == 4


def test_a_guess_that_was_wrong_is_made_again(compiled):
    """Squares alone at first: what is wider than high is no square, and has other ranges."""
    model = onnx.parser.parse_model("""
      <ir_version: 8, opset_import: ["": 17]>
      g (float[h, w] x) => (float[w, h] y) { y = Transpose(x) }
    """)
    with session(model.SerializeToString()) as made:
        sizes = [(2, 2), (3, 3), (4, 4), (9, 9), (5, 6), (7, 3), (1, 8)]
        for count, shape in zip((1, 2, 3, 3, 4, 4, 4), sizes, strict=True):
            x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
            np.testing.assert_array_equal(made.run(None, {"x": x})[0], x.T)
            assert len(compiled) == count


def decoder(total="all"):
    """One layer, as exporters write it: past and present are joined, a mask is as long as both."""
    text = """
      <ir_version: 8, opset_import: ["": 17]>
      g (float[b, s, 8] x, int64[b, ALL] mask, float[b, 2, past, 4] past_k)
        => (float[b, s, 8] y, float[b, 2, ALL, 4] present_k)
        <int64[4] heads = {0, 0, 2, 4}, int64[3] flat = {0, 0, 8}, int64[2] ones = {1, 2}> {
          h = Reshape(x, heads)
          q = Transpose<perm = [0, 2, 1, 3]>(h)
          present_k = Concat<axis = 2>(past_k, q)
          k = Transpose<perm = [0, 1, 3, 2]>(present_k)
          scores = MatMul(q, k)
          m = Cast<to = 1>(mask)
          m4 = Unsqueeze(m, ones)
          masked = Add(scores, m4)
          weights = Softmax<axis = -1>(masked)
          mixed = MatMul(weights, present_k)
          t = Transpose<perm = [0, 2, 1, 3]>(mixed)
          y = Reshape(t, flat)
      }
    """
    return onnx.parser.parse_model(text.replace("ALL", total)).SerializeToString()


def tokens(made, prompt, count, oracle=None):
    """A prompt, and tokens behind it: each result beside that of an oracle."""
    rng = np.random.default_rng(prompt)
    cache = np.zeros((1, 2, 0, 4), np.float32)
    for step in range(count):
        x = rng.standard_normal((1, prompt if step == 0 else 1, 8)).astype(np.float32)
        mask = np.zeros((1, cache.shape[2] + x.shape[1]), np.int64)
        feeds = {"x": x, "mask": mask, "past_k": cache}
        y, cache = made.run(None, feeds)
        assert cache.shape[2] == mask.shape[1]
        if oracle is not None:
            for got, want in zip((y, cache), oracle.run(None, feeds), strict=True):
                np.testing.assert_allclose(got, want, 1e-4, 1e-5)


@pytest.mark.parametrize("total", ["all", "past_and_new"])
def test_a_decoder_compiles_three_times(compiled, total):
    """A prompt, a token, and a range of lengths; further prompts find it there."""
    onnxruntime = pytest.importorskip("onnxruntime")
    oracle = onnxruntime.InferenceSession(decoder(total))
    with session(decoder(total)) as made:
        tokens(made, 5, 40, oracle)
        assert len(compiled) == 3
        found = builds(made)  # the next range was asked for when a quarter was used
        assert [sizes["past"] for sizes, _ in found] == [(1, 128), (1, 512)]
        tokens(made, 5, 140)
        assert len(compiled) == 3
        tokens(made, 7, 4, oracle)
        tokens(made, 9, 4, oracle)
        assert len(compiled) == 5  # a program for each prompt; behind the second there is a range
        assert builds(made)[-1] == ({"b": (1, 1), "s": (1, 32), "past": (0, 0)}, "built")
        tokens(made, 11, 4, oracle)
        assert len(compiled) == 5


MERGED = """
  <ir_version: 8, opset_import: ["": 17]>
  g (float[b, s, 16] x, float[b, all] mask, float[b, past, 16] old, bool[1] use)
    => (float[b, s, 16] y, float[b, all, 16] new) <int64[1] one = {1}> {
      y, new = If (use) <
        then_branch = g1 () => (float[b, s, 16] y1, float[b, all, 16] new1) {
          new1 = Concat <axis = 1> (old, x)
          KEYS1
        },
        else_branch = g2 () => (float[b, s, 16] y2, float[b, all, 16] new2) {
          new2 = Identity (x)
          KEYS2
        }>
  }
"""
KEYS = """
          turned# = Transpose <perm = [0, 2, 1]> (new#)
          scores# = MatMul (x, turned#)
          hidden# = Unsqueeze (mask, one)
          masked# = Add (scores#, hidden#)
          weights# = Softmax <axis = -1> (masked#)
          y# = MatMul (weights#, new#)"""


@pytest.mark.parametrize(("past", "programs"), [(0, 3), (1, 4)])
def test_a_merged_decoder(compiled, past, programs):
    """Its first call takes the branch without a past, of which there is none, or one that counts
    nothing; later ones have a range of lengths, for which that branch fits no call."""
    onnxruntime = pytest.importorskip("onnxruntime")
    text = MERGED
    for number in "12":
        text = text.replace(f"KEYS{number}", KEYS.replace("#", number))
    model = onnx.parser.parse_model(text).SerializeToString()
    oracle = onnxruntime.InferenceSession(model)
    rng = np.random.default_rng(0)
    with session(model) as made:
        old = np.zeros((1, past, 16), np.float32)
        total = 0
        for step in range(9):
            x = rng.standard_normal((1, 1 if step else 5, 16)).astype(np.float32)
            total += x.shape[1]
            feeds = {"x": x, "mask": np.zeros((1, total), np.float32), "old": old}
            feeds["use"] = np.array([step > 0])
            results = made.run(None, feeds)
            for got, want in zip(results, oracle.run(None, feeds), strict=True):
                np.testing.assert_allclose(got, want, 1e-4, 1e-5)
            old = results[1]
        assert made.notes == ()
        assert [each["past"] for each, _ in builds(made)][0] == (1, 128)
        assert len({*made.programs}) == len(builds(made)) + programs - 1


def test_a_decoder_without_prompt(compiled):
    with session(decoder()) as made:
        tokens(made, 1, 20)
        assert len(compiled) == 3


GROUPED = """
  <ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]>
  g (float[b, s, 64] q, float[b, s, 32] k, float[b, s, 32] v, float[b, 2, past, 16] past_k,
     float[b, 2, past, 16] past_v, int32[b] last, int32TOTAL total)
    => (float[b, s, 64] y, float[b, 2, all, 16] present_k, float[b, 2, all, 16] present_v) {
    y, present_k, present_v = com.microsoft.GroupQueryAttention
      <num_heads: int = 4, kv_num_heads: int = 2> (q, k, v, past_k, past_v, last, total)
  }
"""


@pytest.mark.parametrize("rank", [0, 1])
def test_a_cache_that_grows_by_a_total_length(compiled, rank):
    """GroupQueryAttention whose total length is an input, which is how long its cache becomes."""
    onnxruntime = pytest.importorskip("onnxruntime")
    model = onnx.parser.parse_model(GROUPED.replace("TOTAL", "[1]" if rank else ""))
    if not rank:
        model.graph.input[6].type.tensor_type.shape.SetInParent()
    oracle = onnxruntime.InferenceSession(model.SerializeToString())
    rng, length = np.random.default_rng(0), 0
    k = v = np.zeros((1, 2, 0, 16), np.float32)
    with session(model.SerializeToString()) as made:
        for steps in (5, 1, 1, 1, 1, 1):
            length += steps
            parts = [rng.standard_normal((1, steps, n)).astype(np.float32) for n in (64, 32, 32)]
            feeds = dict(zip("qkv", parts, strict=True))
            feeds |= {"past_k": k, "past_v": v, "last": np.int32([length - 1])}
            feeds["total"] = np.full((1,) * rank, length, np.int32)
            y, k, v = made.run(None, feeds)
            for got, want in zip((y, k, v), oracle.run(None, feeds), strict=True):
                np.testing.assert_allclose(got, want, 1e-4, 1e-5)
        assert len(compiled) == 3


def test_values_that_decide_shapes_go_with_ranges(compiled):
    """The target of a Reshape: a program for each value, and sizes beside it within ranges."""
    model = helper.make_model(
        helper.make_graph(
            [
                helper.make_node("Reshape", ["w", "s"], ["r"]),
                helper.make_node("MatMul", ["x", "r"], ["y"]),
            ],
            "g",
            [
                helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 16]),
                helper.make_tensor_value_info("s", TensorProto.INT64, [2]),
            ],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", None])],
            [numpy_helper.from_array(W, "w")],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    with session(model.SerializeToString()) as made:
        for rows in (1, 2, 3, 4, 5):
            x = np.ones((rows, 16), np.float32)
            (y,) = made.run(None, {"x": x, "s": np.int64([16, 8])})
            np.testing.assert_allclose(y, x @ W, 1e-4, 1e-4)
        asked = len(compiled)
        (y,) = made.run(None, {"x": x, "s": np.int64([16, -1])})
        np.testing.assert_allclose(y, x @ W, 1e-4, 1e-4)
        assert asked == 4 and len(compiled) == 5  # one to learn that the value is needed


def test_bound_inputs_and_outputs(compiled):
    with session() as made:
        for rows in (1, 2, 3):
            call(made, rows)
        for rows in (7, 4):
            x, into = np.ones((rows, 16), np.float32), np.zeros((rows, 8), np.float32)
            bound = made.io_binding()
            bound.bind_cpu_input("x", x)
            bound.bind_output("y")
            made.run_with_iobinding(bound)
            np.testing.assert_allclose(bound.copy_outputs_to_cpu()[0], x @ W, 1e-4, 1e-4)
            bound.bind_ortvalue_output("y", rcompiler.OrtValue(into))
            made.run_with_iobinding(bound)
            np.testing.assert_allclose(into, x @ W, 1e-4, 1e-4)
            bound.bind_ortvalue_output("y", rcompiler.OrtValue(into[1:]))
            with pytest.raises(ShapeError, match="is bound to"):
                made.run_with_iobinding(bound)
        value = rcompiler.OrtValue(np.ones((5, 16), np.float32))
        (y,) = made.run_with_ort_values(["y"], {"x": value})
        np.testing.assert_allclose(y.numpy(), value.numpy() @ W, 1e-4, 1e-4)
        assert len(compiled) == 3


def test_calls_from_several_threads(compiled):
    """Of all sizes from the start: each is right, and one thread compiles at a time."""
    wrong = []
    with session() as made:

        def work(first):
            try:
                for turn in range(3):
                    for rows in range(first, first + 6):
                        call(made, rows, turn)
            except (AssertionError, CompilerError) as error:
                wrong.append(error)

        threads = [threading.Thread(target=work, args=(first,)) for first in (1, 3, 5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong
        assert len(compiled) <= 5  # calls that wait for one may have asked for their own before


def workers():
    """Processes that build programs."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    parent = int(file.read().rpartition(b")")[2].split()[1])
                with open(f"/proc/{name}/cmdline", "rb") as file:
                    if parent == os.getpid() and serve.__module__.encode() in file.read():
                        found.append(int(name))
            except OSError:
                pass
    return found


@pytest.mark.parametrize("how", ["close", "delete"])
def test_a_session_that_ends_while_it_builds_leaves_nothing(how):
    before = {*workers()}
    made = session()
    for rows in (1, 9, 5, 13):
        call(made, rows)  # the last one asks for the next range
    growth = made._by_shape.ranges.model.growth
    thread = growth._thread
    if how == "close":
        made.close()
        with pytest.raises(DeviceError, match="closed"):
            call(made, 5)
        with pytest.raises(DeviceError, match="closed"):
            call(made, 5000)
    del made
    gc.collect()
    if thread is not None:
        thread.join(60)
        assert not thread.is_alive()
    assert {*workers()} <= before


def test_forked_children_go_on():
    """Whatever the thread that builds is doing, and whatever locks it holds."""
    with session() as made:
        for rows in (1, 9, 5, 13):
            call(made, rows)
        for _ in range(4):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of Python, that a process with threads forks
                pid = os.fork()
            if not pid:
                status = 1
                try:
                    for rows in (6, 9, 2, 14):
                        call(made, rows)
                    status = 0
                finally:
                    os._exit(status)
            assert os.waitpid(pid, 0)[1] == 0
        call(made, 11)
        builds(made)


def test_results_are_those_of_exact_programs():
    """Up to the rounding of sums that are cut in another way."""
    with session() as made, session(ranges=False) as exact:
        for rows in (1, 2, 3, 7, 3, 16):
            np.testing.assert_allclose(call(made, rows), call(exact, rows), 1e-6, 1e-6)
