"""Integer instructions, with results by hand and against Python's numbers."""

import random

import numpy as np
import pytest
from ptx_bench import evaluate

U32 = np.array([0, 1, 2, 5, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF], np.uint32)
V32 = np.array([3, 0xFFFFFFFF, 0x10000, 7, 2, 0x80000000, 5, 0xFFFFFFFF], np.uint32)
WIDTHS = {"u16": np.uint16, "s16": np.int16, "u32": np.uint32, "s32": np.int32,
          "u64": np.uint64, "s64": np.int64}  # fmt: skip


def random_numbers(dtype, count=64, seed=0):
    r = random.Random(f"{dtype}{seed}")
    info = np.iinfo(dtype)
    edges = [info.min, info.max, 0, 1, info.max - 1, info.min + 1]
    return np.array([*edges, *(r.randint(info.min, info.max) for _ in range(count - 6))], dtype)


def wrapped(values, dtype):
    bits = 8 * np.dtype(dtype).itemsize
    unsigned = np.array([int(v) & ((1 << bits) - 1) for v in values], f"u{bits // 8}")
    return unsigned.view(dtype)


def truncated(a, b):
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


@pytest.mark.parametrize("type_", WIDTHS)
@pytest.mark.parametrize(
    ("name", "python"),
    [
        ("add", lambda a, b: a + b),
        ("sub", lambda a, b: a - b),
        ("mul.lo", lambda a, b: a * b),
        ("min", min),
        ("max", max),
        ("div", truncated),
        ("rem", lambda a, b: a - truncated(a, b) * b),
    ],
)
def test_two_operands(type_, name, python):
    a, b = random_numbers(WIDTHS[type_]), random_numbers(WIDTHS[type_], seed=1)
    b[b == 0] = 3
    got = evaluate(f"{name}.{type_} %d, %a, %b;", WIDTHS[type_], a, b)
    want = [python(x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    np.testing.assert_array_equal(got, wrapped(want, WIDTHS[type_]))


@pytest.mark.parametrize("type_", WIDTHS)
def test_high_half_of_products(type_):
    a, b = random_numbers(WIDTHS[type_]), random_numbers(WIDTHS[type_], seed=1)
    got = evaluate(f"mul.hi.{type_} %d, %a, %b;", WIDTHS[type_], a, b)
    shift = 8 * a.dtype.itemsize
    want = [(x * y) >> shift for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    np.testing.assert_array_equal(got, wrapped(want, WIDTHS[type_]))


@pytest.mark.parametrize(
    ("type_", "wide"), [("u16", "u32"), ("s16", "s32"), ("u32", "u64"), ("s32", "s64")]
)
def test_wide_products(type_, wide):
    a, b = random_numbers(WIDTHS[type_]), random_numbers(WIDTHS[type_], seed=1)
    c = random_numbers(WIDTHS[wide], seed=2)
    got = evaluate(f"mul.wide.{type_} %d, %a, %b;", WIDTHS[wide], a, b)
    want = [x * y for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    np.testing.assert_array_equal(got, wrapped(want, WIDTHS[wide]))
    got = evaluate(f"mad.wide.{type_} %d, %a, %b, %c;", WIDTHS[wide], a, b, c)
    want = [x + y for x, y in zip(want, c.tolist(), strict=True)]
    np.testing.assert_array_equal(got, wrapped(want, WIDTHS[wide]))


@pytest.mark.parametrize("place, length", [(0, 4), (3, 5), (28, 8), (31, 1), (0, 32), (5, 0)])
def test_signed_fields_are_extended_by_their_own_highest_bit(place, length):
    a = random_numbers(np.int32)
    got = evaluate(f"bfe.s32 %d, %a, {place}, {length};", np.int32, a)
    fields = [(x >> place) & ((1 << length) - 1) for x in a.tolist()]
    want = [x - (1 << length if length and x >> length - 1 else 0) for x in fields]
    np.testing.assert_array_equal(got, want)


def test_division_by_zero_gives_all_ones():
    zero = np.zeros(8, np.uint32)
    assert (evaluate("div.u32 %d, %a, %b;", np.uint32, U32, zero) == 0xFFFFFFFF).all()
    np.testing.assert_array_equal(evaluate("rem.u32 %d, %a, %b;", np.uint32, U32, zero), U32)


def test_carries_make_wide_sums():
    a, b = random_numbers(np.uint64), random_numbers(np.uint64, seed=1)
    code = """
    .reg .b32 %al, %ah, %bl, %bh;
    mov.b64 {%al, %ah}, %a;
    mov.b64 {%bl, %bh}, %b;
    add.cc.u32 %al, %al, %bl;
    addc.u32 %ah, %ah, %bh;
    mov.b64 %d, {%al, %ah};"""
    np.testing.assert_array_equal(evaluate(code, np.uint64, a, b), a + b)
    code = code.replace("addc", "subc").replace("add.cc", "sub.cc")
    np.testing.assert_array_equal(evaluate(code, np.uint64, a, b), a - b)
    code = """
    mad.lo.cc.u32 %x, %a, %b, %c;
    madc.hi.u32 %y, %a, %b, 0;
    mov.b64 %d, {%x, %y};"""
    c = random_numbers(np.uint32, seed=3)
    got = evaluate(code, np.uint64, a.astype(np.uint32), b.astype(np.uint32), c)
    want = a.astype(np.uint32).astype(np.uint64) * b.astype(np.uint32) + c
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    ("code", "want"),
    [
        ("shl.b32 %d, %a, %b;", [0, 0, 0, 640, 0xFFFFFFFC, 0, 0xFFFFFFC0, 0]),
        ("shr.u32 %d, %a, %b;", [0, 0, 0, 0, 0x1FFFFFFF, 0, 0x7FFFFFF, 0]),
        ("shr.s32 %d, %a, %b;", [0, 0, 0, 0, 0x1FFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF]),
        ("and.b32 %d, %a, %b;", [0, 1, 0, 5, 2, 0x80000000, 4, 0xFFFFFFFF]),
        ("or.b32 %d, %a, %b;", [3, 0xFFFFFFFF, 0x10002, 7, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF,
                                0xFFFFFFFF]),
        ("xor.b32 %d, %a, %b;", [3, 0xFFFFFFFE, 0x10002, 2, 0x7FFFFFFD, 0, 0xFFFFFFFB, 0]),
        ("not.b32 %d, %a;", [0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFD, 0xFFFFFFFA, 0x80000000,
                             0x7FFFFFFF, 1, 0]),
        ("cnot.b32 %d, %a;", [1, 0, 0, 0, 0, 0, 0, 0]),
        ("clz.b32 %d, %a;", [32, 31, 30, 29, 1, 0, 0, 0]),
        ("popc.b32 %d, %a;", [0, 1, 1, 2, 31, 1, 31, 32]),
        ("brev.b32 %d, %a;", [0, 0x80000000, 0x40000000, 0xA0000000, 0xFFFFFFFE, 1, 0x7FFFFFFF,
                              0xFFFFFFFF]),
        ("bfind.u32 %d, %a;", [0xFFFFFFFF, 0, 1, 2, 30, 31, 31, 31]),
        ("bfind.s32 %d, %a;", [0xFFFFFFFF, 0, 1, 2, 30, 30, 0, 0xFFFFFFFF]),
        ("bfind.shiftamt.u32 %d, %a;", [0xFFFFFFFF, 31, 30, 29, 1, 0, 0, 0]),
        ("abs.s32 %d, %a;", [0, 1, 2, 5, 0x7FFFFFFF, 0x80000000, 2, 1]),
        ("neg.s32 %d, %a;", [0, 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFB, 0x80000001, 0x80000000, 2, 1]),
        ("bfe.u32 %d, %a, 1, 3;", [0, 0, 1, 2, 7, 0, 7, 7]),
        ("bfe.s32 %d, %a, 1, 3;", [0, 0, 1, 2, 0xFFFFFFFF, 0, 0xFFFFFFFF, 0xFFFFFFFF]),
        ("bfi.b32 %d, %a, %b, 4, 8;", [0x3, 0xFFFFF01F, 0x10020, 0x57, 0xFF2, 0x80000000, 0xFE5,
                                       0xFFFFFFFF]),
        ("prmt.b32 %d, %a, %b, 0x5410;", [0x30000, 0xFFFF0001, 2, 0x70005, 0x2FFFF, 0, 0x5FFFE,
                                          0xFFFFFFFF]),
        ("prmt.b32 %d, %a, %b, 0xBBBB;", [0, 0, 0, 0, 0, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF]),
        ("shf.l.wrap.b32 %d, %a, %b, 8;", [0x300, 0xFFFFFF00, 0x1000000, 0x700, 0x27F, 0x80, 0x5FF,
                                           0xFFFFFFFF]),
        ("shf.r.clamp.b32 %d, %a, %b, 40;", [3, 0xFFFFFFFF, 0x10000, 7, 2, 0x80000000, 5,
                                             0xFFFFFFFF]),
        ("lop3.b32 %d, %a, %b, %a, 0x3C;", [3, 0xFFFFFFFE, 0x10002, 2, 0x7FFFFFFD, 0, 0xFFFFFFFB,
                                            0]),
        ("dp4a.s32.s32 %d, %a, %b, 1;", [1, 0, 1, 36, 0xFFFFFFFF, 0x4001, 0xFFFFFFF7, 5]),
        ("add.sat.s32 %d, %a, %b;", [3, 0, 0x10002, 12, 0x7FFFFFFF, 0x80000000, 3, 0xFFFFFFFE]),
        ("mul24.lo.u32 %d, %a, 3;", [0, 3, 6, 15, 0x2FFFFFD, 0, 0x2FFFFFA, 0x2FFFFFD]),
    ],
)  # fmt: skip
def test_by_hand(code, want):
    np.testing.assert_array_equal(evaluate(code, np.uint32, U32, V32), np.array(want, np.uint32))


def test_shifts_by_the_width_and_more():
    a = np.array([0x80000001] * 4, np.uint32)
    by = np.array([31, 32, 33, 0xFFFFFFFF], np.uint32)
    assert evaluate("shl.b32 %d, %a, %b;", np.uint32, a, by).tolist() == [0x80000000, 0, 0, 0]
    assert evaluate("shr.u32 %d, %a, %b;", np.uint32, a, by).tolist() == [1, 0, 0, 0]
    assert (evaluate("shr.s32 %d, %a, %b;", np.int32, a, by) == -1).all()


@pytest.mark.parametrize("type_", ["s16x2", "u16x2"])
@pytest.mark.parametrize(("name", "function"), [("add", np.add), ("min", np.minimum),
                                                ("max", np.maximum)])  # fmt: skip
def test_pairs_of_halves(type_, name, function):
    half = "i2" if type_[0] == "s" else "u2"
    a, b = random_numbers(np.uint32), random_numbers(np.uint32, seed=1)
    got = evaluate(f"{name}.{type_} %d, %a, %b;", np.uint32, a, b)
    np.testing.assert_array_equal(got, function(a.view(half), b.view(half)).view(np.uint32))


def test_results_narrower_than_registers():
    a = np.array([0x1FF, 0x80], np.uint16)
    assert evaluate("cvt.u8.u16 %d, %a;", np.uint16, a).tolist() == [0xFF, 0x80]
    assert evaluate("cvt.s8.u16 %d, %a;", np.int16, a).tolist() == [-1, -128]
    assert evaluate("cvt.s32.s8 %d, %a;", np.int32, a).tolist() == [-1, -128]
    wide = np.array([-1, 300, -300], np.int32)
    assert evaluate("cvt.sat.u8.s32 %d, %a;", np.uint16, wide).tolist() == [0, 255, 0]
    assert evaluate("cvt.sat.s8.s32 %d, %a;", np.int16, wide).tolist() == [-1, 127, -128]


@pytest.mark.parametrize("seed", range(8))
def test_random_programs(seed):
    """Chains of random instructions on 32-bit numbers against Python."""
    r = random.Random(seed)
    a, b = random_numbers(np.uint32, seed=seed), random_numbers(np.uint32, seed=seed + 100)
    names = {"add.u32": lambda x, y: x + y, "sub.u32": lambda x, y: x - y,
             "mul.lo.u32": lambda x, y: x * y, "xor.b32": lambda x, y: x ^ y,
             "and.b32": lambda x, y: x & y, "min.u32": min, "max.u32": max,
             "mul.hi.u32": lambda x, y: x * y >> 32}  # fmt: skip
    code, x, y = "mov.b32 %x, %a;\nmov.b32 %y, %b;\n", a.tolist(), b.tolist()
    for _ in range(30):
        name = r.choice(list(names))
        code += f"{name} %d, %x, %y;\nmov.b32 %x, %y;\nmov.b32 %y, %d;\n"
        z = [names[name](p, q) & 0xFFFFFFFF for p, q in zip(x, y, strict=True)]
        x, y = y, z
    np.testing.assert_array_equal(evaluate(code, np.uint32, a, b), np.array(y, np.uint32))
