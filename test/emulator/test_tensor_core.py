"""Sums of tensor cores against the published rules, written down again in exact fractions."""

from fractions import Fraction
from math import inf, ldexp

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rcompiler.emulator.numbers.tensor_core import multiply_add_integers, tensor_core
from rcompiler.errors import DeviceError

CAPABILITIES = [(7, 0), (7, 5), (8, 0), (8, 6), (8, 9), (9, 0)]
FORMATS = {"f16": (-14, 11, 15), "bf16": (-126, 8, 127), "tf32": (-126, 11, 127)}
BLOCKS = {(7, 0): (23, 4, 2), (9, 0): (25, 16, 8)}  # bits, products of 16 and of 32 bits


def exponent(value: float, least: int) -> int:
    return max(int(np.frexp(np.float64(value))[1]) - 1, least)


def cut(value: Fraction, place: int) -> Fraction:
    """Towards zero, to a multiple of 2^place."""
    unit = Fraction(2) ** place
    return int(value / unit) * unit


def towards_zero(value: Fraction) -> float:
    """As f32."""
    if not value:
        return 0.0
    top = value.numerator.bit_length() - value.denominator.bit_length()
    top -= abs(value) < Fraction(2) ** top
    result = float(cut(value, max(top, -126) - 23))
    return result if abs(result) < 2.0**128 else inf * np.sign(result)


def nearest_half(value: Fraction) -> float:
    """As f16; float() rounds to 53 bits first, which these sums of few bits do not need."""
    assert float(value) == value
    with np.errstate(over="ignore"):
        return float(np.float64(value).astype(np.float16))


def expected(a, b, c, capability, type_):
    """One element, by the rules: blocks; cut at the largest exponent; exact sum; one rounding."""
    bits, *products = BLOCKS.get(capability, (24, 8, 4))
    step = products[type_ == "tf32"]
    least = FORMATS[type_][0]
    half = c.dtype == np.float16
    total = float(c)
    for k in range(0, len(a), step):
        pairs = [
            (float(x), float(y)) for x, y in zip(a[k : k + step], b[k : k + step], strict=True)
        ]
        tops = [exponent(x, least) + exponent(y, least) for x, y in pairs if x and y]
        tops.append(exponent(total, -14 if half else -126) if total else -126)
        place = max(*tops, -126) - bits
        terms = [Fraction(total), *(Fraction(x) * Fraction(y) for x, y in pairs)]
        sum_ = sum((cut(term, place) for term in terms), Fraction(0))
        total = nearest_half(sum_) if half else towards_zero(sum_)
        if abs(total) == inf:
            return total
    return total


def numbers(type_: str):
    """Finite values of the type, all exponents and subnormal numbers among them."""
    least, bits, most = FORMATS[type_]

    def build(sign, mantissa, power):
        return sign * ldexp(mantissa, power - bits + 1)

    near = st.integers(-6, 6) | st.integers(least, most)
    return st.just(0.0) | st.builds(
        build, st.sampled_from([1, -1]), st.integers(0, 2**bits - 1), near
    )


@pytest.mark.parametrize("type_", list(FORMATS))
@pytest.mark.parametrize("capability", CAPABILITIES)
@settings(max_examples=30, derandomize=True)
@given(data=st.data())
def test_sums_follow_the_published_rules(capability, type_, data):
    m, k, n = data.draw(st.integers(1, 3)), data.draw(st.sampled_from([4, 8, 16])), 2
    value = numbers(type_)
    result = np.float16 if type_ == "f16" and data.draw(st.booleans()) else np.float32
    a = np.array(data.draw(st.lists(value, min_size=m * k, max_size=m * k)), "f4").reshape(m, k)
    b = np.array(data.draw(st.lists(value, min_size=k * n, max_size=k * n)), "f4").reshape(k, n)
    c = np.array(data.draw(st.lists(numbers("f16"), min_size=m * n, max_size=m * n)), result)
    c = c.reshape(m, n)
    got = tensor_core(capability).multiply_add(a, b, c, type_)
    assert got.dtype == result
    for i in range(m):
        for j in range(n):
            assert got[i, j] == expected(a[i], b[:, j], c[i, j], capability, type_)


@pytest.mark.parametrize("type_", list(FORMATS))
def test_shapes_and_stacks_change_no_bit(type_):
    r = np.random.default_rng(0)
    a, b = (r.standard_normal(s).astype("f2").astype("f4") for s in ((3, 16, 32), (3, 32, 24)))
    c, unit = r.standard_normal((3, 16, 24)).astype("f4"), tensor_core((9, 0))
    whole = unit.multiply_add(a, b, c, type_)
    parts = [
        unit.multiply_add(a[s, i : i + 5], b[s][:, j : j + 7], c[s, i : i + 5, j : j + 7], type_)
        for s in range(3) for i in range(0, 16, 5) for j in range(0, 24, 7)
    ]  # fmt: skip
    again = [
        whole[s, i : i + 5, j : j + 7]
        for s in range(3) for i in range(0, 16, 5) for j in range(0, 24, 7)
    ]  # fmt: skip
    for part, wanted in zip(parts, again, strict=True):
        np.testing.assert_array_equal(part.view(np.int32), wanted.view(np.int32))


def test_the_order_of_terms_in_a_block_changes_no_bit():
    r, unit = np.random.default_rng(0), tensor_core((9, 0))
    a, b = (r.standard_normal(s).astype("f2").astype("f4") for s in ((8, 16), (16, 8)))
    c = r.standard_normal((8, 8)).astype("f4")
    order = r.permutation(16)
    np.testing.assert_array_equal(
        unit.multiply_add(a, b, c, "f16"), unit.multiply_add(a[:, order], b[order], c, "f16")
    )


@pytest.mark.parametrize(
    ("capability", "kept"), [((7, 0), 2.0**-23), ((8, 0), 2.0**-24), ((9, 0), 2.0**-25)]
)
def test_the_last_place_that_is_kept(capability, kept):
    """1 + 2 * kept / 2 - 1: what lies one place further down is lost."""
    a = np.zeros((1, 4), "f4")
    a[0] = 1, kept * 2**12, kept * 2**12, -1
    b = np.array([1, 2.0**-12, 2.0**-12, 1], "f4")[:, None]
    c = np.zeros((1, 1), "f4")
    unit = tensor_core(capability)
    assert unit.multiply_add(a, b, c, "bf16")[0, 0] == 2 * kept
    assert unit.multiply_add(a / np.float32([1, 2, 2, 1]), b, c, "bf16")[0, 0] == 0


def test_sums_are_cut_off_towards_zero():
    a, b = np.array([[1, 2.0**-12], [-1, -(2.0**-12)]], "f4"), np.ones((2, 1), "f4")
    b[1] = 1.5 * 2.0**-12  # 1 + 1.5 * 2^-24: nearest would be 1 + 2^-23
    got = tensor_core((9, 0)).multiply_add(a, b, np.zeros((2, 1), "f4"), "f16")
    assert got.ravel().tolist() == [1.0, -1.0]


def test_what_is_no_number():
    a = np.array([[np.inf, 1], [np.inf, 1], [np.nan, 1], [3e38, 3e38]], "f4")
    b = np.array([[1, 0], [1, -np.inf]], "f4")
    b[1, 0] = 1
    got = tensor_core((8, 0)).multiply_add(a, b, np.zeros((4, 2), "f4"), "tf32")
    assert got[0, 0] == np.inf and np.isnan(got[0, 1])
    assert got.view(np.uint32)[2, 0] == 0x7FFFFFFF
    assert got[3].tolist() == [np.inf, -np.inf]


def test_integers_are_exact_and_wrap():
    a, b = np.full((1, 32), 255, "i4"), np.full((32, 1), 255, "i4")
    c = np.full((1, 1), 2**31 - 1, "i4")
    assert multiply_add_integers(a, b, c)[0, 0] == 32 * 255 * 255 - 2**31 - 1


def test_an_unknown_tensor_core_is_refused():
    with pytest.raises(DeviceError, match="not emulated"):
        tensor_core((6, 1))
