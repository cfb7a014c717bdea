"""Operators on inputs that the standard's cases do not have, against the naive runner."""

import math
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from naive_linalg import Runner

from rcompiler.errors import ShapeError
from rcompiler.frontend import import_onnx
from rcompiler.frontend.dtypes import SMALL_FLOATS, numpy_dtype
from rcompiler.frontend.registry import InputType, input_types


@pytest.fixture(scope="module")
def run():
    runner = Runner()

    def call(op, *arrays, values=None, opset=21, result=0, **attributes):
        """result: number of the input whose type the output has."""
        names = [f"i{i}" for i in range(len(arrays))]
        kinds = [helper.np_dtype_to_tensor_dtype(a.dtype) for a in arrays]
        infos = [
            helper.make_tensor_value_info(n, k, a.shape)
            for n, k, a in zip(names, kinds, arrays, strict=True)
        ]
        out = helper.make_empty_tensor_value_info("y")
        out.type.tensor_type.elem_type = kinds[result]
        graph = helper.make_graph(
            [helper.make_node(op, names, ["y"], **attributes)], "g", infos, [out]
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
        fixed = {names[i]: arrays[i] for i in values or ()}
        got = import_onnx(model, values=fixed)
        feeds = [a for n, a in zip(names, arrays, strict=True) if n not in fixed]
        raw = runner.run(got.module_text, got.constants, feeds)[0]
        return raw.view(numpy_dtype(got.outputs[0].dtype)), got.module_text

    yield call
    runner.close()


def test_integer_division_never_traps(run):
    low = np.iinfo(np.int32).min
    a = np.array([7, -7, low, 5, low], np.int32)
    b = np.array([2, 2, -1, 0, 0], np.int32)
    assert run("Div", a, b)[0].tolist() == [3, -3, low, 0, 0]
    assert run("Mod", a, b)[0].tolist()[:3] == [1, 1, 0]
    assert run("Mod", a, b, fmod=1)[0].tolist()[:3] == [1, -1, 0]


def test_small_sigmoids_of_f16_are_not_lost(run):
    """exp(13) is more than f16 holds, and 1 / exp(13) is a number of f16."""
    x = np.array([-13, -16.5, -20, 0, 20], np.float16)
    right = (1 / (1 + np.exp(-x.astype(np.float64)))).astype(np.float16)
    assert run("Sigmoid", x)[0].tolist() == right.tolist()


def test_mish_of_f16_is_a_number_wherever_its_operand_is(run):
    x = np.array([-20, -8, -1, 0, 5, 6, 8, 12, 17, 60000], np.float16)
    wide = x.astype(np.float64)
    right = wide * np.tanh(np.logaddexp(wide, 0))
    np.testing.assert_allclose(run("Mish", x)[0].astype(np.float64), right, rtol=2e-3, atol=1e-7)


@pytest.mark.parametrize("op", ["Elu", "Selu", "Celu"])
@pytest.mark.parametrize(
    ("dtype", "accuracy"), [("float16", 3e-3), ("float32", 1e-6), ("float64", 2e-15)]
)
def test_small_exponentials_less_one_keep_their_digits(run, op, dtype, accuracy):
    x = -np.logspace(-4, 0, 50).astype(dtype)
    factor = 1.67326319217681884765625 * 1.05070102214813232421875 if op == "Selu" else 1.0
    right = np.expm1(x.astype(np.float64)) * factor
    np.testing.assert_allclose(run(op, x)[0].astype(np.float64), right, rtol=accuracy)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
@pytest.mark.parametrize(
    ("dtype", "accuracy"), [("float16", 4e-3), ("float32", 2e-5), ("float64", 1e-13)]
)
def test_gelu_keeps_its_digits_far_below_zero(run, approximate, dtype, accuracy):
    """Where 1 + erf and 1 + tanh have none left: at -6 it is -6e-9."""
    x = np.linspace(-9, 3, 97).astype(dtype)
    wide = x.astype(np.float64)
    z = math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3)
    exact = np.array([v / 2 * math.erfc(-v / math.sqrt(2)) for v in wide])
    right = exact if approximate == "none" else wide / (1 + np.exp(-2 * z))
    found = run("Gelu", x, approximate=approximate)[0].astype(np.float64)
    np.testing.assert_allclose(found, right, rtol=accuracy, atol=1e-7 * (dtype == "float16"))


@pytest.mark.parametrize("op", ["ReduceMean", "ReduceL2", "ReduceLogSum", "InstanceNormalization",
                                "MeanVarianceNormalization", "LpNormalization"])  # fmt: skip
def test_sums_that_leave_f16_where_the_result_does_not(run, op):
    x = np.linspace(300, 900, 128).astype(np.float16).reshape(1, 1, 8, 16)
    wide = x.astype(np.float64)
    normal = (wide - wide.mean()) / wide.std()
    right = {
        "ReduceMean": wide.mean(),
        "ReduceL2": np.sqrt((wide**2).sum()),
        "ReduceLogSum": np.log(wide.sum()),
        "InstanceNormalization": normal,
        "MeanVarianceNormalization": normal,
        "LpNormalization": wide / np.sqrt((wide**2).sum(-1, keepdims=True)),
    }[op]
    ones = [np.ones(1, np.float16), np.zeros(1, np.float16)] if op[0] == "I" else []
    found = run(op, x, *ones)[0].astype(np.float64)
    np.testing.assert_allclose(found.reshape(np.shape(right)), right, rtol=2e-3, atol=1e-3)


@pytest.mark.parametrize("kinds", [("float16", "float32"), ("float32", "float16")])
def test_a_root_mean_square_norm_has_the_type_of_its_scale(run, kinds):
    """ONNX names their types apart (T and V); what is normalised is rounded to that of x."""
    x = np.linspace(-3, 5, 12).reshape(3, 4).astype(kinds[0])
    scale = np.float64([0.3, 1.7, -2, 1]).astype(kinds[1])
    wide = x.astype(np.float64)
    root = np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-5)
    found, _ = run("RMSNormalization", x, scale, opset=24, result=1)
    assert found.dtype == kinds[1]
    right = (wide / root).astype(kinds[0]).astype(np.float64) * scale.astype(np.float64)
    np.testing.assert_allclose(found.reshape(x.shape).astype(np.float64), right, rtol=2e-3)


@pytest.mark.parametrize(("op", "w"), [("Conv", (3, 2, 1, 1)), ("ConvTranspose", (2, 3, 1, 1)),
                                       ("Gemm", (2, 3))])  # fmt: skip
@pytest.mark.parametrize(("dtype", "size"), [("float16", 3), ("float32", 2)])
def test_a_bias_that_does_not_fit_is_refused(run, op, w, dtype, size):
    x = np.zeros((4, 2) if op == "Gemm" else (1, 2, 4, 4), np.float32)
    with pytest.raises(ShapeError, match=r"bias|C does|input 2 is float16; float32 is expected"):
        run(op, x, np.zeros(w, np.float32), np.zeros(size, dtype))


@pytest.mark.parametrize(
    ("op", "shapes", "kinds"),
    [
        ("InstanceNormalization", [(1, 3, 2), (3,), (3,)], ["float32", "float32", "int64"]),
        ("Add", [(2,), (2,)], ["float32", "float64"]),
        ("Max", [(2,), (2,), (2,)], ["int32", "int32", "int64"]),
        ("Sum", [(2,), (2,)], ["float16", "float32"]),
        ("Where", [(2,), (2,), (2,)], ["bool", "float16", "float32"]),
    ],
)
def test_operands_of_one_type_may_have_no_other(run, op, shapes, kinds):
    arrays = [np.zeros(shape, kind) for shape, kind in zip(shapes, kinds, strict=True)]
    with pytest.raises(ShapeError, match=f"{len(kinds) - 1} is {kinds[-1]}; {kinds[-2]} is expect"):
        run(op, *arrays)


def test_types_of_operators_have_names():
    """The index of Gather has one of its own; operators that ONNX has not have none."""
    nothing, t = InputType(), InputType("T")
    assert input_types("Gather", 22, "", 2) == (t, InputType("Tind", integer=True))
    assert input_types("Pow", 15, "", 2) == (t, InputType("T1"))
    assert input_types("Concat", 13, "", 4) == (t,) * 4
    assert input_types("TopK", 11, "", 2) == (t, InputType(integer=True))
    assert input_types("Loop", 21, "", 4)[2:] == (nothing, nothing)
    assert input_types("Nope", 22, "me", 2) == (nothing, nothing)


def test_integer_powers(run):
    base = np.array([2, -3, -1, 1, 0, 2], np.int64)
    power = np.array([10, 3, -5, -9, 0, -1], np.int64)
    assert run("Pow", base, power)[0].tolist() == [1024, -27, -1, 1, 1, 0]


def test_shifts_by_the_width_or_more(run):
    a, n = np.array([255, 255, 1], np.uint8), np.array([8, 200, 7], np.uint8)
    assert run("BitShift", a, n, direction="LEFT")[0].tolist() == [0, 0, 128]
    assert run("BitShift", a, n, direction="RIGHT")[0].tolist() == [0, 0, 0]


def test_nan_wins_in_maxima(run):
    a = np.array([np.nan, 1, 2], np.float32)
    b = np.array([0, np.nan, 3], np.float32)
    np.testing.assert_array_equal(run("Max", a, b)[0], np.maximum(a, b))
    np.testing.assert_array_equal(run("ReduceMax", a, keepdims=0)[0], np.nan)


def test_softmax_is_four_ops_and_does_not_overflow(run):
    x = np.array([[1e4, 1e4, -1e4], [0, 1, 2]], np.float32)
    got, text = run("Softmax", x)
    assert text.count("linalg.generic") == 4
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(got, e / e.sum(1, keepdims=True), rtol=1e-6)


def test_half_precision_sums_are_kept_in_f32(run):
    x = np.full((1, 4096), 1.0, np.float16)
    w = np.full((4096, 1), 1.0, np.float16)
    assert run("MatMul", x, w)[0].item() == 4096  # in f16 the sum sticks at 2048
    assert run("ReduceSum", x, keepdims=0)[0].item() == 4096


@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
def test_pads_beyond_the_size(run, mode):
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    got = run("Pad", x, np.array([3, 4, 2, 5]), values=[1], mode=mode)[0]
    np.testing.assert_array_equal(got, np.pad(x, [(3, 2), (4, 5)], mode=mode))


@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
@pytest.mark.parametrize(("low", "high"), [(-2, 3), (3, -2), (-1, -2), (-2, 0)])
def test_what_is_cut_off_is_not_there_to_repeat(run, mode, low, high):
    """As in onnxruntime."""
    x = np.arange(6, dtype=np.float32)
    got, _ = run("Pad", x, np.array([low, high]), values=[1], mode=mode)
    left = x[max(-low, 0) : 6 + min(high, 0)]
    np.testing.assert_array_equal(got, np.pad(left, [(max(low, 0), max(high, 0))], mode=mode))


def test_normalisation_with_numbers_for_each_element(run):
    """As ``spatial=0`` says before opset 9."""
    rng = np.random.default_rng(0)
    x, *rest = (rng.standard_normal(s).astype("f4") for s in [(2, 3, 4), *[(3, 4)] * 4])
    scale, shift, mean, variance = (*rest[:3], np.abs(rest[3]))
    got, *_ = run("BatchNormalization", x, scale, shift, mean, variance, opset=7, spatial=0)
    wanted = (x - mean) / np.sqrt(variance + 1e-5) * scale + shift
    np.testing.assert_allclose(got, wanted, rtol=1e-4)


@pytest.mark.parametrize("opset", [1, 6])
@pytest.mark.parametrize(
    ("axis", "shape", "seen"),
    [(1, (3,), (3, 1)), (None, (4,), (4,)), (0, (2, 3), (2, 3, 1))],
)
@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div", "Pow"])
def test_the_second_operand_stands_from_an_axis_on_before_opset_7(
    run, op, axis, shape, seen, opset
):
    """By definition: neither onnxruntime nor the reference has the attribute."""
    random = np.random.default_rng(0)
    x, y = (random.uniform(1, 2, s).astype("f4") for s in ((2, 3, 4), shape))
    own = {} if axis is None else {"axis": axis}
    got, _ = run(op, x, y, opset=opset, broadcast=1, **own)
    fn = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide, "Pow": np.power}
    np.testing.assert_allclose(got, fn[op](x, y.reshape(seen)), rtol=1e-6)


@pytest.mark.parametrize("op", ["And", "Or", "Xor"])
def test_truths_stand_from_an_axis_on_before_opset_7(run, op):
    x, y = np.random.default_rng(0).random((2, 3, 4)) < 0.5, np.array([True, False, True])
    fn = {"And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor}[op]
    got, _ = run(op, x, y, opset=1, broadcast=1, axis=1)
    np.testing.assert_array_equal(got, fn(x, y[:, None]))


@pytest.mark.parametrize("opset", [1, 11])
def test_axes_without_numbers_say_nothing_where_they_are_an_attribute(opset):
    """As in onnxruntime and in the reference; an operand without numbers names no axis."""
    node = helper.make_node("Squeeze", ["x"], ["y"])
    node.attribute.add(name="axes", type=onnx.AttributeProto.INTS)
    x, y = (helper.make_tensor_value_info(n, 1, s) for n, s in (("x", [2, 1, 3]), ("y", [2, 3])))
    made = helper.make_model(
        helper.make_graph([node], "g", [x], [y]),
        opset_imports=[helper.make_opsetid("", opset)], ir_version=4,
    )  # fmt: skip
    assert import_onnx(made).outputs[0].shape == (2, 3)


@pytest.mark.parametrize("given_at_run_time", [(), (2,), (0, 2)])
@pytest.mark.parametrize(
    ("extent", "low", "high", "right"),
    [
        (0, -1, 1, []), (0, 1, -1, []), (0, -1, 3, [9, 9]), (1, -2, 2, [9]), (1, 2, -2, [9]),
        (1, -2, 1, []), (3, -4, 4, [9, 9, 9]), (3, 5, -4, [9, 9, 9, 9]), (3, -1, 2, [2, 3, 9, 9]),
    ],
)  # fmt: skip
def test_a_side_may_be_cut_by_more_than_there_is(run, extent, low, high, right, given_at_run_time):
    """The other side is padded from there: as many elements are left as the pads add up to. So
    does onnxruntime; the reference knows no negative pads."""
    x, pads = np.arange(1, extent + 1, dtype=np.float32), np.array([low, high])
    fixed = {0, 1, 2}.difference(given_at_run_time)
    got, _ = run("Pad", x, pads, np.float32(9), values=fixed)
    np.testing.assert_array_equal(got, right)


@pytest.mark.parametrize("dtype", ["float16", "int4", *SMALL_FLOATS])
def test_what_is_put_around_is_a_number_of_the_type(run, dtype):
    kind = numpy_dtype(dtype)
    x, number = np.array([1.0, 2.0]).astype(kind), np.array(4.0).astype(kind)
    got = run("Pad", x, np.array([1, 2]), number, values=[1, 2], opset=25)[0]
    np.testing.assert_array_equal(got.astype(float), [4, 1, 2, 4, 4])


@pytest.mark.parametrize("dtype", ["float32", "int8", "uint16", "bool"])
def test_empty_tensors(run, dtype):
    x = np.zeros((2, 0, 3), dtype)
    assert run("Transpose", x)[0].shape == (3, 0, 2)
    assert run("Concat", x, x, axis=1)[0].shape == (2, 0, 3)
    assert run("Reshape", x, np.array([0, -1, 6]), values=[1], allowzero=0)[0].shape == (2, 0, 6)


def test_depthwise_convolution_has_one_channel_iterator(run):
    x = np.random.default_rng(0).standard_normal((1, 4, 5, 5)).astype("f")
    w = np.random.default_rng(1).standard_normal((4, 1, 3, 3)).astype("f")
    got, text = run("Conv", x, w, group=4, pads=[1, 1, 1, 1])
    assert "(d0, d1, d2, d3, d4, d5)" in text and "(d0, d1, d2, d3, d4, d5, d6)" not in text
    padded = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)])
    want = sum(
        padded[:, :, i : i + 5, j : j + 5] * w[:, 0, i, j, None, None]
        for i in range(3)
        for j in range(3)
    )
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("op", ["ReduceSum", "ReduceMax", "ReduceLogSumExp", "ArgMax"])
def test_axes_are_kept_by_one_and_no_other_number(run, op):
    """As ONNX infers shapes, and onnxruntime computes them."""
    x = np.ones((2, 3), np.float32)
    axes = {"axis": 1} if op == "ArgMax" else {}
    more, fixed = ([], ()) if axes else ([np.array([1])], (1,))
    shapes = [
        run(op, x, *more, values=fixed, keepdims=keep, **axes)[0].shape for keep in (1, 0, 32)
    ]
    assert shapes == [(2, 1), (2,), (2,)]


@pytest.mark.parametrize("keep", [0, 1])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((1, 6, 3, 2), (2, 3)), ((2, 3, 4, 5), (1, 3)), ((2, 3, 4, 5), (0, 1)), ((1, 1, 5), (1,)),
        ((1, 1), (0, 1)), ((3, 1, 2), (0, 1, 2)),
    ],
)  # fmt: skip
def test_log_sum_exp_over_dims_that_lie_together_is_one_sum(run, shape, axes, keep):
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    got, text = run("ReduceLogSumExp", x, np.array(axes), values=(1,), keepdims=keep)
    want = np.log(np.exp(x.astype(np.float64)).sum(axes, keepdims=bool(keep)))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
    if shape[-1] > 1 and axes == (2, 3):
        assert '"parallel", "reduction"]' in text and '"reduction", "reduction"' not in text


def test_cropped_rows_are_as_long_as_the_result(run):
    """1.5 x 17 elements are 25, not 25.5; 1.6 + 3 x 1.4 / 3 is 3, though 0.1 is none of f32."""
    x = np.arange(17, dtype=np.float32)[None]
    got = run(
        "Resize", x, np.float32([0, 0.1, 1, 0.8]), np.float32([1, 1.5]), values=[1, 2],
        mode="nearest", nearest_mode="ceil", coordinate_transformation_mode="tf_crop_and_resize",
    )[0]  # fmt: skip
    places = (16 + 7 * 16 * np.arange(25) / 24) / 10
    np.testing.assert_array_equal(got[0], np.ceil(places.round(9)))


def test_cubic_weights_of_what_is_outside_are_left_out(run):
    """Also those of the first element behind the end."""
    x, none = np.float32([3, -1, 4, 2]), np.float32([])
    right = []
    for at in (np.arange(8) + 0.5) / 2 - 0.5:
        near = math.floor(at) + np.arange(-1, 3)
        far = np.abs(near - at)
        cubic = np.where(far <= 1, (1.25 * far - 2.25) * far**2 + 1, 0)
        cubic = np.where((1 < far) & (far < 2), ((-0.75 * far + 3.75) * far - 6) * far + 3, cubic)
        inside = (near >= 0) & (near < 4)
        right.append((x[near[inside]] * cubic[inside]).sum() / cubic[inside].sum())
    y, _ = run(
        "Resize", x, none, np.float32([2]), values=[1, 2], mode="cubic", exclude_outside=1
    )  # fmt: skip
    np.testing.assert_allclose(y, right, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "pads, right", [([0, 1], [2, 3, 4, 5, 11 / 3]), ([2, 0], [1 / 3, 1, 2, 3, 4, 5])]
)
def test_padding_at_one_end_counts_in_averages(run, pads, right):
    x = np.arange(1, 7, dtype=np.float32).reshape(1, 1, 6)
    y, _ = run("AveragePool", x, kernel_shape=[3], pads=pads, count_include_pad=1)
    np.testing.assert_allclose(y[0, 0], right, rtol=1e-6)


def test_slices_backward_along_some_axes_only(run):
    """The others are cut: their extents are not those of the operand."""
    x = np.arange(7 * 6 * 5, dtype=np.float32).reshape(7, 6, 5)
    bounds = [np.array(v, np.int64) for v in ([1, 5, 2], [6, 0, -9], [0, 1, 2], [2, -2, -1])]
    got, _ = run("Slice", x, *bounds, values=(1, 2, 3, 4))
    np.testing.assert_array_equal(got, x[1:6:2, 5:0:-2, 2::-1])


def test_padding_beyond_any_memory_is_refused_at_once(run):
    pads = np.array([0, 1 << 40], np.int64)
    for mode in ("constant", "edge", "reflect", "wrap"):
        with pytest.raises(ShapeError, match="larger than"):
            run("Pad", np.ones(3, np.float32), pads, values=(1,), mode=mode)


@pytest.mark.parametrize(("left", "right"), [((3, 0), (1, 4)), ((3, 1), (0, 4)), ((3, 1), (2, 4))])
def test_an_extent_of_one_is_repeated_in_sums_of_products(run, left, right):
    """Also not at all, where the other operand has no elements."""
    x, y = np.ones(left, np.float32), np.ones(right, np.float32)
    got, _ = run("Einsum", x, y, equation="ij,jk->ik")
    np.testing.assert_array_equal(got, np.einsum("ij,jk->ik", x, y))


@pytest.mark.parametrize("corners", [0, 1])
@pytest.mark.parametrize("size", [(2, 3, 1, 3), (1, 1, 4, 2), (2, 1, 1, 3, 2)])
def test_affine_grids(run, size, corners):
    rank = len(size) - 2
    theta = np.linspace(-1, 2, size[0] * rank * (rank + 1), dtype=np.float32)
    theta = theta.reshape(size[0], rank, rank + 1)
    got, _ = run("AffineGrid", theta, np.array(size, np.int64), values=(1,), align_corners=corners)
    places = [np.linspace(-1, 1, n) if corners else (2 * np.arange(n) + 1) / n - 1
              for n in size[2:]]  # fmt: skip
    grid = np.stack([*np.meshgrid(*places, indexing="ij")][::-1] + [np.ones(size[2:])], -1)
    want = np.einsum("nij,...j->n...i", theta, grid)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("operator", ["Conv", "MaxPool"])
def test_windows_over_an_image_without_pixels_have_an_empty_result(run, operator):
    """auto_pad pads for a window; there is no place for one."""
    image = np.zeros((1, 2, 0, 5), np.float32)
    filters = [np.zeros((3, 2, 3, 3), np.float32)] if operator == "Conv" else []
    [result, _] = run(operator, image, *filters, auto_pad="SAME_UPPER", kernel_shape=[3, 3])
    assert result.shape == (1, 3 if filters else 2, 0, 5)


def test_pads_of_windows_are_not_negative_whatever_auto_pad_says(run):
    image = np.zeros((1, 2, 4, 5), np.float32)
    with pytest.raises(ShapeError, match="pads are not negative"):
        run("MaxPool", image, auto_pad="VALID", kernel_shape=[3, 3], pads=[-1, 0, 0, 0])
