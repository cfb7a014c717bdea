"""The request loop on simulated devices: work-conserving, bounded, never worse, under noise."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated import ENVIRONMENT, Server, jitter, kinds, names, neighbours, quiet, summed

from rcompiler.astra import (
    Explorer,
    Fork,
    Leaf,
    Measurements,
    Parallel,
    Prefix,
    Sample,
    Settings,
    Step,
    Variable,
)
from rcompiler.astra.budget import Budget
from rcompiler.astra.distributions import distributions
from rcompiler.astra.drift import Drift
from rcompiler.astra.explorer import CALIBRATION, CANDIDATE, DUEL, FROZEN, INCUMBENT, SERVE, WARM
from rcompiler.astra.race import Race, Rules, noise_floor, quartile
from rcompiler.astra.variables import WHOLE

UNIT = (
    1e8  # ns of a segment: ten requests a second, so that seconds between blocks are few requests
)
QUICK = Settings(apart_s=0.0)
FREE = Budget(share=9.0, every=2)


def tree(choices: int = 4) -> Prefix:
    """Two segments, each with a kernel and a policy."""

    def segment(name: str) -> Prefix:
        kernel = Variable(f"{name}.k", names("k", choices), name)
        policy = Variable(f"{name}.p", names("p", 2), name, (f"{name}.k",))
        return Prefix(Leaf(kernel), Leaf(policy))

    return Prefix(Parallel(segment("s0"), segment("s1")))


def device(*costs: float):
    """costs: of each kernel, in units; policy p1 is 10 % faster."""

    def times(plan):
        return summed(
            {
                name: UNIT
                * costs[int(plan[f"{name}.k"][1:])]
                * (0.9 if plan[f"{name}.p"] == "p1" else 1.0)
                for name in ("s0", "s1")
            }
        )

    return times


def server(times=None, *, seed=0, noise=quiet, costs=(1.0, 1.2, 0.8, 0.9), **options) -> Server:
    options.setdefault("settings", QUICK)
    options.setdefault("budget", replace(FREE))
    explorer = Explorer(tree(len(costs)), times or Measurements(), ENVIRONMENT, **options)
    return Server(explorer, device(*costs), noise, seed)


def test_the_best_plan_serves_in_the_end():
    own = server()
    assert own.explorer.phase == CALIBRATION
    requests = own.serve(5000)
    assert own.explorer.phase == FROZEN
    assert own.explorer.incumbent == {"s0.k": "k2", "s0.p": "p1", "s1.k": "k2", "s1.p": "p1"}
    found = kinds(own.served)
    # work-conserving: a request, a run; the default needs no race, each other trial one warm run
    assert sum(found.values()) == requests and found[WARM] == 3 + 2 + 1
    assert abs(found[INCUMBENT] - found[CANDIDATE]) <= 1
    assert own.explorer.next(own.now) == Step(own.explorer.incumbent, SERVE)


def test_a_second_process_tries_nothing():
    """Not even the duel."""
    times = Measurements()
    server(times).serve(5000)
    again = server(times)
    assert again.explorer.incumbent["s0.k"] == "k2"
    assert again.explorer.phase == FROZEN and not again.served
    other = Explorer(tree(), times, "another machine")
    assert other.phase == CALIBRATION


def test_only_the_segment_of_a_changed_operator_is_tried_again():
    """And of renamed operators none."""

    def model(first: str, second: str, prefix: str = "") -> Prefix:
        return Prefix(
            Parallel(
                *(
                    Leaf(
                        Variable(
                            f"{prefix}{signature}{place}",
                            names(signature, 3),
                            f"{prefix}segment {place}",
                            role="kernel",
                            scope_signature=signature,
                        )
                    )
                    for place, signature in enumerate((first, second))
                )
            )
        )

    def serve(tree: Prefix) -> dict[str, int]:
        costs = {"0": 1.0, "1": 0.7, "2": 0.9}

        def times(plan):
            named = {v.name: v.scope for v in tree.variables()}
            return summed({named[n]: UNIT * costs[c[-1]] for n, c in plan.items()})

        explorer = Explorer(tree, known, ENVIRONMENT, settings=QUICK, budget=replace(FREE))
        own = Server(explorer, times, quiet)
        own.serve(2000)
        assert {choice[-1] for choice in explorer.incumbent.values()} == {"1"}
        return kinds(own.served)

    known = Measurements()
    assert serve(model("conv", "fc"))[WARM] == 2 + 1  # and the duel
    assert WARM not in serve(model("conv", "fc"))
    changed = model("conv", "pool")
    explorer = Explorer(changed, known, ENVIRONMENT, settings=QUICK)
    assert explorer.phase == CALIBRATION
    conv, pool = (part for part in changed.parts[0].parts)
    assert conv.done and not pool.done
    renamed = Explorer(model("conv", "fc", "renamed "), known, ENVIRONMENT, settings=QUICK)
    assert renamed._tree.done


@pytest.mark.parametrize("worse", [1.05, 3.0])
@pytest.mark.parametrize("noise", [quiet, jitter(0.02), neighbours])
@pytest.mark.parametrize("seed", range(5))
def test_all_candidates_worse(seed, noise, worse):
    """The default is kept, and what was tried cost no more than 2 % and one trial, at any time."""
    budget = Budget(every=2)
    own = server(seed=seed, noise=noise, budget=budget)
    own.device = lambda plan: summed(
        {s: UNIT * (worse if plan != own.static else 1.0) for s in ("s0", "s1")}
    )
    # What the static plan would have taken is known of the simulation, and to the budget as a
    # median of noisy requests.
    share, longest = (0.02, 1.0) if noise is quiet else (0.022, 4.1)
    for _ in range(20_000):
        own.request()
        one_trial = 2 * UNIT * longest * worse
        assert budget.extra_ns <= 0.02 * budget.served_ns + one_trial
        assert own.total - own.usual <= share * own.total + one_trial
        if own.explorer.phase == FROZEN:
            break
    assert own.explorer.phase == FROZEN and own.explorer.incumbent == own.static


@pytest.mark.parametrize("seed", range(5))
def test_candidates_that_stop_are_paid_for(seed):
    """300 of them, one after the other: 2 % and one trial, the answers made again included."""
    leaf = Leaf(Variable("s0.k", names("k", 300), "s0"))
    explorer = Explorer(leaf, Measurements(), ENVIRONMENT, settings=QUICK, budget=Budget())
    own = Server(explorer, lambda plan: summed({"s0": UNIT}), quiet, seed)
    own.fails = lambda plan: "s0" if plan != own.static else None
    for _ in range(40_000):
        own.request()
        assert own.total - len(own.served) * UNIT <= 0.02 * own.total + UNIT
        if explorer.phase == FROZEN:
            break
    assert explorer.phase == FROZEN and explorer.incumbent == own.static
    assert own.failures == 299 and len(own.served) >= 299 * 20


@pytest.mark.parametrize("seed", range(20))
def test_equal_variants_beside_one_that_gains(seed):
    """What is equal stays as it is, also where the whole plan wins."""
    own = server(seed=seed, noise=jitter(0.02))
    own.device = lambda plan: summed(
        {"s0": UNIT * (0.7 if plan["s0.k"] == "k1" else 1), "s1": UNIT}
    )
    own.serve(5000)
    assert own.explorer.incumbent == {**own.static, "s0.k": "k1"}


@pytest.mark.parametrize("seed", range(20))
def test_equal_variants_under_two_noisy_neighbours(seed):
    """8 variants of one kernel: no switch."""
    explorer = Explorer(
        Leaf(Variable("s0.k", names("k", 8), "s0")), Measurements(), ENVIRONMENT,
        budget=replace(FREE),
    )  # fmt: skip
    own = Server(explorer, lambda plan: summed({"s0": UNIT}), neighbours, seed)
    own.serve(20_000)
    assert explorer.phase == FROZEN and explorer.incumbent == {"s0.k": "k0"}


@pytest.mark.parametrize("seed", range(5))
def test_a_gain_is_found_under_two_noisy_neighbours(seed):
    own = server(seed=seed, noise=neighbours, costs=(1.0, 1.1, 0.7, 0.9))
    own.serve(20_000)
    assert own.explorer.phase == FROZEN
    assert own.explorer.incumbent["s0.k"] == own.explorer.incumbent["s1.k"] == "k2"


def test_a_small_gain_changes_no_plan():
    own = server(costs=(1.0, 0.98, 0.99, 1.0))
    own.device = lambda plan: summed(
        {s: UNIT * (0.98 if plan[f"{s}.k"] == "k1" else 1.0) for s in ("s0", "s1")}
    )
    own.serve(5000)
    assert own.explorer.incumbent == own.static


def test_the_duel_is_between_whole_plans():
    """Each segment alone is faster with another kernel, and both together are slower."""
    own = server()

    def times(plan):
        changed = [name for name in ("s0", "s1") if plan[f"{name}.k"] != "k0"]
        scopes = {name: UNIT * (0.8 if name in changed else 1.0) for name in ("s0", "s1")}
        return {**scopes, WHOLE: 2 * UNIT * (1.2 if len(changed) == 2 else 1.0)}

    own.device = times
    own.serve(5000)
    assert own.explorer.phase == FROZEN and own.explorer.incumbent == own.static
    assert kinds(own.served)[CANDIDATE] >= QUICK.duel
    again = server(own.explorer._times)  # which knows how the duel ended
    assert again.explorer.phase == FROZEN and again.explorer.incumbent == own.static


def test_a_candidate_that_stops_is_dropped_for_good():
    times = Measurements()
    stopped = []

    def fails(plan):
        if plan["s1.k"] == "k2":
            stopped.append(plan)
            return "s1"
        return None

    own = server(times)
    own.fails = fails
    own.serve(5000)
    assert own.explorer.phase == FROZEN and len(stopped) == 1
    assert (own.explorer.incumbent["s0.k"], own.explorer.incumbent["s1.k"]) == ("k2", "k3")
    again = server(times)
    again.fails = fails
    again.serve(5000)
    assert len(stopped) == 1


def test_a_plan_that_stops_nobody_knows_where():
    own = server()
    own.fails = lambda plan: "" if "k2" in plan.values() else None
    own.serve(5000)
    assert own.explorer.incumbent["s0.k"] == own.explorer.incumbent["s1.k"] == "k3"


@pytest.mark.parametrize("scope", ["s0", WHOLE, "nobody knows it"])
def test_a_plan_that_stops_in_a_scope_that_is_settled(scope):
    """Then what is tried beside it is dropped."""
    own = Server(
        Explorer(
            Parallel(
                Leaf(Variable("a", ("0", "1"), "s0")), Leaf(Variable("b", names("", 4), "s1"))
            ),
            Measurements(), ENVIRONMENT, settings=QUICK, budget=replace(FREE),
        ),
        lambda plan: summed({s: UNIT * 0.9 ** int(plan[v]) for s, v in (("s0", "a"), ("s1", "b"))}),
        quiet,
    )  # fmt: skip
    own.fails = lambda plan: scope if (plan["a"], plan["b"]) == ("1", "2") else None
    own.serve(5000)
    assert own.explorer.phase == FROZEN and own.explorer.incumbent == {"a": "1", "b": "3"}
    assert own.failures == 1


def test_where_every_choice_stops_the_static_plan_serves():
    own = server()
    own.fails = lambda plan: "s1" if plan != own.static else None
    own.serve(20_000)
    assert own.explorer.phase == FROZEN and own.explorer.incumbent == own.static


def test_branches_with_scopes_of_their_own():
    """One segment, or two: the incumbent has no times of the second branch's segments."""
    fork = Fork(
        Variable("cut", ("one", "two"), WHOLE),
        {
            "one": Leaf(Variable("a", ("0", "1"), "g")),
            "two": Parallel(
                Leaf(Variable("b", ("0", "1"), "g0")), Leaf(Variable("c", ("0", "1"), "g1"))
            ),
        },
    )

    def device(plan):
        if plan["cut"] == "one":
            return {"g": UNIT, WHOLE: UNIT, "nothing": 0.0}
        own = {
            "g0": UNIT * (0.3 if plan["b"] == "1" else 0.4),
            "g1": UNIT * (0.5 if plan["c"] == "0" else 0.6),
        }
        return summed(own)

    explorer = Explorer(fork, Measurements(), ENVIRONMENT, settings=QUICK, budget=replace(FREE))
    own = Server(explorer, device, quiet)
    own.serve(5000)
    assert explorer.incumbent == {"cut": "two", "b": "1", "c": "0"}


def test_times_of_different_days_are_not_compared():
    """A first process has tried one candidate; the second has a machine that is 15 % faster."""
    times, speed = Measurements(), [1.0]

    def make():
        leaf = Leaf(Variable("a", names("k", 3), "s0"))
        explorer = Explorer(leaf, times, ENVIRONMENT, settings=QUICK, budget=replace(FREE))
        costs = {"k0": 1.0, "k1": 0.8, "k2": 0.9}
        return Server(
            explorer, lambda plan: summed({"s0": UNIT * speed[0] * costs[plan["a"]]}), quiet
        )

    first = make()
    while first.served[-1:] == [] or first.served[-1].plan["a"] != "k2":
        first.request()
    speed[0] = 0.85
    second = make()
    second.serve(5000)
    assert second.explorer.incumbent == {"a": "k1"}
    assert {step.plan["a"] for step in second.served if step.kind == WARM} == {"k2", "k1"}  # a duel


def test_the_plan_that_serves_does_not_fail():
    own = server()
    with pytest.raises(ValueError, match="that serves"):
        own.explorer.failed(own.explorer.next(0.0), 1.0)


def test_a_finished_plan_that_stops_in_the_duel():
    own = server()
    own.fails = lambda plan: "s0" if own.explorer.phase == DUEL and plan != own.static else None
    own.serve(5000)
    assert own.explorer.phase == FROZEN and own.explorer.incumbent == own.static


def test_blocks_of_a_race_are_some_time_apart():
    own = server(settings=Settings(apart_s=100.0))
    own.serve(3000)
    candidates = [n for n, step in enumerate(own.served) if step.kind == CANDIDATE]
    gaps = [b - a for a, b in zip(candidates, candidates[1:], strict=False)]
    assert max(gaps) >= 100.0 / (2 * UNIT / 1e9)


def test_it_pauses_where_others_are_always_in_the_way():
    def noise(scopes, rng):
        return Sample(scopes, gap=0.5)

    own = server(noise=noise)
    own.serve(20_000)
    found = kinds(own.served)
    assert own.explorer.phase == CALIBRATION and own.explorer.believed == 0
    # 50 pairs, then pauses of 64, 128, ... 4096 requests between them
    assert own.explorer.tried <= 50 * 12 and found[SERVE] > 0.9 * 20_000
    own.noise = quiet  # and is forgotten when they have gone
    own.serve(20_000)
    assert own.explorer.phase == FROZEN and own.explorer._next_pause == 64


@pytest.mark.parametrize("anchor", [1.06, 0.9])
def test_pairs_do_not_count_on_a_machine_that_is_not_as_usual(anchor):
    own = server(noise=lambda scopes, rng: Sample(scopes, anchor=anchor))
    own.serve(200)
    assert own.explorer.tried and not own.explorer.believed


def test_a_plan_that_became_slower_is_looked_at_again():
    slow = [1.0]

    def times(plan):
        cost = {"k0": 1.0, "k1": 1.2, "k2": 0.8 * slow[0], "k3": 0.9}
        return summed({s: UNIT * cost[plan[f"{s}.k"]] for s in ("s0", "s1")})

    own = server()
    own.device = times
    own.serve(5000)
    assert own.explorer.incumbent["s0.k"] == "k2"
    own.serve(1000, until_frozen=False)
    assert own.explorer.phase == FROZEN  # nothing changed
    slow[0] = 1.3
    served = len(own.served)
    own.serve(3000, until_frozen=False)
    assert own.explorer.phase == FROZEN and own.explorer.incumbent["s0.k"] == "k3"
    assert kinds(own.served[served:])[SERVE] > 2000  # and then it is left alone


@pytest.mark.parametrize("seed", range(3))
def test_no_drift_where_some_launches_are_always_slow(seed):
    """A fifth of them lose half of their time to another machine, which no gap shows."""
    own = server(seed=seed)
    own.serve(5000)
    own.noise = lambda scopes, rng: Sample(
        {s: ns * (1.5 if rng.random() < 0.2 else 1.0) for s, ns in scopes.items()}
    )
    own.serve(20_000, until_frozen=False)
    assert {step.kind for step in own.served[5000:]} <= {SERVE}


def test_a_plan_of_another_process_can_drift_too():
    times = Measurements()
    server(times).serve(5000)
    own = server(times)
    own.serve(500, until_frozen=False)
    slow = own.device
    own.device = lambda plan: {
        s: ns * (2.0 if plan["s0.k"] == "k2" else 1.0) for s, ns in slow(plan).items()
    }
    own.serve(5000, until_frozen=False)
    assert own.explorer.incumbent["s0.k"] == "k3"


def test_no_drift_where_the_machine_is_slower():
    own = server()
    own.serve(5000)
    own.noise = lambda scopes, rng: Sample({s: 1.5 * ns for s, ns in scopes.items()}, anchor=1.5)
    own.serve(2000, until_frozen=False)
    assert own.explorer.phase == FROZEN


def test_a_fork_serves_plans_with_the_variables_of_their_branch():
    fork = Fork(
        Variable("memory", ("reuse", "adjacent"), WHOLE),
        {"reuse": Leaf(Variable("a", ("x",), "s0")), "adjacent": Leaf(Variable("b", ("y",), "s0"))},
    )
    explorer = Explorer(fork, Measurements(), ENVIRONMENT, settings=QUICK, budget=replace(FREE))
    own = Server(
        explorer,
        lambda plan: summed({"s0": UNIT * (0.5 if plan["memory"] == "adjacent" else 1.0)}),
        quiet,
    )
    own.serve(2000)
    assert explorer.incumbent == {"memory": "adjacent", "b": "y"}


def test_what_cannot_be_told_apart_is_refused():
    leaves = [Leaf(Variable(name, ("x", "y"), "s0")) for name in "ab"]
    with pytest.raises(ValueError, match="judged by one scope"):
        Explorer(Parallel(*leaves), Measurements(), ENVIRONMENT)


def test_how_long_it_takes_is_said_before():
    own = server()
    most = own.explorer.most_requests()
    own.serve(5000)
    runs = kinds(own.served)
    assert most / 4 < runs[WARM] + runs[CANDIDATE] + runs[INCUMBENT] <= most


# -- parts ---------------------------------------------------------------------------------------
@given(st.lists(st.floats(0.5, 3.0), min_size=50, max_size=400), st.integers(0, 1 << 30))
@settings(max_examples=60, deadline=None)
def test_the_budget_holds_whatever_trials_cost(costs, seed):
    """Cumulative: 2 % of what was served, and one trial."""
    budget, rng, worst, extra, served = Budget(start=100), random.Random(seed), 0.0, 0.0, 0.0
    trials = []
    for number, cost in enumerate(costs):
        if budget.admits() and rng.random() < 0.9:
            trials.append(number)
            budget.served(cost * 100, 100, trial=True)
            worst = max(worst, 100 * (cost - 1))
            extra += max(100 * (cost - 1), 0)
        else:
            budget.served(100, 100, trial=False)
        served += 100 * (cost if trials[-1:] == [number] else 1)
        assert (budget.extra_ns, budget.served_ns) == (pytest.approx(extra), pytest.approx(served))
        assert extra <= 0.02 * served + worst
    apart = [b - a for a, b in zip(trials, trials[1:], strict=False)]
    assert all(gap >= 2 for gap in apart)
    assert all(gap >= 20 for gap, end in zip(apart, trials[1:], strict=True) if end >= 100)


def test_quartiles():
    assert quartile([4.0, 1.0, 3.0, 2.0]) == 1.0 and quartile([4.0, 1.0, 3.0, 2.0], upper=True) == 4
    assert quartile([5.0, 1.0, 3.0, 2.0, 4.0]) == 2.0
    assert noise_floor([{"s": ratio} for ratio in (1.0, 1.02, 1.02, 1.02)]) == {"s": 0.0}
    found = noise_floor([{"s": 1.04, "t": 1.0}] * 4 + [{"s": 1.0, "t": 1.0}] * 3)
    assert found == {"s": pytest.approx(0.04), "t": 0.0}
    assert noise_floor([]) == {}


def test_a_race_is_short_where_it_is_clear():
    race = Race(Rules(), ["s"])
    for _ in range(3):
        race.add({"s": 1.2, "of the incumbent": 1.0})
    assert race.between and not race.done
    for _ in range(3):
        race.add({"s": 1.25, "of the incumbent": 1.0})
    assert race.done and race.runs("s") == (1.2, 1.25)


def test_a_gain_counts_where_both_blocks_have_it():
    race = Race(Rules(), ["s"])
    while not race.between:
        race.add({"s": 0.8})
    while not race.done:
        race.add({"s": 1.01})
    assert race.runs("s") == (0.8, 1.01)  # which nobody believes
    times = Measurements()
    times.add("key", race.runs("s"))
    assert times.trusted("key") is None


def test_the_noise_of_a_scope_is_its_own():
    race = Race(Rules(), ["s", "t"], {"s": 0.1})
    while not race.done:
        race.add({"s": 0.9, "t": 0.9})
    assert (race.runs("s"), race.runs("t")) == ((1.0, 1.0), (0.9, 0.9))


def test_what_is_not_used_of_a_budget_is_kept_for_a_while():
    budget = Budget(most_ns=1000.0, every=2)
    for _ in range(10_000):
        budget.served(100.0, 100.0, trial=False)
    losses = 0
    while budget.admits():
        budget.served(200.0, 100.0, trial=True)
        budget.served(100.0, 100.0, trial=False)
        losses += 100
    assert 1000 <= losses <= 1200


@pytest.mark.parametrize("rules", [(0, 3, 0.1), (4, 3, 0.1), (1, 3, 1.0), (1, 3, -0.1)])
def test_rules_that_are_none(rules):
    with pytest.raises(ValueError, match="no rules"):
        Rules(*rules)


def test_a_drift_is_no_moment():
    drift = Drift()
    assert not any(drift.add(100.0) for _ in range(100)) and drift.usual_ns == 100.0
    assert not any(drift.add(1000.0) for _ in range(5))
    assert not any(drift.add(100.0) for _ in range(1000))
    slow, patient = Drift(1, 100.0), Drift(4, 100.0)
    assert 90 < [slow.add(115.0) for _ in range(300)].index(True) < 200
    assert not any(patient.add(115.0) for _ in range(300))


@pytest.mark.parametrize(("count", "eus", "ways"), [(4, 2, 5), (3, 3, 10), (5, 1, 1), (0, 4, 1)])
def test_equal_rtasks_are_dealt_out_in_each_way_once(count, eus, ways):
    """C(n + eus - 1, eus - 1)."""
    found = [*distributions([count], eus)]
    assert len(found) == len({*found}) == ways
    assert all(sum(dealt) == count and len(dealt) == eus for (dealt,) in found)


def test_classes_are_dealt_out_apart():
    assert len([*distributions([2, 3], 2)]) == 3 * 4
    with pytest.raises(ValueError, match="0 EUs"):
        next(distributions([1], 0))
