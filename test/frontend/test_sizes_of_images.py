"""Operators on images and signals with axes whose sizes are known at run time: one program beside
those of each size."""

import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import parser

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from sized import assert_as_exact, feeds_of, parsed, sized_answers

from rcompiler.errors import ShapeError, UnsupportedOp
from rcompiler.frontend import check, import_onnx


def case(inputs, body, least=1, outputs="float[o] y", opset=21, indices=None, step=1, name=""):
    """step: sizes are multiples of this number."""
    return pytest.param(
        parsed(inputs, body, outputs, opset), least, step, indices, id=name or f"{body}-{inputs}"
    )


IMAGE = "float[b, 2, h, w] x"
LINE = "float[1, 2, h] x"


def resize(scales, inputs=IMAGE, least=1, given="scales", kind="float", opset=19, **attributes):
    told = ", ".join(f"{k}={v!r}".replace("'", '"') for k, v in attributes.items())
    values = ", ".join(map(str, scales))
    const, inner = ("floats", "x, , s") if given == "scales" else ("ints", "x, , , s")
    body = f"s = Constant<value_{const}=[{values}]>() y = Resize<{told}>({inner})"
    name = f"resize-{values}-{inputs}-{told}"
    return case(inputs, body, least, f"{kind}[o] y", opset, name=name)


TO_SKIP = (
    "a = Shape<start=0, end=2>(x) s = Shape<start=2>(z) t = Concat<axis=0>(a, s)"
    "y = Resize<{}>(x, , , t)"
)
BOTH = f"{IMAGE}, float[b, 2, r, q] z"
PLACES = ("asymmetric", "half_pixel", "pytorch_half_pixel", "align_corners",
          "half_pixel_symmetric")  # fmt: skip

STEP = (
    "step (float[b, 2] s, float[b, 2] p) => (float[b, 2] t, float[b, 2] o)"
    "{ m = Mul(s, s) t = Add(m, p) o = Tanh(t) }"
)

CASES = [
    # Resize
    *(resize(scales, mode="nearest", coordinate_transformation_mode=mode, nearest_mode=how)
      for scales in ([1.0, 1.0, 2.0, 2.0], [1.0, 1.0, 1.6, 3.0])
      for mode, how in (("asymmetric", "floor"), ("half_pixel", "round_prefer_floor"),
                        ("half_pixel", "ceil"), ("align_corners", "round_prefer_ceil"))),
    *(resize([1.0, 1.0, 2.0, 1.5], mode="linear", coordinate_transformation_mode=mode)
      for mode in PLACES),
    resize([1.0, 1.0, 0.5, 0.4], least=3, mode="nearest"),
    resize([1.0, 1.0, 0.5, 0.4], least=3, mode="linear"),
    resize([1.0, 1.0, 0.5, 0.4], least=3, mode="linear", antialias=1),
    resize([1.0, 1.0, 2.0, 0.7], least=2, mode="cubic", cubic_coeff_a=-0.5),
    resize([1.0, 1.0, 2.0, 0.7], least=2, mode="cubic", exclude_outside=1),
    resize([1.0, 1.0, 0.5, 0.7], least=2, mode="cubic", exclude_outside=1, antialias=1),
    resize([2.0], LINE, axes=[2], mode="linear"),
    resize([1.0, 1.0, 2.0], "int8[1, 2, h] x", kind="int8", mode="linear"),
    resize([1.0, 1.0, 2.0], "float16[1, 2, h] x", kind="float16", mode="linear"),
    resize([7], LINE, axes=[2], given="sizes", mode="linear"),
    resize([7], LINE, axes=[2], given="sizes", mode="nearest"),
    *(case(BOTH, TO_SKIP.format(told), name=f"to-skip-{told}") for told in (
        'mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"',
        'mode="linear"', 'mode="linear", coordinate_transformation_mode="align_corners"',
        'mode="cubic", coordinate_transformation_mode="pytorch_half_pixel"')),
    case(LINE, "a = Shape(x) m = Constant<value_ints=[1, 1, 3]>() t = Mul(a, m)"
         'y = Resize<mode="linear">(x, , , t)', name="to-three-times"),
    case(IMAGE, 's = Constant<value=float[4] {1, 1, 2, 2.5}>() y = Upsample<mode="linear">(x, s)',
         opset=9),
    case(LINE, "s = Constant<value=float[3] {1, 1, 0.6}>() y = Resize(x, s)", 2, opset=10),
    # ConvTranspose
    *(case(f"{IMAGE}, float[2, 3, {k}, {k}] f", f"y = ConvTranspose<{told}>(x, f)", least)
      for k, least, told in (
          (2, 1, "strides=[2, 2]"), (3, 2, "strides=[2, 2], pads=[1, 1, 1, 1]"),
          (4, 1, "strides=[2, 2], pads=[1, 1, 1, 1]"),
          (3, 2, "strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1]"),
          (3, 1, "strides=[2, 1], dilations=[2, 2]"), (3, 1, "strides=[3, 2]"),
          (3, 1, 'strides=[2, 2], auto_pad="SAME_UPPER"'), (3, 3, "pads=[0, 1, 2, 1]"))),
    case(f"{LINE}, float[2, 1, 8] f, float[2] c",
         "y = ConvTranspose<strides=[4], pads=[2, 2], group=2>(x, f, c)"),
    # blocks
    case("float[b, 8, h, w] x", "y = DepthToSpace<blocksize=2>(x)"),
    case("float[b, 8, h, w] x", 'y = DepthToSpace<blocksize=2, mode="CRD">(x)'),
    case(IMAGE, "y = SpaceToDepth<blocksize=2>(x)", 2, step=2),
    # pooling
    *(case(IMAGE, f"y = AveragePool<kernel_shape=[3, 2], count_include_pad={c}, {told}>(x)", 4)
      for c in (0, 1) for told in (
          "strides=[2, 2], pads=[1, 1, 1, 0]", "strides=[2, 1], pads=[0, 0, 1, 1]",
          "dilations=[2, 1], pads=[2, 1, 2, 1]", "strides=[2, 1], pads=[1, 0, 0, 0], ceil_mode=1",
          'auto_pad="SAME_LOWER"')),
    case(IMAGE, "y = MaxPool<kernel_shape=[3, 2], strides=[2, 2], ceil_mode=1>(x)", 3),
    case(IMAGE, "y = LpPool<kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2]>(x)", 2),
    # integers
    *(case(f"{kind}[b, 2, h, w] x, int8[3, {2 // g}, 3, 3] f, {kind} z",
           f"y = ConvInteger<pads=[1, 1, 1, 1], strides=[2, 1]>({args})", 1, "int32[o] y",
           indices={"x": (0, 99), "f": (-9, 9), "z": (1, 9)})
      for kind, g, args in (("uint8", 1, "x, f, z"), ("int8", 1, "x, f, z"), ("uint8", 1, "x, f"))),
    case("uint8[b, 2, h, w] x",
         "v = Constant<value=int8[1, 2, 2, 2] {1, -2, 3, 4, 5, -6, 7, 8}>()"
         "p = Constant<value=uint8 {7}>() q = Constant<value=int8 {1}>()"
         "c = Constant<value=float {0.1}>()"
         "y = QLinearConv<pads=[1, 1, 1, 1]>(x, c, p, v, c, q, c, p)", 1, "uint8[o] y",
         indices={"x": (0, 99)}, name="QLinearConv"),
    # places that are computed
    *(case(f"{kind}[b, 2, h, w] x, float[b, h, 4, 2] p",
           f'y = GridSample<mode="{mode}", padding_mode="{padding}", align_corners={corners}>'
           "(x, p)", 1, f"{kind}[o] y", indices={"x": (0, 9)})
      for kind, mode, padding, corners in (
          ("float", "linear", "zeros", 0), ("float", "linear", "border", 1),
          ("float", "cubic", "reflection", 0), ("float", "linear", "reflection", 1),
          ("int32", "nearest", "zeros", 0))),
    *(case(f"float[b, 2, h, w] x, float[b, 8, {size}, {size_w}] p, float[3, 2, 2, 2] f{more}",
           f"o = Mul(p, p) y = DeformConv<{told}>(x, f, o{', , m' if more else ''})", 2)
      for size, size_w, more, told in (
          ("h", "w", "", "pads=[0, 0, 1, 1], kernel_shape=[2, 2]"),
          ("h", "w", ", float[b, 4, h, w] m", "pads=[1, 1, 0, 0], kernel_shape=[2, 2]"))),
    # sequences, signals
    case("float[h, b, 3] x, int64[b] n", "y = ReverseSequence(x, n)", 3, indices={"n": (0, 4)}),
    case("float[b, h, 3] x, int64[b] n", "y = ReverseSequence<time_axis=1, batch_axis=0>(x, n)",
         3, indices={"n": (0, 4)}),
    case("float[b, 2, h, 4] x, float[b, h, 2] c, float[b, h, 2] s", "y = RotaryEmbedding(x, c, s)",
         opset=23),
    case("float[b, h, 8] x, float[9, 2] c, float[9, 2] s, int64[b, h] p",
         "y = RotaryEmbedding<num_heads=2, interleaved=1>(x, c, s, p)", opset=23,
         indices={"p": (0, 9)}),
    case("float[b, h, 8] x, float[9, 1] c, float[9, 1] s, int64[b, h] p", "q = Neg(p)"
         "y = RotaryEmbedding<num_heads=2, rotary_embedding_dim=2>(x, c, s, q)", opset=23,
         indices={"p": (0, 9)}),
    *(case("float[b, h] x", f"y = {op}<seed=1.0>(x)")
      for op in ("RandomNormalLike", "RandomUniformLike", "Bernoulli")),
    case("float[b, 4] x", "y = Multinomial<seed=1.0, sample_size=3>(x)", 1, "int32[o] y"),
    case("float[b, h, 6, 2] x", "y = DFT<axis=2>(x)", opset=17),
    case("float[b, h, 1] x", "n = Constant<value=int64 {5}>() y = DFT<onesided=1>(x, n)",
         opset=17),
    case("float[b, h, 2] x", "n = Constant<value=int64 {9}>() y = DFT(x, n)", opset=17),
    case("float[b, h] x, float[4] v",
         "n = Constant<value=int64 {2}>() y = STFT(x, n, v)", 4, opset=17),
    *(case("float[h, b, 2] x, float[b, 2] i",
           f"f, y = Scan<num_scan_inputs=1, body={STEP}, scan_input_directions=[{way}], "
           f"scan_output_directions=[{back}], scan_output_axes=[{axis}]>(i, x) ",
           3, "float[o] f, float[o] y", name=f"Scan-{way}-{back}-{axis}")
      for way, back, axis in ((0, 0, 0), (1, 0, 1), (0, 1, 0), (1, 1, 0))),
    *(case("float[b, 8, h, w] x",
           f"p = MaxPool<kernel_shape=[{k}, {k}], strides=[{k}, {k}]>(x) l = Shape<start=2>(x)"
           "z = Constant<value_ints=[0, 0, -1]>() c = Reshape(p, z)"
           "v = Constant<value_ints=[2, 2]>()"
           f"y = Col2Im<{told}>(c, l, v)", 3, name=f"Col2Im-{told}")
      for k, told in ((1, "pads=[1, 0, 0, 1]"), (2, "strides=[2, 2]"))),
    # padding that depends on the size
    *(case(f"{IMAGE}, float[3, 2, {k}, 3] f",
           f'y = Conv<auto_pad="SAME_{way}", strides=[{s}, 2], dilations=[1, {d}]>(x, f)')
      for k, s, d, way in ((3, 2, 1, "UPPER"), (4, 3, 2, "LOWER"), (1, 2, 1, "UPPER"),
                           (5, 1, 1, "LOWER"))),
    *(case(IMAGE, f'y = {op}<kernel_shape=[3, 2], strides=[2, 3], auto_pad="SAME_{way}">(x)')
      for op in ("MaxPool", "LpPool", "AveragePool") for way in ("UPPER", "LOWER")),
    case(IMAGE, "y = AveragePool<kernel_shape=[4, 2], strides=[2, 1], count_include_pad=1,"
         'auto_pad="SAME_UPPER">(x)'),
    case("float[1, 2, h, 7] x, float[3, 2, 3, 3] f",
         'y = Conv<auto_pad="SAME_UPPER", strides=[2, 2]>(x, f)'),
    case("uint8[b, 2, h, w] x, int8[3, 2, 3, 3] f, uint8 z",
         'y = ConvInteger<auto_pad="SAME_UPPER", strides=[2, 2]>(x, f, z)', 1, "int32[o] y",
         indices={"x": (0, 99), "f": (-9, 9), "z": (1, 9)}),
    *(case(IMAGE, f'p = Constant<value_ints=[{pads}]>() y = Pad<mode="{mode}">(x, p)')
      for mode in ("reflect", "edge", "wrap", "constant")
      for pads in ("0, 0, 2, 1, 0, 0, 1, 0", "0, 0, 0, 3, 0, 1, 0, 2")),
    case(IMAGE, "a = Constant<value_ints=[0, 1]>() b1 = Constant<value_ints=[1, 1]>()"
         "e = Constant<value_ints=[9999, 9999]>() k = Constant<value_ints=[2, 3]>()"
         "t = Constant<value_ints=[2, 2]>() l = Slice(x, a, e, k, t) m = Slice(x, b1, e, k, t)"
         "y = Concat<axis=1>(l, m)", 2, step=2, name="focus"),
    # one by one
    case(IMAGE, "y = GlobalLpPool<p=1>(x)"),
    case("float[h, w] x", "y = EyeLike<k=1>(x)"),
    case("float[h, 3, 3] x", "y = Det(x)"),
    case("float[h, w] x", "y = BitCast<to=6>(x)", 1, "int32[o] y", opset=26),
]  # fmt: skip


@pytest.mark.parametrize("op", ["Conv", "ConvTranspose"])
def test_a_normalisation_goes_into_the_weights_of_a_convolution(op):
    vectors = " ".join(f"{name} = Constant<value_floats=[0.5, 2.0]>()" for name in "gcmv")
    model = parsed(
        IMAGE,
        f"f = Constant<value=float[2, 2, 1, 2] {{1, -2, 3, 4, 5, -6, 7, 8}}>() {vectors}"
        f"t = {op}(x, f) y = BatchNormalization(t, g, c, m, v)",
        "float[o] y",
    )
    sizes = range(2, 8)
    shapes = {"b": range(1, 3), "h": sizes, "w": sizes}
    lines = import_onnx(model, shapes).module_text.splitlines()
    (first,) = [line for line in lines if line.strip().startswith("%batchnormalization_1 =")]
    assert "reduction" in first  # the convolution itself
    assert_as_exact(model, shapes, [{"b": 1, "h": 2, "w": 3}, {"b": 2, "h": 5, "w": 7}])


@pytest.mark.parametrize("auto", ["NOTSET", "SAME_UPPER"])
def test_a_convolution_of_quantised_images_stays_one_of_integers(auto):
    model = parsed(
        IMAGE,
        "s = Constant<value=float {0.05}>() z = Constant<value=uint8 {7}>()"
        "q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z)"
        "v = Constant<value=int8[1, 2, 2, 2] {1, -2, 3, 4, 5, -6, 7, 8}>()"
        f'e = DequantizeLinear(v, s) y = Conv<strides=[2, 2], auto_pad="{auto}">(d, e)',
        "float[o] y",
    )
    sizes = range(2, 8)
    shapes = {"b": range(1, 3), "h": sizes, "w": sizes}
    cases = [{"b": 1, "h": 2, "w": 3}, {"b": 2, "h": 5, "w": 7}]
    assert_as_exact(model, shapes, cases, tolerance=0)
    assert "xi8>, tensor<1x2x2x2xi8>) outs(" in import_onnx(model, shapes).module_text


TREE = (
    "nodes_treeids=[0, 0, 0], nodes_nodeids=[0, 1, 2], nodes_featureids=[1, 0, 0],"
    'nodes_values=[0.2, 0.0, 0.0], nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"],'
    "nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 0, 0],"
)
LEAVES = "_treeids=[0, 0], {0}_nodeids=[1, 2], {0}_ids=[0, 1], {0}_weights=[0.5, 2.0]"
ROWS = [
    ("Scaler<offset=[1.0, 2.0], scale=[2.0, 3.0]>(x)", "y"),
    ('Normalizer<norm="L2">(x)', "y"),
    ("Imputer<imputed_value_floats=[1.0, 2.0], replaced_value_float=0.0>(x)", "y"),
    ("Binarizer<threshold=0.1>(x)", "y"),
    ("LinearRegressor<coefficients=[1.0, 2.0], intercepts=[0.5]>(x)", "y"),
    ("LinearClassifier<coefficients=[1.0, 2.0, -1.0, 1.0], intercepts=[0.5, 1.0],"
     'classlabels_ints=[3, 4], post_transform="SOFTMAX">(x)', "l, y"),
    (f"TreeEnsembleRegressor<{TREE} n_targets=2, target{LEAVES.format('target')}>(x)", "y"),
    (f"TreeEnsembleClassifier<{TREE} classlabels_int64s=[5, 6], class{LEAVES.format('class')}>(x)",
     "l, y"),
    ('SVMRegressor<kernel_type="LINEAR", coefficients=[1.0, -1.0], support_vectors='
     "[1.0, 0.0, 0.5, 2.0], n_supports=2, rho=[0.1], kernel_params=[1.0, 0.0, 1.0]>(x)", "y"),
    ("FeatureVectorizer<inputdimensions=[2, 2]>(x, x)", "y"),
]  # fmt: skip


@pytest.mark.parametrize("call, results", ROWS, ids=[call.split("<")[0] for call, _ in ROWS])
def test_classical_models_take_any_number_of_rows(call, results):
    head = '<ir_version: 10, opset_import: ["": 21, "ai.onnx.ml": 3]>'
    label = ", int64[o] l" if "l" in results else ""
    body = f"{results} = ai.onnx.ml.{call}"
    model = parser.parse_model(f"{head} g (float[n, 2] x) => (float[o] y{label}) {{ {body} }}")
    assert_as_exact(model, {"n": range(1, 8)}, [{"n": 1}, {"n": 5}, {"n": 7}])


@pytest.mark.parametrize("model, least, step, indices", CASES)
def test_one_program_answers_as_that_of_each_size(model, least, step, indices):
    names = [
        dim.dim_param
        for value in model.graph.input
        for dim in value.type.tensor_type.shape.dim
        if dim.dim_param
    ]
    shapes = {name: range(1, 4) if name == "b" else range(least, 8) for name in names}
    cases = []
    for number, size in enumerate((least, least + 1, 5, 7)):
        size = -(-size // step) * step
        if size < 8:
            cases.append({name: size for name in shapes})
            cases[-1]["w"] = min(size + step * (number % 2), 7 // step * step)
            cases[-1]["b"] = 1 + number % 3
    kept = [{name: case[name] for name in shapes} for case in cases]
    assert_as_exact(model, shapes, kept, indices=indices)


HALVES = (
    "p = MaxPool<kernel_shape=[2], strides=[2]>(x) s = Constant<value_floats=[1.0, 1.0, 2.0]>()"
    "u = Resize(p, , s) "
)


@pytest.mark.parametrize("join", ["Concat<axis=1>(x, u)", "Concat<axis=1>(u, x)", "Add(u, x)"])
def test_sizes_that_have_to_be_one_are_looked_at_in_a_call(join):
    model = parsed(LINE, f"{HALVES} y = {join}", "float[o] y")
    for most in (10, 11):
        shapes = {"h": range(4, most + 1)}
        assert_as_exact(model, shapes, [{"h": size} for size in (4, 6, 10)])
        bound = import_onnx(model, shapes)
        feeds = feeds_of(bound.inputs, {"h": 7}, np.random.default_rng(0))
        _, said = sized_answers(bound, feeds, {"h": 7})
        assert [int(each) for each in said] == [1, 6]
        with pytest.raises(ShapeError):
            import_onnx(model, {"h": 7})


def test_sizes_that_are_repeated_where_they_are_one_are_refused():
    body = HALVES.replace("[2], strides", "[1], strides") + "y = Add(x, u)"
    model = parsed(LINE, body, "float[o] y")
    with pytest.raises(UnsupportedOp, match="elements along an axis"):
        import_onnx(model, {"h": range(1, 9)})


PAIR = "step (float[b, 2] s, float[b, 2] p) => (float[b, 2] t) { t = Add(s, p) }"


@pytest.mark.parametrize(
    "inputs, body, least, said",
    [
        (IMAGE, "y, i = MaxPool<kernel_shape=[2, 2]>(x)", 2, "places of maxima"),
        (IMAGE, "y = MaxPool<kernel_shape=[2, 2], strides=[2, 3], ceil_mode=1>(x)", 2,
         "begins in the padding"),
        (f"{IMAGE}, float[2, 3, 2, 2] f", "y = ConvTranspose<output_shape=[8, 8]>(x, f)", 1,
         "output_shape gives one size"),
        (f"{IMAGE}, float[2, 3, 1, 1] f", "y = ConvTranspose<pads=[1, 1, 1, 1]>(x, f)", 1,
         "nothing may be left along axis 2"),
        (IMAGE, "k = Constant<value_ints=[9, 9]>()"
         'y = Resize<axes=[2, 3], keep_aspect_ratio_policy="not_larger">(x, , , k)', 1,
         "compares the sizes"),
        (LINE, "r = Constant<value_floats=[0.0, 0.0, 0.2, 1.0, 1.0, 0.8]>()"
         "k = Constant<value_floats=[1.0, 1.0, 2.0]>()"
         'y = Resize<coordinate_transformation_mode="tf_crop_and_resize">(x, r, k)', 1,
         "a region is cut out"),
        ("float[b, h, 2] x", "y = DFT<axis=1>(x)", 1, "the length of the transform; give one as"),
        ("float[b, h] x", "n = Constant<value=int64 {2}>() y = STFT(x, n)", 4,
         "the length of a frame; give one as frame_length"),
        ("float[b, h] x, float[4] v", "n = Constant<value=int64 {2}>() y = STFT(x, n, v)", 1,
         "there may be no frame of 4 in h elements"),
        ("float[4, b, h, 8] x, float[q, h, 4] c", "y = RotaryEmbedding(x, c, c)", 1,
         "along axis 1"),
        ("float[b, 2, h, 8] x, float[q, h, 4] c", "y = RotaryEmbedding(x, c, c)", 1,
         "q rows may be one for all of b"),
        ("float[h, b, 2] x, float[q, b, 2] z", f"y = Scan<num_scan_inputs=2, body={PAIR}>(x, z)",
         1, "it scans h and q elements"),
        (LINE, 'k = Constant<value_ints=[3]>() y = Resize<axes=[2], antialias=1, mode="linear">'
         "(x, , , k)", 1, "antialiasing adds up"),
    ],
)  # fmt: skip
def test_what_depends_on_the_size_is_refused_by_name(inputs, body, least, said):
    model = parsed(inputs, body, "float[o] y", opset=23 if "Rotary" in body else 19)
    open_ = {dim.dim_param for value in model.graph.input for dim in
             value.type.tensor_type.shape.dim if dim.dim_param}  # fmt: skip
    shapes = {name: range(1, 3) if name in "bq" else range(least, 8) for name in open_}
    gap = check(model, shapes)[0]
    assert said in gap.reason and gap.op in body
    assert gap.remedy == "Give sizes in shapes, in the place of ranges"
