"""Networks on images of which batch, height and width are open: one program for all sizes.

Compared with the program of each size, to the bit, and with ONNX's reference; also through a
session, which makes such a program by itself.
"""

import image_networks
import numpy as np
import pytest
from onnx import parser
from onnx.reference import ReferenceEvaluator
from turns import turn_of
from whole_ranges import whole_ranges

import rcompiler
from rcompiler.errors import RangeError, ShapeError
from rcompiler.runtime.sized_arguments import SizedCall
from rcompiler.support.random_keys import without_key

pytestmark = pytest.mark.filterwarnings("ignore:invalid value encountered in cast")

OPTIONS = {"device": "default", "eus": 2}
NETWORKS = [  # of each the least side, sizes that it takes, and one that it does not
    pytest.param(lambda: image_networks.unet(True), 4, [(4, 12), (8, 4), (16, 20)], (6, 8),
                 id="unet-transposed"),
    pytest.param(lambda: image_networks.unet(padded=True), 4, [(4, 12), (7, 13), (19, 16)], None,
                 id="unet-padded"),
    pytest.param(lambda: image_networks.unet(False), 4, [(4, 5), (7, 13), (19, 16)], None,
                 id="unet-resized"),
    pytest.param(image_networks.yolo, 8, [(8, 16), (15, 23), (24, 13)], (17, 16), id="yolo"),
]  # fmt: skip


@pytest.fixture(autouse=True)
def _settings(monkeypatch, tmp_path_factory):
    monkeypatch.setattr(SizedCall, "beyond", np.nan)
    monkeypatch.setenv("RC_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "cache"))
    monkeypatch.setenv("RC_DEVICE", "default")


def image(batch, height, width):
    shape = batch, 3, height, width
    return np.random.default_rng(height).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("network, least, sizes, wrong", turn_of(NETWORKS, 2))
def test_one_program_answers_for_images_of_all_sizes(network, least, sizes, wrong):
    proto = network()
    reference = ReferenceEvaluator(proto)
    (name,) = [value.name for value in proto.graph.input]
    sides = range(least, 25)
    shapes = {"batch": range(1, 3), "height": sides, "width": sides}
    with rcompiler.compile_onnx(
        proto, shapes=shapes, buckets=whole_ranges(proto, shapes), **OPTIONS
    ) as model:
        for number, (height, width) in enumerate(sizes):
            batch = 1 + number % 2
            x = image(batch, height, width)
            (found,), (expected,) = model(x), reference.run(None, {name: x})
            assert found.shape == expected.shape
            np.testing.assert_allclose(found, expected, 1e-3, 1e-4)
            if number:
                exact = {"batch": batch, "height": height, "width": width}
                with rcompiler.compile_onnx(proto, shapes=exact, **OPTIONS) as other:
                    np.testing.assert_array_equal(found, other(x)[0])
        if wrong is not None:
            with pytest.raises(RangeError, match=r"Concat '.*' meets \d+ elements along axis 2"):
                model(image(1, *wrong))
            with pytest.raises(ShapeError):
                rcompiler.compile_onnx(
                    proto, shapes={"batch": 1, "height": wrong[0], "width": wrong[1]}, **OPTIONS
                )


@pytest.mark.parametrize("network, least, sizes, wrong", turn_of(NETWORKS, 2))
def test_a_session_has_one_program_for_images_of_many_sizes(network, least, sizes, wrong):
    proto = network()
    reference = ReferenceEvaluator(proto)
    (name,) = [value.name for value in proto.graph.input]
    with rcompiler.InferenceSession(proto.SerializeToString(), eus=2) as session:
        for height, width in [*sizes, (16, 8), (24, 16), (8, 24)]:
            x = image(1, height, width)
            (found,), (expected,) = session.run(None, {name: x}), reference.run(None, {name: x})
            assert found.shape == expected.shape
            np.testing.assert_allclose(found, expected, 1e-3, 1e-4)
        ranges = [model.inputs[0] for model in session.programs if any(model.inputs[0].extents)]
        assert ranges, session.notes
        assert len(session.programs) < 6


IMAGE = "float[1, 2, h, w] x"
# up to a multiple of 4, one row or column of it before the image, where one is missing
MISSING = """
    size = Shape<start=2>(x) four = Constant<value_int=4>() left = Mod(size, four)
    up = Sub(four, left) more = Mod(up, four) two = Constant<value_int=2>() first = Div(more, two)
    behind = Sub(more, first) p = Concat<axis=0>(first, behind) s = Constant<value_ints=[2, 3]>()
"""
OPERATORS = [
    (IMAGE, "k = Constant<value_floats=[1.0, 1.0, 1.7, 0.6]>()"
     'y = Resize<mode="cubic", exclude_outside=1>(x, , k)'),
    (IMAGE, "k = Constant<value_floats=[1.0, 1.0, 2.0, 2.0]>()"
     'y = Resize<mode="linear", coordinate_transformation_mode="align_corners">(x, , k)'),
    (f"{IMAGE}, float[2, 3, 4, 3] f",
     "y = ConvTranspose<strides=[2, 3], pads=[1, 0, 1, 1]>(x, f)"),
    (f"{IMAGE}, float[3, 2, 3, 2] f",
     'y = Conv<auto_pad="SAME_UPPER", strides=[2, 3]>(x, f)'),
    (IMAGE, "y = AveragePool<kernel_shape=[3, 2], strides=[2, 1], pads=[1, 1, 1, 0], "
     "ceil_mode=1>(x)"),
    (f"{IMAGE}, float[1, h, 3, 2] g", 'y = GridSample<padding_mode="reflection">(x, g)'),
    (f"{IMAGE}, float[1, 8, h, w] g, float[3, 2, 2, 2] f",
     "o = Tanh(g) y = DeformConv<pads=[1, 0, 0, 1]>(x, f, o)"),
    (IMAGE, f"{MISSING} y = Pad(x, p, , s)"),
    (IMAGE, f'{MISSING} y = Pad<mode="reflect">(x, p, , s)'),
    (f"{IMAGE}, float v", f"{MISSING} y = Pad(x, p, v, s)"),
    (IMAGE, f"{MISSING} q = Neg(p) y = Pad(x, q, , s)"),
    (IMAGE, "size = Shape<start=2>(x) four = Constant<value_int=4>() part = Div(size, four)"
     "cut = Neg(part) p = Concat<axis=0>(cut, size) s = Constant<value_ints=[2, 3]>()"
     'y = Pad<mode="edge">(x, p, , s)'),
    (IMAGE, "p = Constant<value_ints=[0, 0, -1, 2, 0, 1, 1, -2]>() y = Pad(x, p)"),
    (IMAGE, "p = Constant<value_ints=[0, 0, -1, 2, 0, 1, 1, -2]>()"
     'y = Pad<mode="reflect">(x, p)'),
    (f"{IMAGE}, float[1, 2, 5, 5] g", "a = Shape<start=2>(x) b = Shape<start=2>(g)"
     "c = Sub(b, a) n = Constant<value_ints=[0, 0]>() p = Concat<axis=0>(n, c)"
     "s = Constant<value_ints=[2, 3]>() d = Pad(x, p, , s) y = Add(d, g)"),
    ("float[h, w, 3] x, int64[w] n", "y = ReverseSequence(x, n)"),
    ("float[w, h, 8] x, float[12, 2] c, float[12, 2] s, int64[w, h] n",
     "y = RotaryEmbedding<num_heads=2>(x, c, s, n)"),
    ("float[h, w] x", "y = RandomNormalLike<seed=1.0>(x)"),
    ("float[h, w] x", "a = Shape<start=1>(x) z = ConstantOfShape(a) f, y = Scan<"
     "num_scan_inputs=1, body=step (float[w] s, float[w] p) => (float[w] t, float[w] o)"
     "{ t = Add(s, p) o = Tanh(t) }>(z, x)"),
    (IMAGE, "p = MaxPool<kernel_shape=[2, 2], strides=[2, 2]>(x) l = Shape<start=2>(x)"
     "z = Constant<value_ints=[0, 0, -1]>() c = Reshape(p, z) t = Concat<axis=1>(c, c)"
     "v = Constant<value_ints=[2, 2]>() y = Col2Im<strides=[2, 2]>(t, l, v)"),
]  # fmt: skip


@pytest.mark.parametrize("inputs, body", turn_of(OPERATORS, 3))
def test_a_compiled_operator_answers_as_that_of_each_size(inputs, body):
    head = '<ir_version: 10, opset_import: ["": 23]>'
    proto = parser.parse_model(f"{head} g ({inputs}) => (float[o] y) {{ {body} }}")
    shapes = {"h": range(3, 13), "w": range(3, 13)}
    rng = np.random.default_rng(0)
    with rcompiler.compile_onnx(
        proto, shapes=shapes, buckets=whole_ranges(proto, shapes), **OPTIONS
    ) as model:
        for h, w in ((3, 4), (12, 7), (5, 12)):
            feeds = {}
            for tensor in model.inputs:
                shape = tensor.shape_at({"h": h, "w": w})
                feeds[tensor.name] = rng.standard_normal(shape).astype(np.float32)
                if tensor.dtype in ("int64", "uint32"):  # the latter is a random key
                    feeds[tensor.name] = rng.integers(0, 4, shape).astype(tensor.dtype)
            exact = {t.name: feeds[t.name].shape for t in without_key(model.inputs)}
            (found,) = model(**feeds)
            with rcompiler.compile_onnx(proto, shapes=exact, **OPTIONS) as other:
                (expected,) = other(**feeds)
            assert found.shape == expected.shape
            np.testing.assert_allclose(found, expected, 1e-5, 1e-5)


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("place", ["half_pixel", "output_half_pixel"])
def test_regions_of_images_of_all_sizes(mode, place):
    """Also such that go beyond the image, whose end is where it is in the call."""
    onnxruntime = pytest.importorskip("onnxruntime")
    proto = parser.parse_model(f"""
      <ir_version: 8, opset_import: ["": 16]>
      g (float[1, 2, h, w] x, float[n, 4] rois, int64[n] at) => (float[n, 2, 3, 2] y) {{
        y = RoiAlign<output_height = 3, output_width = 2, sampling_ratio = 2, spatial_scale = 0.5,
                     mode = "{mode}", coordinate_transformation_mode = "{place}">(x, rois, at)
      }}""")
    oracle = onnxruntime.InferenceSession(proto.SerializeToString())
    shapes = {"h": range(2, 25), "w": range(2, 25), "n": range(1, 5)}
    with rcompiler.compile_onnx(
        proto, shapes=shapes, buckets=whole_ranges(proto, shapes), **OPTIONS
    ) as model:
        for (h, w), n in zip(((2, 3), (9, 24), (24, 7), (24, 24)), (1, 4, 3, 2), strict=True):
            x = np.random.default_rng(h).standard_normal((1, 2, h, w)).astype(np.float32)
            corners = np.sort(np.random.default_rng(w).uniform(-2, 60, (n, 2, 2)), 1)
            feeds = {"x": x, "rois": corners.reshape(n, 4).astype(np.float32)}
            feeds["at"] = np.zeros(n, np.int64)
            np.testing.assert_allclose(
                model(*feeds.values())[0], oracle.run(None, feeds)[0], 1e-4, 1e-5
            )
