"""Models whose sizes are known at run time: compiled once, called with arrays of any size.

What lies behind the numbers of a caller is NaN here, or the least integer: none of it may leak.
"""

import copy
import itertools
import re
from dataclasses import replace

import numpy as np
import pytest
import sized_networks
from onnx import parser
from onnx.reference import ReferenceEvaluator
from turns import turn_of
from whole_ranges import whole_ranges

import rcompiler
from rcompiler.errors import ArtifactError, InvalidModel, RangeError, ShapeError, UnsupportedOp
from rcompiler.frontend import import_onnx
from rcompiler.runtime.artifact import Artifact
from rcompiler.runtime.sized_arguments import SizedCall

OPTIONS = {"cache": False, "device": "default", "eus": 2}


@pytest.fixture(autouse=True)
def poison(monkeypatch):
    monkeypatch.setattr(SizedCall, "beyond", np.nan)


pytestmark = pytest.mark.filterwarnings("ignore:invalid value encountered in cast")


def feeds_of(model, counts, rng):
    feeds = {}
    for tensor in model.inputs:
        shape = tensor.shape_at(counts)
        if tensor.dtype == "int64":
            feeds[tensor.name] = rng.integers(0, 2 if tensor.name == "mask" else 50, shape)
        else:
            feeds[tensor.name] = rng.standard_normal(shape).astype(np.float32)
    if "mask" in feeds:
        feeds["mask"][:, 0] = 1
    return feeds


NETWORKS = [
    (sized_networks.bert, {"batch": 2, "seq": range(1, 17)}),
    (sized_networks.gpt, {"batch": range(1, 3), "seq": range(1, 17)}),
    (sized_networks.cnn, {"batch": range(1, 6)}),
    (sized_networks.lstm, {"batch": range(1, 4), "seq": range(1, 6)}),
]


@pytest.mark.parametrize("network, shapes", turn_of(NETWORKS, 2))
def test_one_program_answers_for_all_sizes(network, shapes):
    proto = network()
    reference = ReferenceEvaluator(proto)
    rng = np.random.default_rng(0)
    ranges = {name: size for name, size in shapes.items() if isinstance(size, range)}
    with rcompiler.compile_onnx(
        proto, shapes=shapes, buckets=whole_ranges(proto, shapes), **OPTIONS
    ) as model:
        for sizes in itertools.product(*ranges.values()):
            feeds = feeds_of(model, dict(zip(ranges, sizes, strict=True)), rng)
            for found, expected in zip(model(**feeds), reference.run(None, feeds), strict=True):
                assert found.flags.c_contiguous
                assert found.shape == expected.shape
                np.testing.assert_allclose(found, expected, 1e-4, 1e-5)


def compiled(text, shapes, **options):
    proto = parser.parse_model(text)
    options = {"buckets": whole_ranges(proto, shapes), **OPTIONS, **options}
    return rcompiler.compile_onnx(proto, shapes=shapes, **options)


HEAD = '<ir_version: 10, opset_import: ["": 21]>'
TWO = (
    f"{HEAD} g (float[n, 3] x, float[n, m] y) => (float[o, p] z) "
    "{ t = Transpose<perm=[1, 0]>(x) z = MatMul(t, y) }"
)
RANGES = {"n": range(2, 6), "m": range(1, 9)}


@pytest.fixture(scope="module")
def two():
    with compiled(TWO, RANGES) as model:
        yield model


def arrays(n, m):
    rng = np.random.default_rng(n * 10 + m)
    return rng.standard_normal((n, 3), np.float32), rng.standard_normal((n, m), np.float32)


def assert_right(model, n, m):
    x, y = arrays(n, m)
    (z,) = model(x, y)
    np.testing.assert_allclose(z, x.T @ y, 1e-5, 1e-5)


def test_inputs_and_outputs_say_what_is_symbolic(two):
    x, y = two.inputs
    assert (x.shape, y.shape) == ((5, 3), (5, 8))
    assert [str(size) for size in (*x.sizes, *y.sizes)] == ["n", "3", "n", "m"]
    assert [str(size) for size in two.outputs[0].sizes] == ["3", "m"]
    assert two.outputs[0].shape == (3, 8)
    assert [(s.name, s.low, s.high) for s in two.artifact.sizes] == [("m", 1, 8), ("n", 2, 5)]
    assert "'n'<=5" in repr(two)


def test_a_call_takes_what_the_ranges_have(two):
    for n, m in ((2, 1), (5, 8), (3, 8), (5, 1)):
        assert_right(two, n, m)
    x, y = arrays(4, 6)
    (z,) = two({"y": y.T.copy().T, "x": x})
    np.testing.assert_allclose(z, x.T @ y, 1e-5, 1e-5)


def test_results_are_the_callers(two):
    first = two(*arrays(2, 3))[0]
    kept = first.copy()
    two(*arrays(5, 8))
    np.testing.assert_array_equal(first, kept)
    first[...] = 0


@pytest.mark.parametrize(
    "x, y, said",
    [
        ((1, 3), (1, 4), "axis 0 of input 'x' has 1 elements; 'n' is from 2 to 5"),
        ((6, 3), (6, 4), "axis 0 of input 'x' has 6 elements; 'n' is from 2 to 5"),
        ((3, 3), (4, 4), "axis 0 of input 'y' has 4 elements, and axis 0 of input 'x' has 3"),
        ((3, 3), (3, 9), "axis 1 of input 'y' has 9 elements; 'm' is from 1 to 8"),
        ((3, 4), (3, 4), r"input 'x' has shape \[3, 4\], the model wants \[n, 3\]"),
        ((3,), (3, 4), r"input 'x' has shape \[3\]"),
    ],
)
def test_other_sizes_are_refused(two, x, y, said):
    with pytest.raises(ShapeError, match=said):
        two(np.zeros(x, np.float32), np.zeros(y, np.float32))
    with pytest.raises(ShapeError, match="float32"):
        two(np.zeros((3, 3), np.float64), np.zeros((3, 3), np.float32))
    assert_right(two, 3, 3)


def test_copies_files_and_levels(two, tmp_path):
    two.save(tmp_path / "two.rcx")
    with rcompiler.load(tmp_path / "two.rcx") as loaded:
        assert_right(loaded, 3, 5)
        assert loaded.artifact.to_bytes() == two.artifact.to_bytes()
    with copy.copy(two) as own:
        assert_right(own, 2, 2)
    text, weights = two.stage("vdevice"), two.constants()
    with rcompiler.compile_schedule(text, weights, cache=False) as again:
        assert_right(again, 4, 7)
    with compiled(TWO, RANGES, target="cpu:x86-64,cpu:v3") as both:
        assert_right(both, 4, 7)


def test_memory_is_bound_at_the_bounds(two):
    binding = two.bind()
    x, y = arrays(3, 4)
    assert [a.shape for a in binding.inputs] == [(5, 3), (5, 8), (), ()]
    assert [int(a) for a in binding.inputs[2:]] == [8, 5]
    for array, value, size in zip(binding.inputs, (x, y), binding.inputs[2:][::-1], strict=False):
        array[...] = np.nan
        array[tuple(map(slice, value.shape))] = value
        size[...] = value.shape[0] if value is x else value.shape[1]
    binding()
    np.testing.assert_allclose(binding.outputs[0][:, :4], x.T @ y, 1e-5, 1e-5)
    binding.inputs[3][...] = 6
    with pytest.raises(RangeError, match="size of n"):
        binding()


def test_sizes_of_a_file_are_checked(two):
    good = two.artifact
    x, y, m, n = good.inputs
    for wrong in (
        {"inputs": (x, y, n)},  # of m nothing tells
        {"inputs": (m, n, x, y)},
        {"inputs": (replace(x, extents=x.extents[:1]), y, m, n)},
        {"inputs": (x, y, replace(m, size=replace(m.size, low=-1)), n)},
        {"inputs": (x, y, m, replace(n, size=m.size))},
        {"inputs": (x, y, m, replace(n, shape=(1,)))},
    ):
        with pytest.raises(ArtifactError):
            replace(good, **wrong).check()
    assert isinstance(Artifact.from_bytes(good.to_bytes()), Artifact)


EMBEDDING = (
    f"{HEAD} g (int64[n] at, float[6, 2] table) => (float[n, 2] y, int64 size) "
    "{ y = Gather(table, at) size = Size(at) }"
)


def test_indices_are_looked_at_where_they_are_there():
    with compiled(EMBEDDING, {"n": range(0, 5)}) as model:
        table = np.arange(12, dtype=np.float32).reshape(6, 2)
        y, size = model(np.array([5, -6, 1]), table)
        np.testing.assert_array_equal(y, table[[5, 0, 1]])
        assert (size.shape, int(size)) == ((), 3)
        assert model(np.zeros(0, np.int64), table)[0].shape == (0, 2)
        with pytest.raises(RangeError, match="index 6"):
            model(np.array([6]), table)


PICK = f"{HEAD} g (float[n, 2] x, int64[k] at) => (float[k, 2] y) {{ y = Gather(x, at) }}"


def test_an_index_behind_what_is_there_is_an_error():
    with compiled(PICK, {"n": range(1, 9), "k": 2}) as model:
        x = np.arange(6, dtype=np.float32).reshape(3, 2)
        np.testing.assert_array_equal(model(x, np.array([2, -3]))[0], x[[2, 0]])
        for wrong in (3, -4, 7, 100):
            says = rf"index {wrong}; axis 0 of .* has 3 elements .*\('n'\), from -3 to 2$"
            with pytest.raises(RangeError, match=says):
                model(x, np.array([0, wrong]))


MANY = f"{HEAD} g (float[n, m] x, int64[k, 2] at) => (float[k] y) {{ y = GatherND(x, at) }}"


def test_an_error_names_the_axis_that_an_index_leads_out_of():
    with compiled(MANY, {"n": range(1, 9), "m": range(1, 9), "k": 2}) as model:
        x = np.ones((3, 5), np.float32)
        for at, says in (
            ([[0, 0], [3, 4]], r"index 3; axis 0 of .* has 3 elements .*\('n'\), from -3 to 2$"),
            ([[0, -6], [2, 4]], r"index -6; axis 1 of .* has 5 elements .*\('m'\), from -5 to 4$"),
        ):
            with pytest.raises(RangeError, match=says):
                model(x, np.array(at))


@pytest.mark.parametrize("lens", ["n", "m"])
@pytest.mark.parametrize(
    "size, where, steps", [("float[s, 3, 2] x", 3, 4), ("float[5, s, 2] x", 4, 5)]
)
def test_lengths_behind_what_is_there_are_an_error(size, where, steps, lens):
    """Where the steps are some of those that there is room for, or the sequences are."""
    batch = "3" if where == 3 else "s"
    body = f"m = Abs(n) y = GRU<hidden_size=4>(x, w, r, , {lens})"
    weights = "float[1, 12, 2] w, float[1, 12, 4] r"
    text = f"{HEAD} g ({size}, {weights}, int32[{batch}] n) => (float[o] y) {{ {body} }}"
    with compiled(text, {"s": range(1, 9)}) as model:
        rng = np.random.default_rng(0)
        shapes = [(4, 3, 2) if where == 3 else (5, 4, 2), (1, 12, 2), (1, 12, 4)]
        arrays = [rng.standard_normal(s).astype(np.float32) for s in shapes]
        good = np.full(where, steps, np.int32)
        good[1] = 2
        (y,) = model(*arrays, good)
        assert y[-1, 0, 0].any() and y[1, 0, 1].any() and not y[2:, 0, 1].any()
        for wrong in (steps + 1, 1 << 30, np.iinfo(np.int32).min):
            bad = good.copy()
            bad[-1] = wrong
            with pytest.raises(RangeError, match=f"(GRU|'n').* {wrong}[,;]"):
                model(*arrays, bad)


@pytest.mark.parametrize(
    "inputs, body, said",
    [
        ("float[n, 4] x, float[4, 4] y", "z = Add(x, y)", "n elements along an axis"),
        ("float[n, 4] x, float[4, n] y", "z = Add(x, y)", "elements along an axis"),
        ("float[n, 4] x, float[m, 4] y", "z = Add(x, y)", "n elements along an axis, another m"),
        ("float[4, n] x, float[4, 3] y", "z = MatMul(x, y)", "n elements are contracted with 4"),
        ("float[1, 1, n] x, float[1, 1, 3] y", "z = Conv<strides=[2]>(x, y)", "may be no window"),
        ("float[n, 4] x", "z = Det(x)", "it is not translated for sizes"),
        ("float[n, 4] x", "a, z = Split<axis=0, num_outputs=2>(x)", "are cut into 2 parts"),
        ("float[n, 4] x", "s = Constant<value_ints=[2, -1, 4]>() z = Reshape(x, s)", "divide"),
        ("float[n, 4] x", "z = Squeeze(x)", "depends on the sizes"),
    ],
)
def test_what_has_no_rule_is_refused(inputs, body, said):
    text = f"{HEAD} g ({inputs}) => (float[o] z) {{ {body} }}"
    shapes = {"n": range(1, 5), "m": range(1, 5)}
    used = {name: size for name, size in shapes.items() if name in re.findall(r"\w+", inputs)}
    model = parser.parse_model(text)
    with pytest.raises((UnsupportedOp, ShapeError), match=said) as refused:
        rcompiler.compile_onnx(model, shapes=used, buckets=whole_ranges(model, used), **OPTIONS)
    assert "for sizes that are known at run time" in str(refused.value)
    assert "Give sizes in shapes" in str(refused.value)


@pytest.mark.parametrize(
    "shapes, said",
    [
        ({"n": range(5, 3), "m": 1}, "range of sizes"),
        ({"n": range(1, 9, 2), "m": 1}, "steps of 1"),
        ({"n": range(-1, 3), "m": 1}, "not negative"),
        ({"n": "3", "m": 1}, "int, or a range"),
        ({"n": -3, "m": 1}, "not negative"),
        ({"n": True, "m": 1}, "int, or a range"),
        ({"x": (range(1, 5), 3), "y": (range(1, 6), 2)}, "given two ranges"),
        ({"n": range(1, 5)}, "dimension 'm' is not known"),
    ],
)
def test_what_is_no_range_is_refused(shapes, said):
    with pytest.raises(ShapeError, match=said):
        import_onnx(parser.parse_model(TWO), shapes)


def test_a_range_may_stand_in_the_shape_of_an_input():
    text = f"{HEAD} g (float[a, b] x) => (float[a] y) {{ y = ReduceSum<keepdims=0>(x, i) }}"
    text = text.replace("{ y", "{ i = Constant<value_ints=[1]>() y")
    with compiled(text, {"x": (3, range(1, 5))}) as model:
        (y,) = model(np.ones((3, 2), np.float32))
        np.testing.assert_array_equal(y, [2, 2, 2])


def test_dimensions_may_be_made_of_others():
    model = parser.parse_model(
        f"{HEAD} g (float[past, 2] x, float[new, 2] y, float[total, 2] z) => (float[o, 2] s) "
        "{ t = Concat<axis=0>(x, y) s = Add(t, z) }"
    )
    model.graph.input[2].type.tensor_type.shape.dim[0].dim_param = "past + new"
    shapes = {"past": range(0, 4), "new": range(1, 3)}
    with rcompiler.compile_onnx(
        model, shapes=shapes, buckets=whole_ranges(model, shapes), **OPTIONS
    ) as compiled_model:
        for past, new in ((0, 1), (3, 2), (1, 2)):
            x, y, z = (np.full((n, 2), n, np.float32) for n in (past, new, past + new))
            (s,) = compiled_model(x, y, z)
            np.testing.assert_array_equal(s, np.concatenate([x, y]) + z)
        with pytest.raises(ShapeError, match="'new \\+ past' is 2 where"):
            compiled_model(np.ones((1, 2), "f"), np.ones((1, 2), "f"), np.ones((3, 2), "f"))


def test_edited_signatures_are_refused(two):
    text, weights = two.stage("vdevice"), two.constants()
    for old, new in (
        ('symbol = "m"', 'symbol = "q"'),
        ("low = 1 : i64", "low = -1 : i64"),
        ('[1, "m"]', '["m", "m"]'),
    ):
        assert old in text, old
        with pytest.raises((InvalidModel, ArtifactError)):
            rcompiler.compile_schedule(text.replace(old, new), weights, cache=False)


def test_gpus_take_sizes_too():
    with compiled(TWO, RANGES, target="cuda:emulated") as model:
        for n, m in ((2, 1), (5, 8), (3, 4)):
            assert_right(model, n, m)
        with pytest.raises(ShapeError, match="6 elements"):
            model(*arrays(6, 3))
        with pytest.raises(ShapeError, match="known at run time only"):
            model.on_device(*arrays(2, 2))
        binding = model.bind()
        x, y = arrays(5, 8)
        binding.inputs[0].write(x)
        binding.inputs[1].write(y)
        binding()
        np.testing.assert_allclose(binding.outputs[0].numpy(), x.T @ y, 1e-5, 1e-5)


def test_a_size_does_not_make_vectors_short():
    """It is 64 bits wide, and one number for all lanes."""
    text = f"{HEAD} g (float[64, n] x) => (float[64, n] y) {{ y = Softmax(x) }}"
    model = compiled(text, {"n": range(1, 257)}, target="cpu:v4")
    assert "lanes = 16 : i64" in model.stage("rkernel")
    assert "lanes = 8 : i64" not in model.stage("rkernel")
