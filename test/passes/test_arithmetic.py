"""The loops of a body: which of them span a space of points, and what each point costs."""

import math

from hypothesis import given
from hypothesis import strategies as st

from rcompiler.passes.tiling.arithmetic import Part, arithmetic


def test_sums_that_follow_one_another_are_one_loop():
    parts = [Part(2.0, frozenset({0, 1})), Part(4.0, frozenset({0, 2})), Part(10.0, frozenset({0}))]
    found = arithmetic([8, 64, 32], ["parallel", "reduction", "reduction"], parts)
    assert (found.sizes, dict(found.shared)) == ((8, 64, 1), {2: 1})
    assert (found.ops, found.epilogue_ops) == (2.0 + 4.0 / 2, 10.0)


def test_what_precedes_a_sum_counts_at_each_of_its_points():
    parts = [Part(2.0, frozenset({0, 1})), Part(24.0, frozenset({0, 1}))]
    found = arithmetic([8, 64], ["parallel", "reduction"], parts)
    assert (found.ops, found.epilogue_ops) == (26.0, 0.0)


def test_loops_around_each_other_stay_apart():
    parts = [Part(2.0, frozenset({0, 1, 2})), Part(30.0, frozenset({0, 1}))]
    found = arithmetic([8, 64, 32], ["parallel", "reduction", "reduction"], parts)
    assert (found.sizes, dict(found.shared)) == ((8, 64, 32), {})
    assert found.ops == 2.0 + 30.0 / 32


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(1, 30), st.sets(st.integers(0, 5))), max_size=8),
)
def test_no_arithmetic_is_lost_or_multiplied(sizes, drawn):
    kinds = ["parallel" if a % 3 == 0 else "reduction" for a in range(len(sizes))]
    parts = [Part(cost, frozenset(a for a in axes if a < len(sizes))) for cost, axes in drawn]
    found = arithmetic(sizes, kinds, parts)
    loops = [a for a, kind in enumerate(kinds) if kind == "reduction"]
    wanted = sum(
        p.cost * math.prod(max(sizes[a], 1) for a in loops if a in p.axes)
        for p in parts
        if any(a in p.axes for a in loops)
    )
    points = math.prod(max(found.sizes[a], 1) for a in loops)
    assert math.isclose(found.ops * points, wanted, rel_tol=1e-9)
    assert all(found.shared.get(other, other) == other for other in found.shared.values())
    for part in parts:  # no two axes of one part share a loop
        own = [found.shared.get(a, a) for a in part.axes]
        assert len(set(own)) == len(own)
