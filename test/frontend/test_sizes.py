"""Operators on tensors whose sizes are known at run time: one program beside those of each size."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from sized import assert_as_exact, feeds_of, parsed, sized_answers

from rcompiler.errors import ShapeError, UnsupportedOp
from rcompiler.frontend import check, import_onnx

SEQ = {"seq": range(1, 8)}
ALL = [{"seq": 1}, {"seq": 4}]


def case(inputs, body, outputs="float[o] y", name="", indices=None, opset=21, cases=ALL):
    return pytest.param(parsed(inputs, body, outputs, opset), cases, indices, id=name or body[:60])


X = "float[2, seq, 4] x"
SQUARE = "float[seq, seq] x"

CASES = [
    # element by element
    case(X, "y = Relu(x)"),
    case(f"{X}, float[4] b", "y = Add(x, b)"),
    case(f"{X}, float[seq, 1] b", "y = Mul(x, b)"),
    case(f"{X}, float[2, 1, 1] b", "t = Sub(x, b) z = Sigmoid(t) y = Max(z, x)"),
    case("int64[seq] x, int64[seq] b", "y = Div(x, b)", "int64[o] y"),
    case("int64[seq] x, int64[seq] b", "y = Mod(x, b)", "int64[o] y", indices={"b": (1, 4)}),
    case(X, "c = Constant<value_float=0.5>() g = Greater(x, c) y = Where(g, x, c)"),
    case(X, "y = Gelu(x)"),
    case(X, "y = Cast<to=11>(x)", "double[o] y"),
    case("float[seq, seq] x", "y = Trilu<upper=0>(x)"),
    case("float[3, seq] x", "k = Constant<value=int64 {1}>() y = Trilu(x, k)"),
    # shapes
    case(X, "y = Transpose<perm=[1, 2, 0]>(x)"),
    case(X, "s = Constant<value_ints=[2, -1]>() y = Reshape(x, s)"),
    case(X, "s = Constant<value_ints=[0, -1, 2, 2]>() y = Reshape(x, s)"),
    case(X, "s = Constant<value_ints=[-1, 4]>() y = Reshape(x, s)", name="not-leading"),
    case(X, "s = Constant<value_ints=[-1]>() y = Reshape(x, s)", name="flat"),
    case(X, "t = Transpose<perm=[1,0,2]>(x) s = Constant<value_ints=[-1, 2]>() y = Reshape(t, s)"),
    case(X, "y = Flatten<axis=2>(x)"),
    case(X, "y = Flatten(x)"),
    case("float[seq, 1, 4] x", "a = Constant<value_ints=[1]>() y = Squeeze(x, a)"),
    case("float[seq, 1, 4] x", "y = Squeeze(x)", cases=ALL[1:]),
    case(X, "a = Constant<value_ints=[0, 3]>() y = Unsqueeze(x, a)"),
    case(X, "y = Shape(x)", "int64[o] y"),
    case(X, "y = Size(x)", "int64 y"),
    case(X, "s = Shape<start=1, end=2>(x) c = Constant<value_ints=[3]>() y = Mul(s, c)",
         "int64[o] y"),
    case("float[seq, 4] x",
         "n = Shape(x) c = Constant<value_ints=[0, 4]>() d = Sub(n, c)"
         "h = Constant<value_ints=[2]>() y = Div(d, h)", "int64[2] y", name="half of nothing"),
    case("float[1, 1, 4] x, float[seq] z",
         "n = Shape(z) a = Constant<value_ints=[2]>() b = Constant<value_ints=[4]>()"
         "s = Concat<axis=0>(a, n, b) y = Expand(x, s)", name="expand"),
    case(X, "s = Constant<value_ints=[3, 1, 1, 1]>() y = Expand(x, s)"),
    case("float[seq] x", "n = Shape(x) y = ConstantOfShape<value = int64[1] {7}>(n)", "int64[o] y"),
    case("float[seq] x",
         "n = Size(x) a = Constant<value=int64 {0}>() b = Constant<value=int64 {1}>()"
         "y = Range(a, n, b)", "int64[o] y", name="range"),
    case("float[seq] x",
         "n = Size(x) b = Constant<value=int64 {1}>() m = Add(n, b) o2 = Add(m, n)"
         "y = Range(m, o2, b)", "int64[o] y", name="range-from"),
    case("float[seq] x",
         "n = Size(x) a = Constant<value=int64 {0}>() b = Constant<value=int64 {2}>()"
         "y = Range(a, n, b)", "int64[o] y", name="range-in-steps"),
    case("float[seq] x",
         "n = Size(x) f = Cast<to=1>(n) a = Constant<value=float {0.0}>()"
         "b = Constant<value=float {1.0}>() r = Range(a, f, b) y = Add(x, r)",
         name="range-of-floats"),
    case("float[seq] x",
         "n = Size(x) f = Cast<to=1>(n) a = Constant<value=float {0.5}>()"
         "b = Constant<value=float {1.0}>() r = Range(a, f, b) y = Add(x, r)", name="from-a-half"),
    case("float[seq] x",
         "n = Size(x) f = Cast<to=11>(n) a = Constant<value=double {3.0}>() m = Mul(f, a)"
         "c = Div(m, f) b = Constant<value=double {-1.0}>() z = Constant<value=double {0.0}>()"
         "d = Div(m, a) g = Floor(d) r = Range(g, z, b) k = Cast<to=1>(r) e = Cast<to=1>(c)"
         "s = Mul(k, e) y = Add(x, s)", name="floats-that-are-sizes"),
    # torch.roll, as it is exported
    *(case("float[seq] x",
           f"k = Constant<value_ints=[{shift}]>() n = Shape(x) m = Mod(k, n)"
           "z = Constant<value_ints=[0]>() a = Slice(x, m, n, z) b = Slice(x, z, m, z)"
           "c = Concat<axis=0>(a, b) y = Add(c, x)", name=f"roll-{shift}",
           cases=[{"seq": 4}, {"seq": 7}])
      for shift in (3, -3)),
    case("float[seq] x",
         "n = Size(x) f = Cast<to=1>(n) a = Constant<value=float {2.0}>() h = Div(f, a)"
         "y = Mul(x, h)", name="half-of-a-size"),
    case("float[seq] x",
         "n = Size(x) f = Cast<to=10>(n) k = Constant<value=float {1000.0}>()"
         "a = Cast<to=10>(k) h = Mul(f, a) g = Cast<to=1>(h) y = Mul(x, g)",
         name="more-than-f16-holds"),
    case(X, "s = Constant<value_ints=[2, 1, 3]>() y = Tile(x, s)"),
    case(X, "s = Constant<value_ints=[1, 2, 1]>() y = Tile(x, s)"),
    case("float[1, 3] x, float[seq] z",
         "n = Shape(z) o1 = Constant<value_ints=[1]>() s = Concat<axis=0>(n, o1) y = Tile(x, s)",
         name="tile-to"),
    case("float[1, 2, seq] x, float[2, 2, 1] w",
         "a = Conv<strides=[2]>(x, w) b = Conv<strides=[2]>(a, w) c = Conv<strides=[4]>(x, w)"
         "y = Add(b, c)", name="quotients-of-quotients"),
    case("float[seq] z, float[2] x",
         "n = Shape(z) h = Constant<value_ints=[2]>() k = Div(n, h) y = Tile(x, k)",
         name="tile-to-half"),
    # pieces
    case(X, "y = Concat<axis=0>(x, x)"),
    case(X, "y = Concat<axis=1>(x, x)"),
    case(f"{X}, float[2, 3, 4] b", "y = Concat<axis=1>(x, b, x)"),
    case(f"{X}, float[2, 3, 4] b", "y = Concat<axis=1>(b, x)"),
    case(X, "y, z = Split<axis=2, num_outputs=2>(x)"),
    case(X, "s = Constant<value_ints=[1]>() e = Constant<value_ints=[9999]>()"
         "a = Constant<value_ints=[1]>() y = Slice(x, s, e, a)", cases=ALL[1:]),
    case(X, "s = Constant<value_ints=[-1]>() e = Constant<value_ints=[9223372036854775807]>()"
         "a = Constant<value_ints=[1]>() y = Slice(x, s, e, a)", name="last"),
    case(X, "s = Constant<value_ints=[0]>() e = Constant<value_ints=[-1]>()"
         "a = Constant<value_ints=[1]>() y = Slice(x, s, e, a)",
         name="all-but-last", cases=ALL[1:]),
    case(X, "s = Constant<value_ints=[-1]>() e = Constant<value_ints=[-9223372036854775807]>()"
         "a = Constant<value_ints=[1]>() t = Constant<value_ints=[-1]>()"
         "y = Slice(x, s, e, a, t)", name="backward"),
    case("float[seq] z, float[1, 9] x",
         "n = Shape(z) s = Constant<value_ints=[0]>() a = Constant<value_ints=[1]>()"
         "y = Slice(x, s, n, a)", name="up-to"),
    case("float[seq] z, float[16, 2] x",
         "n = Shape(z) m = Add(n, n) a = Constant<value_ints=[0]>() y = Slice(x, n, m, a)",
         name="from-to"),
    case("float[seq] z, float[16, 2] x",
         "n = Size(z) i = Constant<value_ints=[1, 5]>() w = Gather(x, i) y = Mul(w, w)"),
    case(X, "i = Constant<value=int64 {-1}>() y = Gather<axis=1>(x, i)"),
    case(X, "i = Constant<value=int64 {0}>() y = Gather<axis=1>(x, i)"),
    case(X, "i = Constant<value_ints=[0, -1]>() y = Gather<axis=1>(x, i)"),
    case("float[9, 4] x, int64[2, seq] i", "y = Gather(x, i)", indices={"i": (-9, 9)}),
    case("float[9, 4] x, int64[2, seq] i", "j = Neg(i) y = Gather(x, j)", indices={"i": (-8, 10)}),
    case("float[seq, 4] x, int64[3] i", "y = Gather(x, i)", indices={"i": (-1, 1)}),
    case(X, "p = Constant<value_ints=[1, 2, 0, 0, 1, 1]>() y = Pad(x, p)"),
    # products
    case(f"{X}, float[4, 3] w", "y = MatMul(x, w)"),
    case(f"{X}, float[2, seq, 5] w", "t = Transpose<perm=[0,2,1]>(x) y = MatMul(t, w)"),
    case("float[seq, 4] x, float[seq, 4] w", "y = Gemm<transB=1>(x, w)"),
    case("float[seq, 4] x, float[seq, 3] w, float[3] c", "y = Gemm<transA=1>(x, w, c)"),
    case("float[seq, 4] x, float[4, 3] w, float[seq, 1] c", "y = Gemm<alpha=0.5>(x, w, c)"),
    case(X, 'y = Einsum<equation="bsh,bth->bst">(x, x)'),
    case(X, 'y = Einsum<equation="bsh,bsk->bhk">(x, x)'),
    case(X, 'y = Einsum<equation="bsh->b">(x)'),
    case("float[seq, 3, 5, 5] x, float[4, 3, 3, 3] w",
         "y = Conv<pads=[1,1,1,1], strides=[2,2]>(x, w)"),
    case("float[seq, 4, 5, 5] x, float[4, 2, 3, 3] w", "y = Conv<group=2>(x, w)"),
    case("float[1, 3, seq] x, float[4, 3, 3] w", "y = Conv<pads=[1,1]>(x, w)"),
    case("float[seq, 3, 4, 4] x, float[3, 2, 2, 2] w", "y = ConvTranspose<strides=[2,2]>(x, w)"),
    # along axes
    *(case(X, f"a = Constant<value_ints=[1]>() y = {op}(x, a)") for op in (
        "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSumSquare",
        "ReduceL1", "ReduceL2", "ReduceLogSumExp")),
    *(case(X, f"{op}", name=f"{op}-beside") for op in (
        "a = Constant<value_ints=[2]>() y = ReduceMean<keepdims=0>(x, a)", "y = ReduceMean(x)",
        "a = Constant<value_ints=[-1]>() y = ReduceLogSumExp(x, a)")),
    case("int64[seq, 3] x", "a = Constant<value_ints=[0]>() y = ReduceMax(x, a)", "int64[o] y",
         indices={"x": (-9, 9)}),
    *(case(X, f"y = {op}<axis={axis}>(x)") for op in ("Softmax", "LogSoftmax", "Hardmax")
      for axis in (1, 2)),
    case(X, "y = Softmax(x)", opset=11, name="softmax-11"),
    case(f"{X}, float[4] g, float[4] b", "y = LayerNormalization(x, g, b)"),
    case("float[seq, 4, 3, 3] x, float[4] g, float[4] b", "y = InstanceNormalization(x, g, b)"),
    case("float[seq, 4, 3, 3] x, float[4] g, float[4] b",
         "y = GroupNormalization<num_groups=2>(x, g, b)"),
    case("float[seq, 4, 3, 3] x, float[4] g, float[4] b, float[4] m, float[4] w",
         "v = Abs(w) y = BatchNormalization(x, g, b, m, v)"),
    case(X, "y = LpNormalization<axis=1>(x)"),
    case(X, "a = Constant<value=int64 {1}>() y = CumSum(x, a)"),
    case(X, "a = Constant<value=int64 {1}>() y = CumSum<reverse=1>(x, a)"),
    case(X, "y = ArgMax<axis=1>(x)", "int64[o] y"),
    case(X, "y = ArgMin<axis=1, keepdims=0>(x)", "int64[o] y"),
    case(X, "k = Constant<value_ints=[1]>() y, z = TopK<axis=1>(x, k)",
         "float[o] y, int64[p] z"),
    case(X, "k = Constant<value_ints=[2]>() y, z = TopK(x, k)", "float[o] y, int64[p] z"),
    case("float[seq, 2, 6] x", "y = MaxPool<kernel_shape=[3], strides=[2], pads=[1, 1]>(x)"),
    case("float[1, 2, seq] x", "y = MaxPool<kernel_shape=[3], pads=[1, 1]>(x)"),
    case("float[1, 2, seq] x", "y = AveragePool<kernel_shape=[1]>(x)"),
    case("float[2, 3, seq] x, float[3] g, float[3] o", "y = InstanceNormalization(x, g, o)"),
    case("float[1, 2, seq] x", "y = MaxPool<kernel_shape=[3], strides=[2], pads=[1, 1]>(x)",
         name="pool-apart"),
    case("float[1, 2, seq] x, float[3, 2, 3] w",
         "a = Conv<strides=[2], pads=[1, 1]>(x, w) b = Conv<strides=[2], pads=[1, 1]>(x, w)"
         "c = Relu(b) d = Add(a, c) m = GlobalAveragePool(d) y = Sub(d, m)", name="windows-apart"),
    case("float[seq, 2, 3, 3] x", "y = GlobalAveragePool(x)"),
    case("float[2, 2, seq] x", "y = GlobalAveragePool(x)"),
    case("float[2, 2, seq] x", "y = GlobalMaxPool(x)"),
    # recurrent
    *(case(f"float[seq, 2, 3] x, float[{d}, {g * 4}, 3] w, float[{d}, {g * 4}, 4] r",
           f'y, h = {op}<hidden_size=4, direction="{way}">(x, w, r)', "float[o] y, float[p] h",
           name=f"{op}-{way}")
      for op, g in (("LSTM", 4), ("GRU", 3), ("RNN", 1))
      for way, d in (("forward", 1), ("reverse", 1), ("bidirectional", 2))),
    case("float[seq, 2, 3] x, float[1, 16, 3] w, float[1, 16, 4] r",
         "y, h, c = LSTM<hidden_size=4>(x, w, r)", "float[o] y, float[p] h, float[p] c",
         name="LSTM-cells"),
    case("float[4, seq, 3] x, float[1, 16, 3] w, float[1, 16, 4] r",
         "y, h, c = LSTM<hidden_size=4>(x, w, r)", "float[o] y, float[p] h, float[p] c",
         name="LSTM-batch"),
    case("float[2, seq, 3] x, float[1, 16, 3] w, float[1, 16, 4] r, int32[2] n",
         "y, h = LSTM<hidden_size=4, layout=1>(x, w, r, , n)", "float[o] y, float[p] h",
         indices={"n": (1, 5)}, name="LSTM-lengths", cases=ALL[1:]),
    case("float[4, seq, 3] x, float[1, 16, 3] w, float[1, 16, 4] r, int32[seq] n",
         "m = Add(n, n) y, h = LSTM<hidden_size=4>(x, w, r, , m)", "float[o] y, float[p] h",
         indices={"n": (0, 3)}, name="LSTM-lengths-of-a-batch"),
    case("float[2, seq, 3] x, float[1, 16, 3] w, float[1, 16, 4] r",
         "y, h = LSTM<hidden_size=4, layout=1>(x, w, r)", "float[o] y, float[p] h",
         name="LSTM-layout"),
    # images, places
    case("float[seq, 2, 3, 3] x",
         "s = Constant<value_floats=[1.0, 1.0, 2.0, 2.0]>() y = Resize(x, , s)"),
    case("float[seq, 8, 3, 3] x", "y = DepthToSpace<blocksize=2>(x)"),
    case("int64[seq] x", "d = Constant<value_ints=[3]>() v = Constant<value_floats=[0.0, 1.0]>()"
         "y = OneHot(x, d, v)"),
    case("float[1, 4, seq, 8] q, float[1, 2, seq, 8] k, float[1, 2, seq, 6] v",
         "y = Attention<is_causal=1>(q, k, v)", opset=23),
    case("float[1, seq, 32] q, float[1, seq, 16] k, float[1, seq, 12] v, float[seq, seq] m",
         "y = Attention<q_num_heads=4, kv_num_heads=2>(q, k, v, m)", opset=23,
         name="attention-3d"),
    # quantised
    case("uint8[2, seq, 4] x, uint8[4, 3] w", "y = MatMulInteger(x, w)", "int32[o] y"),
    case("float[seq, 4] x, float[4, 3] w",
         "s = Constant<value=float {0.05}>() z = Constant<value=uint8 {128}>()"
         "q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z)"
         "v = QuantizeLinear(w, s, z) e = DequantizeLinear(v, s, z) y = MatMul(d, e)",
         name="quantised-product"),
    case("float[seq, 4] x", "s = Constant<value=float {0.1}>() z = Constant<value=int8 {3}>()"
         "q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, s, z)", name="quantised"),
    case("float[seq, 4] x", "q, s, z = DynamicQuantizeLinear(x) y = DequantizeLinear(q, s, z)"),
]  # fmt: skip


@pytest.mark.parametrize("model, cases, indices", CASES)
def test_one_program_answers_as_that_of_each_size(model, cases, indices):
    least = min(c["seq"] for c in cases)
    assert_as_exact(model, {"seq": range(least, 8)}, cases, indices=indices)


BOTH = {"past": range(0, 6), "new": range(1, 4)}


@pytest.mark.parametrize(
    "inputs, body, outputs, opset",
    [
        (
            "float[1,4,new,8] q, float[1,2,new,8] k, float[1,2,new,6] v, "
            "float[1,2,past,8] pk, float[1,2,past,6] pv",
            "y, a, b = Attention<is_causal=1>(q, k, v, , pk, pv)",
            "float[o] y, float[p] a, float[r] b",
            23,
        ),
        (
            "float[1,2,new,8] q, float[1,2,new,8] k, float[1,2,past,8] pk",
            "c = Concat<axis=2>(pk, k) t = Transpose<perm=[0,1,3,2]>(c) s = MatMul(q, t) "
            "p = Softmax(s) y = MatMul(p, c)",
            "float[o] y",
            21,
        ),
        (
            "float[new,past] x",
            "n = Shape(x) z = ConstantOfShape(n) y = Add(x, z)",
            "float[o] y",
            21,
        ),
    ],
    ids=["attention", "softmax", "constant"],
)
def test_what_is_new_comes_behind_what_was_there(inputs, body, outputs, opset):
    cases = [{"past": past, "new": new} for past, new in ((0, 1), (1, 3), (5, 2))]
    assert_as_exact(parsed(inputs, body, outputs, opset), BOTH, cases)


def test_the_first_state_of_no_steps_is_the_last():
    model = parsed(
        "float[seq, 2, 3] x, float[1, 16, 3] w, float[1, 16, 4] r, float[1, 2, 4] h",
        "y, z = LSTM<hidden_size=4>(x, w, r, , , h)",
        "float[o] y, float[p] z",
    )
    bound = import_onnx(model, {"seq": range(0, 5)})
    feeds = feeds_of(bound.inputs, {"seq": 0}, np.random.default_rng(0))
    (y, z), _ = sized_answers(bound, feeds, {"seq": 0})
    assert y.shape == (0, 1, 2, 4)
    np.testing.assert_array_equal(z, feeds["h"])


def test_all_that_is_refused_is_listed():
    model = parsed(
        "float[4, seq, 4] x",
        "a = Det(x) s = Constant<value_ints=[3, -1]>() b = Reshape(x, s) c = Squeeze(x) "
        "y = ReduceSum<keepdims=0>(c)",
        "float y",
    )
    gaps = check(model, {"seq": range(1, 9)})
    assert [gap.op for gap in gaps] == ["Det", "Reshape", "Squeeze"]
    assert {gap.remedy for gap in gaps} == {"Give sizes in shapes, in the place of ranges"}


@pytest.mark.parametrize("body, may, cannot", [
    ("k = Constant<value_ints=[2, {}]>() y = Reshape(x, k)", 4, 9),
    ("k = Constant<value_ints=[1]>() y = Squeeze(x, k)", 1, 3),
    ("k = Constant<value_ints=[{}, 2]>() y, z = Split<axis=1>(x, k)", 3, 9),
])  # fmt: skip
def test_what_fits_some_sizes_is_refused_and_what_fits_none_is_wrong(body, may, cannot):
    low = cannot if "Squeeze" in body else 1
    for number, first, error in (may, 1, UnsupportedOp), (cannot, low, ShapeError):
        model = parsed("float[2, seq] x", body.format(number), "float[o, p] y", 21)
        with pytest.raises(error):
            import_onnx(model, {"seq": range(first, 8)})


def test_a_size_that_is_needed_while_compiling_is_named():
    model = parsed(
        "float[seq] x, float[8] z",
        "n = Shape(x) h = Constant<value_ints=[2]>() k = Mod(n, h) y = CumSum(z, k)",
        "float[o] y",
    )
    with pytest.raises(UnsupportedOp, match="depends on the size of seq") as refused:
        import_onnx(model, SEQ)
    assert "Give sizes in shapes" in str(refused.value)
