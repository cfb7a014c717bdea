"""Footprints of tiles: hand-computed ones, and against brute force on random maps."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from roller_cases import at, conv, elementwise, gemm

from rcompiler.roller.expr import ExpressionError, TensorAccess, floordiv, index, mod, tensor_expr
from rcompiler.roller.index_expr import count_sums

linear = st.builds(
    lambda terms, constant: index(*terms, constant=constant),
    st.lists(st.tuples(st.integers(-3, 5), st.integers(0, 2)), max_size=3),
    st.integers(-4, 6),
)
atoms = st.one_of(
    st.integers(0, 2),
    st.builds(floordiv, linear, st.integers(1, 4)),
    st.builds(mod, linear, st.integers(1, 4)),
)
anything = st.builds(
    lambda terms, constant: index(*terms, constant=constant),
    st.lists(st.tuples(st.integers(-2, 3), atoms), max_size=2),
    st.integers(-2, 4),
)
sizes = st.tuples(*[st.integers(1, 5)] * 3)
origins = st.tuples(*[st.integers(0, 6)] * 3)
shapes = st.lists(st.integers(1, 24), min_size=1, max_size=3)


def touched(access, tile, origin):
    """All elements inside of the tensor, one by one."""
    points = product(*(range(o, o + t) for o, t in zip(origin, tile, strict=True)))
    found = {tuple(dim.at(point) for dim in access.dims) for point in points}
    return {e for e in found if all(0 <= x < n for x, n in zip(e, access.shape, strict=True))}


@settings(max_examples=1000)
@given(shapes, st.data(), sizes, origins)
def test_footprint_of_linear_maps_is_exact(shape, data, tile, origin):
    dims = tuple(data.draw(linear) for _ in shape)
    access = TensorAccess(tuple(shape), 4, dims)
    assert access.elements(tile, origin) == len(touched(access, tile, origin))


@settings(max_examples=1000)
@given(shapes, st.data(), sizes, origins)
def test_footprint_with_floordiv_and_mod_is_exact(shape, data, tile, origin):
    dims = tuple(data.draw(anything) for _ in shape)
    access = TensorAccess(tuple(shape), 4, dims)
    assert access.elements(tile, origin) == len(touched(access, tile, origin))


@settings(max_examples=200)
@given(st.data(), sizes)
def test_the_box_holds_every_element(data, tile):
    dim = data.draw(anything)
    values = [dim.at(point) for point in product(*map(range, tile))]
    low, high = dim.bounds(tile)
    assert low <= min(values) and max(values) <= high
    if dim.linear:
        assert (low, high) == (min(values), max(values))


@settings(max_examples=200)
@given(st.lists(st.tuples(st.integers(-7, 9), st.integers(1, 5)), max_size=4))
def test_count_sums(terms):
    sums = {
        sum(c * x for (c, _), x in zip(terms, xs, strict=True))
        for xs in product(*(range(n) for _, n in terms))
    }
    assert count_sums(terms) == len(sums)


def test_convolution_footprint_by_hand():
    # stride 2, 3x3: 4x8 outputs need a 9x17 input; 1 channel block of 16
    expr = conv(64, 56, 64, 3, stride=2)
    image, weights, output = expr.footprint((1, 1, 4, 8, 16))
    assert image == 4 * (4 * 9 * 17 * 16)
    assert weights == 4 * (4 * 3 * 3 * 16 * 16)
    assert output == 4 * (4 * 8 * 16)


def test_strided_1x1_convolution_skips_pixels():
    expr = conv(16, 56, 16, 1, stride=2)
    assert expr.footprint((1, 1, 4, 8, 16))[0] == 4 * 4 * 8 * 16
    assert expr.inputs[0].extents(expr.full((1, 1, 4, 8, 16)))[2:4] == (7, 15)


def test_dilation_and_halo_by_hand():
    # out 4, kernel 3 dilated by 4: 4 * 3 = 12 elements; padding 2 cuts off two of them
    dilated = TensorAccess((40,), 4, (index((1, 0), (4, 1)),))
    assert dilated.elements((4, 3)) == 12
    padded = TensorAccess((40,), 4, (index((1, 0), (4, 1), constant=-2),))
    assert padded.elements((4, 3)) == 10
    assert padded.elements((4, 3), (8, 0)) == 12


def test_packed_panel_footprint_by_hand():
    expr = gemm(128, 768, 768)
    a, b, bias, c = expr.footprint((13, 32))
    assert (a, b, bias, c) == (4 * 13 * 768, 4 * 32 * 768, 4 * 32, 4 * 13 * 32)
    assert expr.flops((13, 32)) == 2 * 13 * 32 * 768 + 13 * 32


def test_tiles_stop_at_the_end_of_an_axis():
    assert elementwise(10, 7).footprint((64, 64)) == (280, 280, 280)


def test_strides():
    expr = gemm(128, 768, 768)
    a, b, _, c = expr.accesses
    assert a.stride(1, 16, 768) == 0
    assert b.stride(1, 16, 768) == 1
    assert b.stride(1, 32, 768) is None  # two panels
    assert b.stride(2, 16, 768) == 16
    assert c.stride(0, 16, 128) == 768


@pytest.mark.parametrize(
    ("kind", "expr"),
    [
        ("contraction", gemm(4, 16, 8)),
        ("convolution", conv(16, 7, 16, 3)),
        ("elementwise", elementwise(5)),
    ],
)
def test_kind_is_inferred(kind, expr):
    assert expr.kind == kind


def test_bad_expressions_are_refused():
    good = TensorAccess((4,), 4, (at(0),))
    with pytest.raises(ExpressionError, match="kind 'loop'"):
        tensor_expr([("i", 4, "loop")], [], [good])
    with pytest.raises(ExpressionError, match="without an output"):
        tensor_expr([("i", 4, "parallel")], [good], [])
    with pytest.raises(ExpressionError, match="axis 3"):
        tensor_expr([("i", 4, "parallel")], [TensorAccess((4,), 4, (at(3),))], [good])
    with pytest.raises(ExpressionError, match="one per dimension"):
        tensor_expr([("i", 4, "parallel")], [TensorAccess((4, 4), 4, (at(0),))], [good])
    with pytest.raises(ExpressionError, match="divisor"):
        mod(at(0), 0)
