"""Floating-point instructions and conversions, by hand and against exact arithmetic."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from ptx_bench import evaluate

from rcompiler.emulator.faults import UnsupportedPtx

F32 = np.array([0.0, -0.0, 1.5, -2.25, 1e-40, 3e38, np.inf, -np.inf, np.nan, 0.3], np.float32)
G32 = np.array([1.0, 2.0, -0.5, 4.0, 1e-40, 3e38, 1.0, np.inf, 1.0, 0.1], np.float32)


def same(got, want):
    np.testing.assert_array_equal(got, np.asarray(want, got.dtype))


def random_floats(dtype, count=500, seed=0):
    """Of all magnitudes that products of two leave finite."""
    r = np.random.default_rng(seed)
    limit = {np.float16: 4, np.float32: 40, np.float64: 300}[dtype]
    return (r.standard_normal(count) * 2.0 ** r.integers(-limit, limit, count)).astype(dtype)


@pytest.mark.parametrize(("name", "function"), [("add", np.add), ("sub", np.subtract),
                                                ("mul", np.multiply)])  # fmt: skip
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_two_operands(name, function, dtype):
    a, b = random_floats(dtype), random_floats(dtype, seed=1)
    type_ = f"f{8 * a.dtype.itemsize}"
    with np.errstate(all="ignore"):
        same(evaluate(f"{name}.rn.{type_} %d, %a, %b;", dtype, a, b), function(a, b))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_fma_rounds_once(dtype):
    r = np.random.default_rng(2)
    a, b = random_floats(dtype), random_floats(dtype, seed=1)
    with np.errstate(all="ignore"):
        c = (-(a * b) * r.choice([1, 1.0 + 2.0**-9, 2.0**-11], len(a))).astype(dtype)
    # Sums of which the last bits alone decide: ties of the wide format that are none in truth.
    a[:3], b[:3], c[:3] = 1 + 2.0**-10, 1 + 2.0**-10, [2.0**-12, 1.0, 2.0**-24]
    got = evaluate(f"fma.rn.f{8 * a.dtype.itemsize} %d, %a, %b, %c;", dtype, a, b, c)
    for x, y, z, result in zip(a, b, c, got, strict=True):
        if not np.isfinite([x, y, z, result]).all():
            continue
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        near = [np.nextafter(result, dtype(s)) for s in (-np.inf, np.inf)]
        error = abs(Fraction(float(result)) - exact)
        others = [abs(Fraction(float(n)) - exact) for n in near if np.isfinite(n)]
        assert error <= min(others)
        if error in others:  # a tie goes to the even one
            assert result.view(f"u{a.dtype.itemsize}") % 2 == 0


def test_fma_of_exact_ties():
    # 1 + 2^-23 is followed by 1 + 2^-22; the product's last bit lies at 2^-48 and breaks the tie.
    a = np.array([1 + 2**-23, 1 + 2**-23], np.float32)
    b = np.array([2.0**-24, -(2.0**-24)], np.float32)
    c = np.array([1.0, 1.0], np.float32)
    same(evaluate("fma.rn.f32 %d, %a, %b, %c;", np.float32, a, b, c), [1 + 2**-23, 1 - 2**-24])


def test_modifiers():
    tiny = np.float32(1e-40)
    a = np.array([tiny, -tiny, 0.75, -3.0, np.nan, 5.0], np.float32)
    b = np.array([0, 0, 0.5, 1, 1, 1], np.float32)
    got = evaluate("add.ftz.f32 %d, %a, %b;", np.float32, a, b)
    same(got, [0, 0, 1.25, -2, np.nan, 6])
    same(evaluate("add.sat.f32 %d, %a, %b;", np.float32, a, b), [tiny, 0, 1, 0, 0, 1])
    same(evaluate("fma.rn.relu.f16 %d, %a, %b, %c;", np.float16, np.array([2, -2], np.float16),
                  np.array([3, 3], np.float16), np.array([1, 1], np.float16)), [7, 0])  # fmt: skip


def test_minimum_and_maximum():
    a = np.array([1, np.nan, -0.0, 0.0, np.nan], np.float32)
    b = np.array([2, 3, 0.0, -0.0, np.nan], np.float32)
    low = evaluate("min.f32 %d, %a, %b;", np.float32, a, b)
    same(low, [1, 3, -0.0, -0.0, np.nan])
    assert np.signbit(low).tolist()[2:4] == [True, True]
    high = evaluate("max.f32 %d, %a, %b;", np.float32, a, b)
    same(high, [2, 3, 0.0, 0.0, np.nan])
    assert np.signbit(high).tolist()[2:4] == [False, False]
    same(evaluate("min.NaN.f32 %d, %a, %b;", np.float32, a, b)[:2], [1, np.nan])


def test_signs():
    same(evaluate("abs.f32 %d, %a;", np.float32, F32), np.abs(F32))
    same(evaluate("neg.f32 %d, %a;", np.float32, F32), -F32)
    got = evaluate("copysign.f32 %d, %b, %a;", np.float32, F32, G32)
    same(got, np.copysign(F32, G32))


@pytest.mark.parametrize(
    ("code", "function"),
    [
        ("div.rn.f32 %d, %b, %a;", lambda x, y: y / x),
        ("sqrt.rn.f32 %d, %a;", lambda x, y: np.sqrt(x)),
        ("rcp.rn.f32 %d, %a;", lambda x, y: np.float32(1) / x),
        ("rsqrt.approx.f32 %d, %a;", lambda x, y: (1 / np.sqrt(x.astype("f8"))).astype("f4")),
        ("ex2.approx.f32 %d, %a;", lambda x, y: np.exp2(x.astype("f8"))),
        ("lg2.approx.f32 %d, %a;", lambda x, y: np.log2(x.astype("f8"))),
        ("tanh.approx.f32 %d, %a;", lambda x, y: np.tanh(x.astype("f8"))),
        ("sin.approx.f32 %d, %a;", lambda x, y: np.sin(x.astype("f8"))),
        ("cos.approx.f32 %d, %a;", lambda x, y: np.cos(x.astype("f8"))),
    ],
)
def test_elementary(code, function):
    with np.errstate(all="ignore"):
        want = np.asarray(function(F32, G32)).astype(np.float32)
    same(evaluate(code, np.float32, F32, G32), want)


def test_pairs():
    a = np.array([[1, 2], [-3, 4]], np.float16).view(np.uint32).ravel()
    b = np.array([[0.5, 1], [3, -8]], np.float16).view(np.uint32).ravel()
    got = evaluate("fma.rn.f16x2 %d, %a, %b, %a;", np.uint32, a, b).view(np.float16)
    same(got, [1.5, 4, -12, -28])
    same(evaluate("add.f16x2 %d, %a, %b;", np.uint32, a, b).view(np.float16), [1.5, 3, 0, -4])
    same(evaluate("max.f16x2 %d, %a, %b;", np.uint32, a, b).view(np.float16), [1, 2, 3, 4])
    same(evaluate("neg.f16x2 %d, %a;", np.uint32, a).view(np.float16), [-1, -2, 3, -4])
    same(evaluate("ex2.approx.f16 %d, %a;", np.float16, np.array([3, -1], np.float16)), [8, 0.5])


def bf16(*values):
    return (np.array(values, np.float32).view(np.uint32) >> 16).astype(np.uint16)


def test_bf16():
    a, b = bf16(1, -3.5, 256), bf16(0.0078125, 2, 1)
    same(evaluate("add.rn.bf16 %d, %a, %b;", np.uint16, a, b), bf16(1.0078125, -1.5, 256))
    same(evaluate("mul.rn.bf16 %d, %a, %b;", np.uint16, a, b), bf16(0.0078125, -7, 256))
    same(evaluate("fma.rn.bf16 %d, %a, %b, %a;", np.uint16, a, b), bf16(1.0078125, -10.5, 512))
    pair = np.array([bf16(1, 2), bf16(3, 4)]).view(np.uint32).ravel()
    got = evaluate("fma.rn.bf16x2 %d, %a, %a, %a;", np.uint32, pair).view(np.uint16)
    same(got, bf16(2, 6, 12, 20))


def test_bf16_conversions():
    # 1 + 2^-8 lies between 1 and 1 + 2^-7: the tie goes to the even one.
    a = np.array([1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20, np.nan], np.float32)
    got = evaluate("cvt.rn.bf16.f32 %d, %a;", np.uint16, a)
    same(got[:3], bf16(1, 1 + 2**-6, 1 + 2**-7))
    assert got[3] == 0x7FFF
    same(evaluate("cvt.rz.bf16.f32 %d, %a;", np.uint16, a)[:3], bf16(1, 1 + 2**-7, 1))
    same(evaluate("cvt.f32.bf16 %d, %a;", np.float32, bf16(1, -2.5)), [1, -2.5])
    two = evaluate("cvt.rn.bf16x2.f32 %d, %a, %b;", np.uint32, np.array([1.0], np.float32),
                   np.array([2.0], np.float32))  # fmt: skip
    same(two.view(np.uint16), bf16(2, 1))
    two = evaluate("cvt.rn.f16x2.f32 %d, %a, %b;", np.uint32, np.array([1.0], np.float32),
                   np.array([2.0], np.float32))  # fmt: skip
    same(two.view(np.float16), [2, 1])
    tf32 = evaluate("cvt.rna.tf32.f32 %d, %a;", np.float32, np.array([1 + 2**-11], np.float32))
    same(tf32, [1 + 2**-10])


@pytest.mark.parametrize(
    ("mode", "want"),
    [
        ("rni", [2, -2, 2, -1, 0, 2**31 - 1, -(2**31), 0]),
        ("rzi", [2, -2, 1, -1, 0, 2**31 - 1, -(2**31), 0]),
        ("rmi", [2, -3, 1, -2, 0, 2**31 - 1, -(2**31), 0]),
        ("rpi", [3, -2, 2, -1, 1, 2**31 - 1, -(2**31), 0]),
    ],
)
def test_float_to_integer(mode, want):
    a = np.array([2.5, -2.5, 1.75, -1.25, 0.1, 1e20, -1e20, np.nan], np.float32)
    got = evaluate(f"cvt.{mode}.s32.f32 %d, %a;", np.int32, a)
    same(got, want)
    whole = evaluate(f"cvt.{mode}.f32.f32 %d, %a;", np.float32, a[:5])
    same(whole, want[:5])
    same(evaluate(f"cvt.{mode}.u32.f32 %d, %a;", np.uint32, a)[5:], [2**32 - 1, 0, 0])


def test_between_floats_and_from_integers():
    exact = np.array([0.1, 1 / 3, 65519.0, 65520.0, 2.0**-25], np.float64)
    same(evaluate("cvt.rn.f32.f64 %d, %a;", np.float32, exact), exact.astype(np.float32))
    with np.errstate(all="ignore"):
        half = exact.astype(np.float32).astype(np.float16)
    same(evaluate("cvt.rn.f16.f32 %d, %a;", np.float16, exact.astype(np.float32)), half)
    down = evaluate("cvt.rz.f32.f64 %d, %a;", np.float32, exact)
    assert (down.astype(np.float64) <= exact).all()
    up = evaluate("cvt.rp.f32.f64 %d, %a;", np.float32, exact)
    assert (up.astype(np.float64) >= exact).all()
    same(evaluate("cvt.f64.f32 %d, %a;", np.float64, F32), F32.astype(np.float64))
    numbers = np.array([0, -1, 2**24 + 1, -(2**31)], np.int32)
    same(evaluate("cvt.rn.f32.s32 %d, %a;", np.float32, numbers), numbers.astype(np.float32))
    same(evaluate("cvt.rn.f32.u32 %d, %a;", np.float32, numbers),
         numbers.view(np.uint32).astype(np.float32))  # fmt: skip
    same(evaluate("cvt.sat.f32.f32 %d, %a;", np.float32, np.array([2, -1, 0.5], np.float32)),
         [1, 0, 0.5])  # fmt: skip


@pytest.mark.parametrize("name", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_comparisons(name):
    function = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
                "gt": np.greater, "ge": np.greater_equal}[name]  # fmt: skip
    a = np.array([1, 2, np.nan, 1, np.nan, -0.0], np.float32)
    b = np.array([2, 2, 1, 1, np.nan, 0.0], np.float32)
    ordered, nan = function(a, b) & ~np.isnan(a), np.isnan(a)
    code = "setp.{}.f32 %p, %a, %b;\nselp.b32 %d, 1, 0, %p;"
    same(evaluate(code.format(name), np.uint32, a, b), ordered)
    same(evaluate(code.format(name + "u"), np.uint32, a, b), ordered | nan)
    x, y = np.array([1, -1, 5], np.int32), np.array([1, 2, -7], np.int32)
    code = "setp.{}.{} %p, %a, %b;\nselp.b32 %d, 1, 0, %p;"
    same(evaluate(code.format(name, "s32"), np.uint32, x, y), function(x, y))
    unsigned = function(x.view(np.uint32), y.view(np.uint32))
    same(evaluate(code.format(name, "u32"), np.uint32, x, y), unsigned)


@pytest.mark.parametrize("type_", ["f16x2", "bf16x2"])
def test_comparisons_of_pairs(type_):
    """Two predicates: of the lower numbers and of the upper ones, ordered and not."""
    x = np.array([[1, 2], [-1, -2], [np.nan, 1], [0.0, 3]], np.float32)
    y = np.array([[2, 1], [-2, -1], [1, np.nan], [-0.0, 3]], np.float32)
    a, b = (v.astype("float16" if type_ == "f16x2" else ml_dtypes.bfloat16).view(np.uint32)[:, 0]
            for v in (x, y))  # fmt: skip
    code = """
    setp.{}.{} %p|%q, %a, %b;
    selp.b32 %d, 1, 0, %p;
    selp.b32 %x, 2, 0, %q;
    or.b32 %d, %d, %x;"""
    same(evaluate(code.format("lt", type_), np.uint32, a, b), [1, 2, 0, 0])
    same(evaluate(code.format("geu", type_), np.uint32, a, b), [2, 1, 3, 3])
    code = "setp.ne.u32 %p, %a, 0;\nsetp.le.and.{} %p|%q, %a, %b, %p;\nselp.b32 %d, 1, 0, %q;"
    same(evaluate(code.format(type_), np.uint32, a, b), [0, 1, 0, 1])
    with pytest.raises(UnsupportedPtx, match="two predicates"):
        evaluate(f"setp.lt.{type_} %p, %a, %b;\nmov.b32 %d, 0;", np.uint32, a, b)


def test_predicates():
    a, b = np.array([1, 2, 3, 4], np.uint32), np.array([4, 3, 2, 1], np.uint32)
    code = """
    setp.ne.u32 %p, %a, 0;
    setp.lt.and.u32 %p|%q, %a, %b, %p;
    selp.b32 %x, 1, 0, %p;
    selp.b32 %y, 2, 0, %q;
    setp.gt.and.u32 %p, %a, 1, %p;
    selp.b32 %d, 4, 0, %p;
    or.b32 %d, %d, %x;
    or.b32 %d, %d, %y;
    not.pred %q, %p;
    and.pred %p, %p, %q;
    @%p add.u32 %d, %d, 100;
    @!%p add.u32 %d, %d, 8;"""
    same(evaluate(code, np.uint32, a, b), [9, 13, 10, 10])
    code = "testp.{}.f32 %p, %a;\nselp.b32 %d, 1, 0, %p;"
    x = np.array([1, 1e-40, np.inf, np.nan, 0], np.float32)
    wanted = {
        "finite": [1, 1, 0, 0, 1],
        "infinite": [0, 0, 1, 0, 0],
        "number": [1, 1, 1, 0, 1],
        "notanumber": [0, 0, 0, 1, 0],
        "normal": [1, 0, 0, 0, 0],
        "subnormal": [0, 1, 0, 0, 0],
    }
    for name, want in wanted.items():
        same(evaluate(code.format(name), np.uint32, x), want)
