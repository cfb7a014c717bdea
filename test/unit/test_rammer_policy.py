"""Waves, kernel choice, placement and growth of programs: the paper's rules on small cases."""

import dataclasses
import random
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.interpret import Adversary, ScheduleInterpreter
from rammer_cases import chain, kernel, random_graph, recurrent

from rcompiler.device.model import Costs
from rcompiler.errors import ScheduleError
from rcompiler.options import Kernels
from rcompiler.rammer.cost import earliest_finish
from rcompiler.rammer.graph import Graph, Operator, Value, waves
from rcompiler.rammer.policy import rammer
from rcompiler.rammer.policy.base import schedule_base
from rcompiler.rammer.policy.dependences import Dependences
from rcompiler.rammer.policy.kernels import MODES, select_kernels
from rcompiler.rammer.policy.rammer import schedule_rammer
from rcompiler.rammer.policy.wave import schedule_wave
from rcompiler.rammer.program import Run, Signal, Wait
from rcompiler.rammer.schedule import POLICIES, schedule
from rcompiler.rammer.simulate import simulate
from rcompiler.rammer.validate import validate

COSTS = Costs(task_ns=10, hand_off_ns=100, barrier_ns=200, launch_ns=500, min_task_ns=1)
CHEAP = Costs(task_ns=0.01, hand_off_ns=0.01, barrier_ns=0.01, launch_ns=1, min_task_ns=0.01)


def steps(program, kind):
    return [s for queue in program.queues for s in queue if isinstance(s, kind)]


def operators_of(program):
    """How many operators a launch runs."""
    return len({run.operator for run in steps(program, Run)})


def grid_graph(layers, length):
    """Cells that need the cell before them in their layer and the one below: an LSTM."""
    k1, k2 = (kernel(n, (2, 2), (1, 1), n) for n in ("w", "ww"))
    size = k1.writes[0].bytes
    values, operators = [Value("x", size, "input", index=0)], []
    for layer in range(layers):
        for t in range(length):
            below = f"v{layer - 1}_{t}" if layer else "x"
            inputs = (below, f"v{layer}_{t - 1}") if t else (below,)
            name = f"{layer}_{t}"
            operators.append(Operator(f"o{name}", (["w", "ww"][t > 0],), inputs, (f"v{name}",)))
            values.append(Value(f"v{name}", size))
    return Graph(tuple(operators), tuple(values), (k1, k2))


def test_an_lstm_of_10_layers_and_100_steps_has_109_waves():
    levels = waves(grid_graph(10, 100))
    assert len(levels) == 109
    assert max(len(wave) for wave in levels) == 10


def test_a_diamond_has_three_waves():
    k, k2 = kernel("k", (2, 2), (1, 1), "w"), kernel("k2", (2, 2), (1, 1), "ww")
    graph = chain([k, k, k, k2], [[-1], [0], [0], [1, 2]])
    assert [[op.name for op in wave] for wave in waves(graph)] == [["o0"], ["o1", "o2"], ["o3"]]


def branches(blocks, cardinality):
    """ResNeXt: blocks of branches of two convolutions each, joined with what the block is given."""
    one, last = kernel("one", (4, 4), (2, 1), "w"), kernel("head", (4, 4), (1, 1), "w")
    join = kernel("join", (4, 4), (2, 1), "w" * (cardinality + 1))
    kernels, inputs = [one], [[-1]]
    for _ in range(blocks):
        given, first = len(kernels) - 1, len(kernels)
        firsts = range(first, first + cardinality)
        kernels += [one] * 2 * cardinality + [join]
        inputs += [[given]] * cardinality + [[f] for f in firsts]
        inputs += [[*(f + cardinality for f in firsts), given]]
    return chain([*kernels, last], [*inputs, [len(kernels) - 1]])


def test_the_branches_of_a_resnext_are_waves():
    """Nine blocks of 16 branches: the stem, three waves a block, the classifier."""
    graph = branches(9, 16)
    assert [len(wave) for wave in waves(graph)] == [1, *[16, 16, 1] * 9, 1]
    found = schedule(graph, 4, COSTS, policy="wave")
    assert [*map(operators_of, found.programs)] == [1, *[16, 16, 1] * 9, 1]


def test_a_wave_of_500_operators_is_one_launch():
    """As many as there are: no launch is cut because of its operators or their operands."""
    k, join = kernel("k", (2, 2), (2, 1), "w"), kernel("join", (2, 2), (1, 1), "w" * 500)
    graph = chain([k] * 500 + [join], [[-1]] * 500 + [[*range(500)]])
    assert [len(wave) for wave in waves(graph)] == [500, 1]
    for policy, launches in (("wave", [500, 1]), ("bsp", [501]), ("rammer", [501])):
        programs = schedule(graph, 4, COSTS, policy=policy).programs
        assert [*map(operators_of, programs)] == launches
        ScheduleInterpreter(programs, graph).execute(Adversary(3))


def test_a_circle_is_refused():
    k = kernel("k", (2, 2), (1, 1), "w")
    ops = (Operator("a", ("k",), ("v",), ("u",)), Operator("b", ("k",), ("u",), ("v",)))
    graph = Graph(ops, (Value("u", 16), Value("v", 16)), (k,))
    with pytest.raises(ScheduleError, match="its own result"):
        waves(graph)


def one_by_one(tasks, each, start):
    free = np.array(start, float)
    counts = np.zeros(len(start), int)
    for _ in range(tasks):
        eu = int(np.argmin(free + each))
        free[eu] += each
        counts[eu] += 1
    return counts


@settings(max_examples=200)
@given(
    st.integers(0, 60),
    st.integers(1, 9),
    st.lists(st.integers(0, 40), min_size=1, max_size=7),
)
def test_the_closed_form_is_the_greedy_choice(tasks, each, start):
    got = earliest_finish(tasks, each, np.array(start, float))
    want = one_by_one(tasks, each, start)
    assert got.sum() == tasks
    ends = [max((s + c * each for s, c in zip(start, n, strict=True) if c), default=0)
            for n in (got, want)]  # fmt: skip
    assert ends[0] == ends[1]


def test_select_kernels_takes_all_three_branches():
    fast = kernel("fast", (8, 8), (8, 8), "w", estimated_ns=10.0)
    lean = kernel("lean", (8, 8), (2, 1), "w", estimated_ns=100.0)
    size = fast.writes[0].bytes
    values = (Value("x", size, "input", index=0), Value("y", size))
    op = Operator("o", ("lean", "fast"), ("x",), ("y",))
    graph = Graph((op,), values, (fast, lean))

    def never(choice):
        raise AssertionError("a wave with fewer tasks than EUs needs no profile")

    assert select_kernels([op], graph, 100, never) == [fast]
    assert select_kernels([op], graph, 64, lambda c: 1.0 if c == [lean] else 2.0) == [lean]
    assert select_kernels([op], graph, 64, lambda c: 2.0 if c == [lean] else 1.0) == [fast]
    assert select_kernels([op], graph, 64, never, "efficient") == [lean]
    assert select_kernels([op], graph, 64, never, "fast") == [fast]


def cut_or_whole(operators, cut_ns, whole_ns):
    """Independent operators on two EUs: each four rTasks of `cut_ns`, or one of `whole_ns`."""
    cut = kernel("cut", (4, 4), (4, 1), "w", estimated_ns=float(cut_ns))
    whole = kernel("whole", (4, 4), (1, 1), "w", estimated_ns=float(whole_ns))
    names = [f"y{i}" for i in range(operators)]
    values = (Value("x", 64, "input", index=0), *(Value(name, 64) for name in names))
    ops = (Operator(f"o{i}", ("cut", "whole"), ("x",), (name,)) for i, name in enumerate(names))
    return Graph(tuple(ops), values, (cut, whole))


def ran(programs):
    """The rKernels of each launch."""
    return [sorted({run.kernel for run in steps(program, Run)}) for program in programs]


@pytest.mark.parametrize("policy", POLICIES)
def test_an_operator_by_itself_runs_the_fastest_kernel(policy):
    # 4 x 10 ns on two EUs take 20, 1 x 39 takes 39: less work, but the other EU is idle.
    graph = cut_or_whole(1, 10, 39)
    for mode in ("auto", "select", "fast"):
        found = schedule(graph, 2, CHEAP, policy=policy, kernels=mode)
        assert ran(found.programs) == [["cut"]]


# merge has a launch of the first before it sees the second.
@pytest.mark.parametrize("policy", [policy for policy in POLICIES if policy != "merge"])
def test_operators_side_by_side_run_the_kernels_of_least_work(policy):
    # Together, two of 39 ns take 39, eight of 10 take 40. By itself, each would take 20.
    graph = cut_or_whole(2, 10, 39)
    modes = {mode: schedule(graph, 2, CHEAP, policy=policy, kernels=mode) for mode in MODES}
    found = {mode: ran(plan.programs) for mode, plan in modes.items()}
    launches = 2 if policy == "base" else 1
    assert found["fast"] == [["cut"]] * launches
    assert found["efficient"] == found["select"] == [["whole"]] * launches
    assert found["auto"] == found["fast" if policy == "base" else "select"]


def test_merge_chooses_for_the_launch_that_an_operator_joins():
    # By itself o0 would take 20 ns as "cut". Beside 30 ns on the other EU, "whole" ends at 25 and
    # "cut" at 40.
    graph = cut_or_whole(1, 10, 25)
    long = dataclasses.replace(graph.kernels[1], name="long", estimated_ns=30.0)
    first = Operator("first", ("long",), ("x",), ("z",))
    graph = Graph(
        (first, *graph.operators), (*graph.values, Value("z", 64)), (*graph.kernels, long)
    )
    for mode, expected in (("select", "whole"), ("fast", "cut"), ("efficient", "whole")):
        found = schedule(graph, 2, CHEAP, policy="merge", kernels=mode)
        assert ran(found.programs) == [sorted([expected, "long"])]


def test_the_modes_are_those_of_the_compiler():
    assert get_args(Kernels) == MODES


def test_growth_follows_the_timer():
    k = kernel("k", (4, 4), (4, 1), "w")
    graph = chain([k] * 4, [[-1], [0], [1], [2]])
    grown = schedule_rammer(graph, 2, COSTS, time=lambda draft: 1.0)
    assert len(grown) == 1
    cut = schedule_rammer(graph, 2, COSTS, time=lambda draft: len(draft.shares) ** 2)
    assert len(cut) == 4
    validate(cut, graph)
    assert len(schedule_rammer(graph, 2, COSTS)) == 1  # a hand-off is cheaper than a launch
    dear = Costs(task_ns=10, hand_off_ns=5000, barrier_ns=1, launch_ns=1, min_task_ns=1)
    assert len(schedule_rammer(graph, 2, dear)) == 4


def test_equal_steps_ask_once_what_they_need_and_what_a_launch_takes(monkeypatch):
    asked, launched = [], []
    found, alone = Dependences._found, rammer.fresh
    monkeypatch.setattr(Dependences, "_found", lambda *args: asked.append(args) or found(*args))
    monkeypatch.setattr(rammer, "fresh", lambda *args: launched.append(args) or alone(*args))

    def counts(steps):
        asked.clear(), launched.clear()
        schedule_rammer(recurrent(steps), 2, COSTS)
        return len(asked), len(launched)

    assert counts(8) == counts(40)


def test_what_is_needed_depends_on_distances_alone():
    graph = recurrent(3)
    links = Dependences(graph)
    product, update = graph.kernel["product"], graph.kernel["update"]
    halves = np.array([0, 2]), np.array([2, 2])
    each = np.array([0, 1]), np.array([1, 1])
    one, two = (
        links.needs(f"o{2 * step}", (product, *halves), f"o{2 * step + 1}", (update, *each))
        for step in (0, 1)
    )
    assert one is two and not one.flags.writeable
    assert one.tolist() == [[True, False], [False, True]]


def test_elementwise_chains_stay_on_their_eu_without_a_wait():
    k = kernel("k", (8, 4), (8, 1), "t")
    graph = chain([k] * 5, [[-1], [0], [1], [2], [3]])
    (program,) = schedule_rammer(graph, 4, COSTS)
    assert not steps(program, Wait) and not steps(program, Signal)
    assert all(r.count == 2 for r in steps(program, Run))


def test_a_product_waits_once_for_the_whole_operator():
    k = kernel("k", (8, 4), (8, 1), "w")
    graph = chain([k] * 2, [[-1], [0]])
    (program,) = schedule_rammer(graph, 4, COSTS)
    assert [w.count for w in steps(program, Wait)] == [4] * 4
    assert len(steps(program, Signal)) == 4


def test_waits_known_through_others_are_left_out():
    k, k2 = kernel("k", (8, 4), (8, 1), "w"), kernel("k2", (8, 4), (8, 1), "ww")
    graph = chain([k, k, k2], [[-1], [0], [0, 1]])
    (program,) = schedule_rammer(graph, 2, COSTS)
    assert {w.event for w in steps(program, Wait)} == {"o0", "o1"}
    assert len(steps(program, Wait)) == 4  # o2 does not wait for o0 again


def test_halos_wait_for_neighbours_only():
    k = kernel("k", (16, 4), (16, 1), "h")
    graph = chain([k] * 2, [[-1], [0]])
    (program,) = schedule_rammer(graph, 4, COSTS)
    waited = [[s.event for s in q if isinstance(s, Wait)] for q in program.queues]
    assert waited == [["o0.1"], ["o0.0", "o0.2"], ["o0.1", "o0.3"], ["o0.2"]]


def test_base_has_one_launch_per_operator_and_wave_one_per_wave():
    k, k2 = kernel("k", (4, 4), (4, 1), "w"), kernel("k2", (4, 4), (4, 1), "ww")
    graph = chain([k, k, k, k2], [[-1], [0], [0], [1, 2]])
    assert len(schedule_base(graph, 2, COSTS)) == 4
    assert len(schedule_wave(graph, 2, COSTS)) == 3


def test_the_estimate_of_the_policy_is_that_of_the_simulator():
    prices = []

    def price(draft):
        prices.append(draft.makespan)
        return 0.0

    graph = random_graph(random.Random(5), 8)
    programs = schedule_rammer(graph, 3, COSTS, time=price)
    line = simulate(programs, graph, COSTS)
    together = prices[-2]  # the last three: the program before, with the last wave, the wave alone
    assert len(programs) == 1 and line.makespan_ns == pytest.approx(together + COSTS.launch_ns)
    assert line.makespan_ns - COSTS.launch_ns >= max(line.work_bound_ns, line.path_bound_ns)
    assert line.idle_ns.min() >= 0


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.integers(1, 12), st.sampled_from([1, 2, 3, 8]))
def test_every_policy_makes_valid_schedules(seed, operators, eus):
    graph = random_graph(random.Random(seed), operators)
    for policy in POLICIES:
        first = schedule(graph, eus, COSTS, policy=policy)
        assert first.programs == schedule(graph, eus, COSTS, policy=policy).programs
        assert first.certificate.tasks == sum(graph.kernel[op.kernels[0]].tasks
                                              for op in graph.operators)  # fmt: skip
        assert first.memory.peak <= first.memory.plain


@pytest.mark.parametrize("bad", [{"policy": "x"}, {"kernels": "x"}, {"eus": 0}])
def test_bad_options_are_refused(bad):
    graph = random_graph(random.Random(0), 2)
    with pytest.raises(ScheduleError):
        schedule(graph, bad.pop("eus", 2), COSTS, **bad)
