"""affine.Linear against plain integers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rcompiler.kernelgen.boxes import lane_cover, step_cover
from rcompiler.linalg.affine import LANE, Linear

NAMES = ("a", "b", LANE)
linears = st.builds(
    lambda constant, terms: Linear(constant, tuple(sorted((s, c) for s, c in terms.items() if c))),
    st.integers(-40, 40),
    st.dictionaries(st.sampled_from(NAMES), st.integers(-12, 12)),
)
points = st.fixed_dictionaries({name: st.integers(0, 7) for name in NAMES})
RANGES = dict.fromkeys(NAMES, 8)


def value(linear: Linear, point: dict[str, int]) -> int:
    return linear.constant + sum(c * point[s] for s, c in linear.terms)


@given(linears, linears, st.integers(-5, 5), points)
def test_arithmetic(a: Linear, b: Linear, factor: int, point: dict[str, int]):
    assert value(a + b, point) == value(a, point) + value(b, point)
    assert value(a + factor, point) == value(a, point) + factor
    assert value(a * factor, point) == value(a, point) * factor
    assert a + b == b + a
    assert a + a * -1 == Linear()


@given(linears, points)
def test_lanes(a: Linear, point: dict[str, int]):
    assert value(a.at_lane(point[LANE]), point) == value(a, point)
    assert value(a.without(LANE), point) + a.coefficient(LANE) * point[LANE] == value(a, point)


@given(linears, st.integers(1, 16), points)
def test_split_is_floor_division(a: Linear, divisor: int, point: dict[str, int]):
    done = a.split(divisor, RANGES)
    if done is not None:
        expected = divmod(value(a, point), divisor)
        assert (value(done[0], point), value(done[1], point)) == expected


@given(linears, points)
def test_bounds(a: Linear, point: dict[str, int]):
    highest = a.highest(RANGES)
    assert highest is not None
    assert a.lowest(RANGES) <= value(a, point) <= highest


def test_split_where_it_is_linear():
    i = Linear.of("i")
    assert (i * 16 + 3).split(16, {}) == (i, Linear(3))
    assert (i * 16 + Linear.of(LANE)).split(16, {LANE: 16}) == (i, Linear.of(LANE))
    assert Linear(-1).split(4, {}) == (Linear(-1), Linear(3))


def test_split_where_it_is_not():
    i = Linear.of("i")
    assert i.split(4, {}) is None  # unknown range
    assert i.split(4, {"i": 5}) is None
    assert (i + Linear.of(LANE)).split(16, {"i": 2, LANE: 16}) is None
    assert i.highest({}) is None


@given(st.integers(0, 300), st.sampled_from([1, 2, 4, 8, 16]))
def test_lane_cover(extent: int, lanes: int):
    widths = lane_cover(extent, lanes)
    covered, left = 0, extent
    for width in widths:  # every width is used as often as it fits
        assert width <= lanes
        covered += left // width * width
        left %= width
    assert covered == extent
    assert widths == sorted(set(widths), reverse=True)


@pytest.mark.parametrize(
    ("extent", "step", "expected"),
    [
        (56, 7, [(7, 8)]),
        (56, 6, [(6, 8), (4, 2)]),  # 6 and 2 are 4 and 4
        (7, 5, [(5, 1), (2, 1)]),  # an odd number
        (57, 6, [(6, 9), (3, 1)]),  # half a tile
        (4, 6, [(4, 1)]),
        (0, 6, [(1, 0)]),
    ],
)
def test_step_cover(extent: int, step: int, expected: list[tuple[int, int]]):
    assert step_cover(extent, step, even=True) == expected


@pytest.mark.parametrize("even", [False, True])
def test_every_step_cover_covers(even: bool):
    for extent in range(40):
        for step in range(1, 20):
            cover = step_cover(extent, step, even=even)
            assert sum(size * count for size, count in cover) == extent
            assert all(0 < size <= step for size, _ in cover)
    assert step_cover(56, 6, even=False) == [(6, 9), (2, 1)]
