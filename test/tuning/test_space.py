"""tuning/space.py, segments.py: what may be chosen, and whose time judges it; no clock."""

import pytest
from simulated import explore, summed

from rcompiler.astra import Fork, Measurements, Parallel, Prefix
from rcompiler.astra.separation import check_separation
from rcompiler.astra.variables import WHOLE
from rcompiler.rammer.timeline import Timeline
from rcompiler.tuning import segments, space
from rcompiler.tuning.space import Choices, Kernels, Segment


def kernels(*counts: int, work: float = 1.0) -> list[Kernels]:
    return [
        Kernels(f"body{n}", tuple(f"t{n}.{k}" for k in range(count)), work)
        for n, count in enumerate(counts)
    ]


def alone(*bodies: str) -> list[Segment]:
    return [Segment((body,)) for body in bodies]


def test_segments_are_tried_at_once_and_the_rest_one_after_the_other():
    own = Choices(kernels(4, 3), alone("body0", "body1"), ("a on 2", "b on 2"), ("auto", "apart"))
    tree = space.tree({"fused": own})
    assert isinstance(tree, Prefix) and isinstance(tree.parts[0], Parallel)
    assert tree.trials() == max(4, 3) + 2 + 2
    schedule, memory = [v for v in tree.variables() if v.scope == WHOLE]
    assert len(schedule.context) == 2 and memory.context == (*schedule.context, "schedule")
    check_separation(tree)


def test_kernels_of_one_segment_see_one_another():
    """The body with the most work comes first."""
    heavy = Kernels("heavy", ("x", "y"), 9.0)
    light = Kernels("light", ("x", "y"), 1.0)
    tree = space.tree({"fused": Choices([light, heavy], [Segment(("heavy", "light"))])})
    first, second = tree.variables()
    assert first.name.startswith("kernel heavy") and second.context == (first.name,)
    assert first.scope == second.scope and tree.trials() == 4


def test_kernels_that_cannot_gain_are_not_tried():
    own = [Kernels("big", ("x", "y"), 1000.0), Kernels("tiny", ("x", "y"), 1.0)]
    tree = space.tree({"fused": Choices(own, alone("big", "tiny"))})
    assert [v.role for v in tree.variables()] == ["kernel big"]


def test_of_a_segment_with_many_bodies_those_with_the_most_work_are_tried():
    own = [Kernels(f"b{n:02}", ("x", "y"), 100.0 + n) for n in range(20)]
    tree = space.tree({"fused": Choices(own, [Segment(tuple(k.body for k in own))])})
    names = [v.role for v in tree.variables()]
    assert names == [f"kernel b{n}" for n in range(19, 11, -1)]


def test_ways_of_fusing_have_trees_of_their_own():
    fused = Choices(kernels(3), alone("body0"))
    tree = space.tree({"fused": fused, "unfused": Choices([], [])})
    assert isinstance(tree, Fork) and tree.trials() == (3 + 1) + (1 + 1)
    check_separation(tree)


def test_one_eu_is_chosen_where_tasks_are_tiny_and_all_where_branches_overlap():
    """Streams are EUs (Astra's S): what waiting costs decides, not a rule."""
    own = Choices(kernels(2), alone("body0"), ("rammer on 2", "bsp on 2", "rammer on 1"))

    def device(work: float, wait: float):
        def times(plan):
            policy, _, eus = plan["schedule"].partition(" on ")
            meetings = {"rammer": 2, "bsp": 3}[policy] if eus == "2" else 0
            kernel = 0.9 if next(v for n, v in plan.items() if "body0" in n) == "t0.1" else 1.0
            whole = kernel * work / int(eus) + meetings * wait
            return {WHOLE: whole, own.segments[0].scope: kernel * work}

        return times

    tiny, trials = explore(space.tree({"as asked": own}), device(2.0, 5.0), Measurements())
    assert tiny["schedule"] == "rammer on 1" and trials == 2 + 3
    large, _ = explore(space.tree({"as asked": own}), device(1000.0, 5.0), Measurements())
    assert large["schedule"] == "rammer on 2"
    assert next(v for n, v in large.items() if "body0" in n) == "t0.1"


@pytest.mark.parametrize(("loss", "best"), [(1.3, "unfused"), (0.7, "as asked")])
def test_a_way_of_fusing_can_be_declined(loss, best):
    """loss: what fusing costs, in times of the ops apart; each with kernels of its own."""
    fused = Choices(kernels(3), alone("body0"))
    apart = Choices(kernels(2, 2), alone("body0", "body1"))
    tree = space.tree({"as asked": fused, "unfused": apart})

    def times(plan):
        cost = loss if plan["fusion"] == "as asked" else 1.0
        chosen = [c for n, c in plan.items() if n.startswith("kernel")]
        scopes = {n.rpartition(" in ")[2]: 0.0 for n in plan if n.startswith("kernel")}
        share = cost * (0.9 if chosen[0].endswith(".1") else 1.0) / len(scopes)
        return summed(dict.fromkeys(scopes, share))

    plan, _ = explore(tree, times, Measurements())
    assert plan["fusion"] == best


def test_nothing_to_choose():
    with pytest.raises(ValueError, match="nothing to choose"):
        space.tree({"fused": Choices(kernels(1), alone("body0"), ("a on 1",), ("auto",))})


def test_names_say_what_is_in_a_segment_not_where_it_is():
    one, two = Segment(("a", "b")), Segment(("b", "a"))
    assert one.scope == two.scope != Segment(("a",)).scope
    own = Choices(kernels(2, 2), alone("body0", "body1"))
    other = Choices(kernels(2, 2)[::-1], alone("body1", "body0"))
    texts = [sorted(space.text(space.tree({"fused": c})).splitlines()) for c in (own, other)]
    assert texts[0] == texts[1]
    assert "fused:" in space.text(space.tree({"fused": own, "unfused": own}))


class Run:
    def __init__(self, operator: str, start: float, end: float) -> None:
        self.operator, self.start, self.end = operator, start, end


class Line:
    """As much of a `Timeline` as a cut reads."""

    def __init__(self, *spans: Run) -> None:
        self.spans = spans


def test_a_cut_is_where_nothing_goes_on():
    line: Timeline = Line(  # type: ignore[assignment]
        Run("a", 0, 10), Run("a", 0, 9), Run("b", 10, 20), Run("c", 12, 30), Run("d", 30, 40)
    )
    assert segments.cut(line) == [["a"], ["b", "c"], ["d"]]


def test_ends_that_are_nearly_the_same_are_cuts():
    line: Timeline = Line(Run("a", 0, 10), Run("b", 9.9, 20))  # type: ignore[assignment]
    assert segments.cut(line) == [["a"], ["b"]]
    line = Line(Run("a", 0, 10), Run("b", 8, 20))  # type: ignore[assignment]
    assert segments.cut(line) == [["a", "b"]]


def test_segments_that_share_a_body_are_one():
    pieces = [["a"], ["b", "c"], ["d"], ["e"]]
    bodies = {"a": "1", "b": "2", "c": "3", "d": "1", "e": "4"}
    found = segments.joined(pieces, bodies)
    assert found["a"] is not None and found["a"] == found["d"] == Segment(("1", "1"))
    assert found["b"] == found["c"] == Segment(("2", "3")) and found["e"] == Segment(("4",))


def test_segments_add_up_to_the_launch():
    pieces = [["a"], ["b", "c"], ["d"]]
    scopes = {"a": "x", "b": "y", "c": "y", "d": "x"}
    columns = {
        "operator": ["a", "a", "b", "c", "d"],
        "end_ns": [9.0, 10.0, 25.0, 20.0, 31.0],
    }
    ends = segments.last_ends(columns)
    assert ends == {"a": 10.0, "b": 25.0, "c": 20.0, "d": 31.0}
    found = segments.scope_times(pieces, scopes, ends)
    assert found == {"x": 10.0 + 6.0, "y": 15.0} and sum(found.values()) == 31.0


def test_an_operator_that_ends_before_the_one_before_takes_no_time():
    found = segments.scope_times([["a"], ["b"]], {"a": "x", "b": "y"}, {"a": 10.0, "b": 8.0})
    assert found == {"x": 10.0, "y": 0.0}
