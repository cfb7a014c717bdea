"""The update tree: trials by its laws, optima, contexts, restarts."""

import math
import random
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated import ENVIRONMENT, explore, names, summed

from rcompiler.astra import (
    Exhaustive,
    Fork,
    Leaf,
    Measurements,
    Parallel,
    Prefix,
    Replicas,
    Variable,
)
from rcompiler.astra.measurements import Known
from rcompiler.astra.separation import check_separation
from rcompiler.astra.variables import WHOLE

STRATEGIES, SEGMENTS, OPS = names("m", 3), names("s", 3), names("o", 3)
KERNELS, POLICIES = names("k", 4), names("p", 2)


def leaf(name: str, choices=KERNELS, scope: str = "s", context=()) -> Leaf:
    return Leaf(Variable(name, choices, scope, context))


def segment(name: str) -> Prefix:
    """Kernels one after the other, then the policy: each knows what was pinned before it."""
    ops = [f"{name}.{op}" for op in OPS]
    leaves = [leaf(op, KERNELS, name, ("memory", *ops[:number])) for number, op in enumerate(ops)]
    return Prefix(*leaves, leaf(f"{name}.policy", POLICIES, name, ("memory", *ops)))


def large_tree() -> Fork:
    bodies = {choice: Parallel(*map(segment, SEGMENTS)) for choice in STRATEGIES}
    return Fork(Variable("memory", STRATEGIES, WHOLE), bodies)


def large_device(plan) -> dict[str, float]:
    """Segments whose ops lean on one another a little, less than the kernels differ."""
    scopes = {}
    for name in SEGMENTS:
        rng = random.Random(f"{name} {plan['memory']}")
        chosen = [plan[f"{name}.{op}"] for op in OPS]
        ns = 1000.0
        for op, kernel in zip(OPS, chosen, strict=True):
            ns += random.Random(f"{name} {plan['memory']} {op} {kernel}").uniform(100, 900)
        ns += 10 * len({*chosen}) + rng.uniform(0, 300)
        ns *= 1.0 if plan[f"{name}.policy"] == POLICIES[int(name[1:]) % 2] else 1.07
        scopes[name] = ns
    return summed(scopes)


def best_of_all() -> tuple[dict[str, str], int]:
    """By trying everything; segments do not touch one another, so one after the other."""
    best, plans = {}, 0
    for memory in STRATEGIES:
        plan, count = {"memory": memory}, 1
        for name in SEGMENTS:
            variables = [*(f"{name}.{op}" for op in OPS), f"{name}.policy"]
            others = {f"{n}.{v}": c for n in SEGMENTS for v, c in
                      [*((op, KERNELS[0]) for op in OPS), ("policy", POLICIES[0])]}  # fmt: skip
            found = {}
            for choices in product(*[KERNELS] * 3, POLICIES):
                own = dict(zip(variables, choices, strict=True))
                found[choices] = large_device({**others, **plan, **own})[name]
            count *= len(found)
            plan |= dict(zip(variables, min(found, key=found.__getitem__), strict=True))
        plans += count
        best[large_device(plan)[WHOLE]] = plan
    return best[min(best)], plans


def test_six_million_plans_in_45_trials():
    """The tree of the notes to Astra §2: 3 x (4 + 4 + 4 + 2) + 3 trials; the best of all plans."""
    optimum, plans = best_of_all()
    times = Measurements()
    tree = large_tree()
    check_separation(tree)
    assert (plans, tree.trials()) == (6_291_456, 45)
    assert explore(tree, large_device, times) == (optimum, 45)
    # a warm restart: nothing is run again
    assert explore(large_tree(), large_device, times) == (optimum, 0)
    tree.reset()
    assert explore(tree, large_device, times) == (optimum, 0)


def test_another_environment_begins_anew():
    times = Measurements()
    explore(leaf("a"), lambda plan: {"s": 1.0}, times)
    other = leaf("a")
    other.settle({}, Known(times, "another machine"))
    assert not other.done


@pytest.mark.parametrize(
    ("tree", "trials"),
    [
        (Prefix(*(leaf(f"v{n}") for n in range(3))), 12),
        (Parallel(*(leaf(f"v{n}", scope=f"s{n}") for n in range(3))), 4),
        (Exhaustive(*(Variable(f"v{n}", KERNELS, "s") for n in range(3))), 64),
        (Replicas(*(Variable(f"v{n}", KERNELS, f"s{n}", role="v", scope_signature="s")
                    for n in range(3))), 2),
        (Fork(Variable("h", ("x", "y"), WHOLE), {"x": leaf("a"), "y": leaf("b", KERNELS[:2])}), 8),
    ],
)  # fmt: skip
def test_the_laws_of_trials(tree, trials):
    def device(plan):
        return summed({scope: 1.0 for scope in ("s", "s0", "s1", "s2")})

    assert tree.trials() == trials
    assert explore(tree, device, Measurements())[1] == trials


@given(st.integers(0, 10_000))
@settings(max_examples=50, deadline=None)
def test_exhaustive_finds_what_brute_force_finds(seed):
    rng = random.Random(seed)
    variables = [Variable(f"v{n}", names("c", rng.randint(1, 4)), "s") for n in range(3)]
    table = {choices: rng.uniform(1, 9) for choices in product(*(v.choices for v in variables))}

    def device(plan):
        return {"s": table[tuple(plan[v.name] for v in variables)]}

    plan, trials = explore(Exhaustive(*variables), device, Measurements())
    assert device(plan)["s"] == min(table.values()) and trials == len(table)


@st.composite
def makers(draw, depth=3, scope="s"):
    """What makes a random tree with variables of different names, as often as it is called."""
    number = [0]

    def make(depth: int, scope: str):
        """A node as a call that makes it."""
        kind = draw(st.sampled_from(("leaf", "prefix", "parallel", "fork")[: 4 if depth else 1]))
        if kind == "leaf":
            number[0] += 1
            variable = Variable(f"v{number[0]}", names("c", draw(st.integers(1, 3))), scope)
            return lambda: Leaf(variable)
        if kind == "prefix":
            parts = [make(depth - 1, scope) for _ in range(draw(st.integers(1, 3)))]
            return lambda: Prefix(*(part() for part in parts))
        if kind == "parallel":
            parts = [make(depth - 1, f"{scope}.{n}") for n in range(draw(st.integers(1, 3)))]
            return lambda: Parallel(*(part() for part in parts))
        number[0] += 1
        head = Variable(f"v{number[0]}", names("h", draw(st.integers(1, 2))), scope)
        bodies = {choice: make(depth - 1, scope) for choice in head.choices}
        return lambda: Fork(head, {choice: body() for choice, body in bodies.items()})

    return make(depth, scope)


@given(makers())
@settings(max_examples=300, deadline=None)
def test_a_restart_tries_nothing_again(make):
    """Of any tree: a new one over the same times pins the same plan."""
    times = Measurements()

    def device(plan):
        scopes = {variable.scope for variable in make().variables()}
        text = sorted(plan.items())
        return {scope: 1.0 + random.Random(f"{scope} {text}").random() for scope in scopes}

    tree = make()
    plan, trials = explore(tree, device, times)
    assert trials <= tree.trials()
    assert all(plan[v.name] in v.choices for v in tree.variables() if v.name in plan)
    assert explore(make(), device, times) == (plan, 0)
    tree.reset()
    assert explore(tree, device, times) == (plan, 0)


def test_a_later_variable_sees_what_was_pinned_before_it():
    """The stale context: a first version wrote pins too late, and read the time of `b` under the
    first choice of `a`, which is fast, where `a` is pinned to its second, under which it is slow.
    """

    def device(plan):
        a, b = int(plan["a"]), int(plan["b"])
        return {"s": (10, 8)[a] + ((0, -5), (0, 5))[a][b]}

    tree = Prefix(leaf("a", ("0", "1")), leaf("b", ("0", "1"), context=("a",)))
    times = Measurements()
    # known from elsewhere: `b` under the first choice of `a`
    b = Variable("b", ("0", "1"), "s", ("a",))
    for choice, ns in (("0", 10.0), ("1", 5.0)):
        times.add(b.key({"a": "0"}, choice, ENVIRONMENT), (ns, ns))
    plan, trials = explore(tree, device, times)
    assert (plan, trials) == ({"a": "1", "b": "0"}, 4)
    keys = [b.key({"a": a}, "1", ENVIRONMENT) for a in "01"]
    assert [times.trusted(key) for key in keys] == [5.0, 13.0]  # two contexts, two entries


def test_names_are_no_part_of_a_key():
    one = Variable("a", ("x", "y"), "s", ("c",), role="rkernel 0", scope_signature="hash")
    two = Variable("b", ("y", "x"), "t", ("d",), role="rkernel 0", scope_signature="hash")
    assert one.key({"c": "1"}, "x", "e") == two.key({"d": "1"}, "x", "e")
    assert one.key({"c": "1"}, "x", "e") != two.key({"d": "2"}, "x", "e")


def test_allocations_that_allow_other_fusions():
    """The adjacent layout costs 5 and allows a fusion that saves 20; the fork finds the pair."""

    def device(plan):
        own = 100 + (5 if plan["memory"] == "adjacent" else 0)
        return {"s": own - (20 if plan.get("fuse") == "wide" else 0), WHOLE: own}  # fmt: skip

    def whole(plan):
        return {**device(plan), WHOLE: device(plan)["s"]}

    tree = Fork(
        Variable("memory", ("reuse", "adjacent"), WHOLE),
        {"reuse": leaf("fuse", ("none",)), "adjacent": leaf("fuse", ("none", "wide"))},
    )
    assert explore(tree, whole, Measurements())[0] == {"memory": "adjacent", "fuse": "wide"}


def test_a_fusion_can_be_declined():
    tree = leaf("fuse", ("whole", "epilogue", "none"))
    slow = {"whole": 9.0, "epilogue": 8.0, "none": 7.0}
    assert explore(tree, lambda plan: {"s": slow[plan["fuse"]]}, Measurements())[0] == {
        "fuse": "none"
    }


def test_segments_are_independent_where_a_barrier_is_between_them():
    """With history across segments parallel trials find a wrong plan, as a prefix does not."""

    def device(plan, barrier):
        first, second = plan["a"], plan["b"]
        spilled = 0.0 if barrier else 6.0 * (first == "1")  # it delays the other
        return {"s0": 10.0 - (first == "1"), "s1": 10.0 - 4 * (second == "1") + spilled,
                WHOLE: 20.0 - (first == "1") - 4 * (second == "1") + spilled}  # fmt: skip

    def tree():
        return Parallel(leaf("a", ("0", "1"), "s0"), leaf("b", ("0", "1"), "s1"))

    with_barrier, _ = explore(tree(), lambda plan: device(plan, True), Measurements())
    without, _ = explore(tree(), lambda plan: device(plan, False), Measurements())
    assert with_barrier == {"a": "1", "b": "1"}
    assert device(without, False)[WHOLE] > device({"a": "0", "b": "1"}, False)[WHOLE]


def test_a_second_sweep_begins_where_the_first_ended():
    """Two variables that fit one another: the first sweep cannot know, the second does."""
    table = {("0", "0"): 10, ("1", "0"): 11, ("0", "1"): 9, ("1", "1"): 5}

    def device(plan):
        return {"s": table[plan["a"], plan["b"]]}

    a, b = (Variable(x, ("0", "1"), "s", (y,)) for x, y in (("a", "b"), ("b", "a")))
    once, _ = explore(Prefix(Leaf(a), Leaf(b)), device, Measurements())
    twice, trials = explore(Prefix(Leaf(a), Leaf(b), Leaf(a)), device, Measurements())
    assert (once, twice, trials) == ({"a": "0", "b": "1"}, {"a": "1", "b": "1"}, 6)


@pytest.mark.parametrize(
    ("tree", "what"),
    [
        (Parallel(leaf("a"), leaf("b")), "judged by one scope"),
        (Parallel(leaf("a", scope="x"), leaf("b", scope="y", context=("a",))), "depends on 'a'"),
        (Parallel(leaf("a", scope="x"), leaf("a", scope="y")), "in two parallel parts"),
        (Parallel(leaf("a", scope="x"), leaf("b", scope=WHOLE)), "whole model"),
        (Prefix(Parallel(leaf("a"), leaf("b"))), "judged by one scope"),
        (Fork(Variable("h", ("x",), WHOLE), {"x": Parallel(leaf("a"), leaf("b"))}), "one scope"),
    ],
)
def test_what_cannot_be_told_apart_is_refused(tree, what):
    with pytest.raises(ValueError, match=what):
        check_separation(tree)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Variable("a", (), "s"),
        lambda: Variable("a", ("x", "x"), "s"),
        lambda: Variable("a", ("x",), "s", ("a",)),
        lambda: Exhaustive(Variable("a", ("x",), "s"), Variable("b", ("x",), "t")),
        lambda: Exhaustive(Variable("a", ("x",), "s"), Variable("a", ("x",), "s")),
        lambda: Parallel(),
        lambda: Fork(Variable("h", ("x", "y"), WHOLE), {"x": leaf("a")}),
        lambda: Replicas(Variable("a", ("x",), "s"), Variable("b", ("x",), "s")),
        lambda: Measurements().add("k", [0.0]),
        lambda: Measurements().add("k", [math.nan]),
    ],
)
def test_what_is_none(make):
    with pytest.raises(ValueError):
        make()


def test_choices_that_a_model_rules_out():
    variable = Variable("a", ("x", "y", "z"), "s")
    assert variable.pruned({"x": 9.0, "y": 1.0, "z": 1.4}).choices == ("x", "y", "z")[:1] + (
        "y", "z",
    )  # fmt: skip
    assert variable.pruned({"x": 1.0, "y": 1.6, "z": 1.4}).choices == ("x", "z")


def test_times_are_believed_when_two_runs_agree():
    times = Measurements()
    times.add("k", [100.0])
    assert times.trusted("k") is None
    times.add("k", [120.0])
    assert times.trusted("k") is None
    times.add("k", [102.0])
    assert times.trusted("k") == 101.0  # with the first one, which agrees
    times.fail("k")
    times.add("k", [1.0, 1.0])
    assert times.trusted("k") == math.inf and times.failed("k")


def test_what_failed_is_never_tried_again():
    times = Measurements()
    tree = leaf("a", ("0", "1", "2"))
    plan, known = {}, Known(times, ENVIRONMENT)
    tree.settle(plan, known)
    tree.propose(plan)
    assert not tree.fail(plan, known, "another scope") and tree.fail(plan, known, "s")
    plan, trials = explore(tree, lambda plan: {"s": 5.0 - int(plan["a"])}, times)
    assert (plan, trials) == ({"a": "2"}, 2)
    tree.reset()
    assert explore(tree, lambda plan: {"s": 1.0}, times) == ({"a": "2"}, 0)


def test_replicas_try_different_choices_at_once():
    layers = [
        Variable(f"rk{n}", names("k", 12), f"layer{n}", role="rk", scope_signature="layer")
        for n in range(12)
    ]
    proposed = []

    def device(plan):
        proposed.append(dict(plan))
        return {f"layer{n}": 10.0 - (plan[f"rk{n}"] == "k7") for n in range(12)}

    plan, trials = explore(Replicas(*layers), device, Measurements())
    assert trials == 1 and {*proposed[0].values()} == {*names("k", 12)}
    assert {*plan.values()} == {"k7"}


def test_a_fork_inside_of_a_fork_has_the_variables_of_its_branch():
    """Memory, then segment cuts, as in the notes to Astra §4.3."""

    def make():
        cuts = {"c0": leaf("x", ("0", "1")), "c1": leaf("y", ("0", "1"))}
        cut = Fork(Variable("cut", ("c0", "c1"), WHOLE), cuts)
        bodies = {"m0": leaf("z", ("0", "1")), "m1": cut}
        return Prefix(Fork(Variable("memory", ("m0", "m1"), WHOLE), bodies), leaf("w", ("0", "1")))

    def device(plan):
        ns = 10.0 - (plan["memory"] == "m1") - (plan.get("cut") == "c1") - (plan["w"] == "1")
        return {"s": ns, WHOLE: ns}

    times = Measurements()
    plan, trials = explore(make(), device, times)
    assert {k: plan[k] for k in ("memory", "cut", "w")} == {"memory": "m1", "cut": "c1", "w": "1"}
    assert {*plan} == {"memory", "cut", "y", "w"} and trials == make().trials() == 12
    assert explore(make(), device, times) == (plan, 0)


def test_what_is_hardly_better_changes_no_choice():
    def device(plan):
        return {"s": 1.0 - 0.02 * (plan["a"] == "1") - 0.04 * (plan["b"] == "1")}

    tree = Prefix(leaf("a", ("0", "1")), leaf("b", ("0", "1")))
    assert explore(tree, device, Measurements(), 0.03)[0] == {"a": "0", "b": "1"}


def test_where_everything_fails_there_is_no_hope():
    times = Measurements()
    known, tree = Known(times, ENVIRONMENT), Prefix(leaf("a", ("0", "1")), leaf("b", ("0",)))
    for _ in range(2):
        plan = {}
        tree.settle(plan, known)
        assert not tree.hopeless
        assert tree.fail(plan, known, None)
    assert tree.hopeless


def test_another_machine_is_measured_anew_but_for_what_failed():
    times = Measurements()
    times.fail("failed")
    times.add("known", (1.0, 1.0))
    later = Measurements()
    later.add("of another model", (1.0, 1.0))
    for own in (times, later):
        own.trusted("asked for")
        own.forget()
    assert [*times.items()] == [("failed", (math.inf,))] and [*later.items()] == []
