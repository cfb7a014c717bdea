"""affine.Linear against plain integers."""

from hypothesis import given
from hypothesis import strategies as st

from rcompiler.linalg.affine import LANE, Linear, lanes_differ

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
    assert value(a.first, point) + a.stride * point[LANE] == value(a, point)
    assert a.stride == a.coefficient(LANE)
    assert lanes_differ([Linear(1), a]) == (a.stride != 0)


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
