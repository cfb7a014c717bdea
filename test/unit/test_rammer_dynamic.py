"""Dynamic programs: their order, what is refused, time lines worked out by hand, their policy."""

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from oracles._random_graphs import random_graph
from oracles.interpret import Adversary, ScheduleInterpreter
from oracles.mutate_programs import program_of
from rammer_cases import chain, hand_made, idle_by_reason, kernel, refused

from rcompiler.device.model import Costs
from rcompiler.errors import ScheduleError
from rcompiler.rammer.layout import plain_layout
from rcompiler.rammer.lines import in_lines
from rcompiler.rammer.order import happens_before
from rcompiler.rammer.policy.dependences import Dependences
from rcompiler.rammer.policy.draft import emit
from rcompiler.rammer.policy.dynamic import schedule_dynamic
from rcompiler.rammer.policy.listing import shortest_listing
from rcompiler.rammer.policy.taken import TakenDraft, sizes
from rcompiler.rammer.program import Program, Run, Signal, Wait
from rcompiler.rammer.schedule import schedule
from rcompiler.rammer.simulate import simulate
from rcompiler.rammer.validate import validate

COSTS = Costs(task_ns=1e-6, hand_off_ns=100, barrier_ns=200, launch_ns=500, min_task_ns=1)
DIAMOND = [
    [("o0", 0, 1), ("+", "a")],
    [("-", "a", 1), ("o1", 0, 1), ("+", "b")],
    [("-", "a", 1), ("o2", 0, 1), ("+", "c")],
    [("-", "b", 1), ("-", "c", 1), ("o3", 0, 1)],
]


def diamond(ns=(1000, 2000, 3000, 1000)):
    """o0, then o1 beside o2, then o3; one rTask each."""
    kernels = [
        kernel(f"k{i}", (4, 4), (1, 1), reads, estimated_ns=float(time))
        for i, (reads, time) in enumerate(zip(("w", "w", "w", "ww"), ns, strict=True))
    ]
    return chain(kernels, [[-1], [0], [0], [1, 2]])


def test_programs_say_whether_their_queues_are_taken():
    graph = diamond()
    program = hand_made(graph, *DIAMOND, takers=2)
    assert program.dynamic and program.eus == 2
    with pytest.raises(ScheduleError, match="program p is for 2 EUs and has 4 queues"):
        replace(program, dynamic=False)
    with pytest.raises(ScheduleError, match="dynamic program p is for 2 EUs and has 0 queues"):
        replace(program, queues=())
    assert replace(program, eus=9).dynamic  # more EUs than queues leave some without


# -- validator ------------------------------------------------------------------------------------
@pytest.mark.parametrize("eus", [1, 2, 3, 9])
def test_a_right_program_is_certified_for_any_number_of_eus(eus):
    graph = diamond()
    certificate = validate([hand_made(graph, *DIAMOND, takers=eus)], graph, max_eus=eus)
    assert (certificate.eus, certificate.runs, certificate.waits) == (eus, 4, 4)


def test_queues_have_no_order_but_by_waits():
    """Neither because one is taken first, nor because there is one EU only."""
    graph = diamond()
    queues = [DIAMOND[0], [("o1", 0, 1), ("+", "b")], *DIAMOND[2:]]
    words = ("operator o1", "in queue 1", "operator o0", "in queue 0", "bytes 0..63 of temp")
    for eus in (1, 2):
        refused(hand_made(graph, *queues, takers=eus), graph, "race", *words)


def test_a_wait_for_what_comes_later_is_refused_for_any_number_of_eus():
    """As EUs of a static program the queues would not deadlock."""
    graph = diamond()
    queues = [DIAMOND[1], DIAMOND[0], *DIAMOND[2:]]
    program = hand_made(graph, *queues, takers=4)
    words = (
        "queue 0 deadlocks",
        "place 0",
        "event a (0 of 1 signals), which queue 1 signals later",
    )
    refused(program, graph, "deadlock", *words)
    validate([replace(program, dynamic=False)], graph)
    refused(hand_made(graph, [("-", "e", 1)], takers=1), graph, "deadlock", "0 of 1 signals);")


def test_a_queue_may_wait_for_itself_in_order():
    graph = diamond()
    whole = [step for queue in DIAMOND for step in queue]
    validate([hand_made(graph, whole, takers=3)], graph)


def test_barriers_are_refused():
    graph = diamond()
    program = hand_made(graph, [("o0", 0, 1), "|"], ["|"], takers=2)
    refused(program, graph, "deadlock", "queue 0 has a barrier at place 1")


def test_dynamic_and_static_programs_follow_each_other():
    graph = diamond()
    first = hand_made(graph, *DIAMOND[:3], takers=2)
    second = hand_made(graph, [], [("o3", 0, 1)])
    assert validate([first, second], graph).programs == 2
    line = simulate([first, second], graph, COSTS)
    assert [len(takers) for takers in line.takers] == [3, 2]


def test_values_re_use_bytes_only_after_waits():
    """A chain: each value is dead when the one after the next is written."""
    k = kernel("k", (4, 4), (1, 1), "w")
    graph = chain([k] * 4, [[-1], [0], [1], [2]])
    queues = [[("o0", 0, 1), ("+", "0")]]
    queues += [[("-", f"{i - 1}", 1), (f"o{i}", 0, 1), ("+", f"{i}")] for i in range(1, 4)]
    program = hand_made(graph, *queues, takers=2)
    plan = schedule(graph, 2, COSTS, policy="dynamic")
    assert plan.memory.peak == 128 < plan.memory.plain == 192
    moved = tuple(replace(b, offset=0) if b.name == "v2" else b for b in program.buffers)
    validate([replace(program, buffers=moved)], graph)  # v2 over v0
    moved = tuple(replace(b, offset=64) if b.name == "v2" else b for b in program.buffers)
    refused(replace(program, buffers=moved), graph, "clobber", "v1", "v2")


# -- lines ----------------------------------------------------------------------------------------
def order_of(program):
    """Which run, by operator and first task, comes before which."""
    order = happens_before([program])
    every = np.arange(len(order.runs))
    before = order.before(every, every)
    names = [(run.operator, run.first, run.count) for run in order.runs]
    return {(a, b): bool(before[i, j]) for i, a in enumerate(names) for j, b in enumerate(names)}


@settings(max_examples=80)
@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(1, 8))
def test_lines_have_the_order_of_an_eu_for_each_queue(seed, operators, eus):
    graph = random_graph(random.Random(seed), operators)
    [program] = schedule_dynamic(graph, eus, COSTS)
    apart = replace(program, eus=len(program.queues), dynamic=False)
    assert order_of(program) == order_of(apart)


def test_lines_of_random_programs_with_any_waits():
    compared = 0
    for number in range(150):
        for program in program_of(number)[2]:
            if program.dynamic:
                apart = replace(program, eus=len(program.queues), dynamic=False)
                assert order_of(program) == order_of(apart), number
                compared += 1
    assert compared > 10


def test_a_queue_goes_on_with_a_line_that_ended_long_before():
    """A fork, a join and a fork: as many lines as are open at the same time."""
    k = kernel("k", (4, 4), (1, 1), "w")
    graph = chain([k] * 8, [[-1]] + [[0]] * 7)
    fork = [[("-", "a", 1), (f"o{i}", 0, 1), ("+", "b")] for i in (1, 2, 3)]
    again = [[("-", "c", 1), (f"o{i}", 0, 1)] for i in (5, 6, 7)]
    queues = [[("o0", 0, 1), ("+", "a")], *fork, [("-", "b", 3), ("o4", 0, 1), ("+", "c")], *again]
    lined = in_lines(hand_made(graph, *queues, takers=2))
    assert lined.program.eus == 3 and not lined.program.dynamic
    assert sorted(n for line in lined.numbers for n in line.tolist()) == list(range(8))


def test_what_a_queue_does_after_its_signal_is_not_over():
    """o1 and o2 of queue 1 and 0 have no order, though queue 1 waits for a signal of queue 0."""
    k = kernel("k", (4, 4), (1, 1), "w")
    graph = chain([k] * 3, [[-1], [0], [0]])
    queues = [[("o0", 0, 1), ("+", "a"), ("o2", 0, 1)], [("-", "a", 1), ("o1", 0, 1)]]
    program = hand_made(graph, *queues, takers=2)
    assert in_lines(program).program.eus == 2
    assert not any(order_of(program)[("o2", 0, 1), other] for other in [("o1", 0, 1)])


# -- simulator ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("eus", "runs", "makespan"),
    [
        (1, [("o0", 0, 500), ("o1", 0, 1500), ("o2", 0, 3500), ("o3", 0, 6500)], 7500),
        # o1 is taken after a hand-off and then waits; o2 by who made o0; o3 is taken by who is free
        (2, [("o0", 0, 500), ("o1", 1, 1600), ("o2", 0, 1600), ("o3", 1, 4700)], 5700),
        # o2 by the third, 100 later than the second, both before o0 is there; o3 by the first
        (3, [("o0", 0, 500), ("o1", 1, 1600), ("o2", 2, 1600), ("o3", 0, 4700)], 5700),
    ],
)
def test_time_lines_of_a_diamond(eus, runs, makespan):
    graph = diamond()
    line = simulate([hand_made(graph, *DIAMOND, takers=eus)], graph, COSTS)
    assert sorted((s.operator, s.eu, round(s.start)) for s in line.spans) == runs
    assert line.makespan_ns == pytest.approx(makespan, abs=1)
    assert line.takers == (tuple(eu for _, eu, _ in runs),)
    assert idle_by_reason(line).get("take", 0) == pytest.approx({1: 0, 2: 300, 3: 300}[eus], abs=1)


def test_who_is_free_takes_what_is_next():
    """Eight rTasks of 1000 ns in eight queues beside one of 4000 that is taken first."""
    long, short = (
        kernel(n, (4, 4), (1, 1), "w", estimated_ns=t) for n, t in (("l", 4e3), ("s", 1e3))
    )
    graph = chain([long, *[short] * 8], [[-1]] * 9)
    line = simulate(
        [hand_made(graph, *[[(f"o{i}", 0, 1)] for i in range(9)], takers=2)], graph, COSTS
    )
    # EU 1 pays for the first of its four; from 4500 on both take by turns, for 100 each
    assert line.takers == ((0, 1, 1, 1, 1, 0, 1, 0, 1),)
    assert line.makespan_ns == pytest.approx(500 + 100 + 4000 + 2 * 1100, abs=1)


# -- interpreter ----------------------------------------------------------------------------------
def test_who_takes_what_is_the_adversarys_choice():
    graph = diamond()
    interpreter = ScheduleInterpreter([hand_made(graph, *DIAMOND, takers=3)], graph)
    steps = {interpreter.execute(Adversary(seed)).steps for seed in range(30)}
    assert len(steps) > 1  # waits that block are one step more


def test_races_are_found_whoever_takes_the_queues():
    graph = diamond()
    queues = [DIAMOND[0], [("o1", 0, 1), ("+", "b")], *DIAMOND[2:]]
    for eus in (1, 2):
        interpreter = ScheduleInterpreter([hand_made(graph, *queues, takers=eus)], graph)
        for seed in range(20):
            with pytest.raises(ScheduleError, match="in queue 1 .*in queue 0|finds other bytes"):
                interpreter.execute(Adversary(seed))


def test_a_deadlock_names_queues():
    graph = diamond()
    program = hand_made(graph, DIAMOND[1], DIAMOND[0], *DIAMOND[2:], takers=1)
    with pytest.raises(ScheduleError, match="queue 0 waits at place 0 for event a .* of queue 1"):
        ScheduleInterpreter([program], graph).execute(Adversary(0))


# -- policy ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("tasks", "each", "eus", "found"),
    [
        (64, 2000.0, 2, [16, 16, 8, 8, 4, 4, 2, 2, 1, 1, 1, 1]),
        (12, 1e5, 3, [2, 2, 2, 1, 1, 1, 1, 1, 1]),
        (5, 1e5, 8, [1] * 5),
        (7, 1e5, 1, [7]),
        (10, 100.0, 2, [5, 5]),  # no share below twice 250 ns
        (11, 100.0, 2, [5, 6]),
        (3, 100.0, 2, [3]),
    ],
)
def test_sizes_of_shares(tasks, each, eus, found):
    assert sizes(tasks, each, eus, Costs(task_ns=50, hand_off_ns=200)) == found


def steps(program, kind):
    return [s for queue in program.queues for s in queue if isinstance(s, kind)]


def test_the_longer_branch_is_taken_first():
    graph = diamond()
    [program] = schedule_dynamic(graph, 2, COSTS)
    assert [run.operator for run in steps(program, Run)] == ["o0", "o2", "o1", "o3"]
    line = simulate([program], graph, COSTS)
    assert line.makespan_ns == pytest.approx(5700, abs=1)


def test_an_operator_that_needs_all_of_another_waits_for_one_event():
    k = kernel("k", (8, 4), (8, 1), "w")
    graph = chain([k] * 2, [[-1], [0]])
    [program] = schedule_dynamic(graph, 2, COSTS)
    shares = len(program.queues) // 2
    assert {(wait.event, wait.count) for wait in steps(program, Wait)} == {("o0", shares)}
    assert len(steps(program, Wait)) == len(steps(program, Signal)) == shares


def test_tiles_wait_for_the_shares_that_they_read():
    k = kernel("k", (8, 4), (8, 1), "t")
    graph = chain([k] * 2, [[-1], [0]])
    [program] = schedule_dynamic(graph, 2, COSTS)
    for queue in program.queues[len(program.queues) // 2 :]:
        assert len(queue) == 2 and isinstance(queue[0], Wait) and queue[0].count == 1


def test_waits_known_through_others_are_left_out():
    k, k2 = kernel("k", (8, 4), (8, 1), "w"), kernel("k2", (8, 4), (8, 1), "ww")
    graph = chain([k, k, k2], [[-1], [0], [0, 1]])
    [program] = schedule_dynamic(graph, 2, COSTS)
    last = [queue for queue in program.queues if steps_of(queue) == "o2"]
    assert all([s.event for s in queue if isinstance(s, Wait)] == ["o1"] for queue in last)


def steps_of(queue):
    [name] = {step.operator for step in queue if isinstance(step, Run)}
    return name


@settings(max_examples=80)
@given(st.integers(0, 10**6), st.integers(1, 12), st.sampled_from([1, 2, 3, 8, 40]))
@example(556, 1, 3)
def test_the_estimate_of_the_policy_is_that_of_the_simulator(seed, operators, eus):
    graph = random_graph(random.Random(seed), operators)
    links = Dependences(graph)
    draft = shortest_listing(lambda: TakenDraft.empty(graph, eus, COSTS, links), "select")
    program = emit(draft, "p", plain_layout(graph))
    # Both count from 0: behind a launch, ends that are equal but for rounding would be equal, and
    # another EU the first to be free.
    line = simulate([program], graph, replace(COSTS, launch_ns=1e-300))
    assert line.makespan_ns == pytest.approx(draft.makespan, abs=1)


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.integers(1, 10), st.integers(1, 132))
def test_random_graphs_are_proved_and_computed(seed, operators, eus):
    graph = random_graph(random.Random(seed), operators)
    plan = schedule(graph, eus, COSTS, policy="dynamic")
    for program in plan.programs:
        assert program.dynamic and program.eus == eus
    interpreter = ScheduleInterpreter(plan.programs, graph)
    for execution in (seed, seed + 1, seed + 2):
        interpreter.execute(Adversary(execution))
    fewer = [replace(program, eus=1) for program in plan.programs]
    validate(fewer, graph)


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.integers(2, 12), st.randoms(use_true_random=False))
def test_an_order_with_a_consumer_before_its_producer_is_refused(seed, operators, rng):
    """Queues exchanged: refused as soon as one waits for a later one; else right as before."""
    graph = random_graph(random.Random(seed), operators)
    [program] = schedule_dynamic(graph, 3, COSTS)
    queues = list(program.queues)
    one, two = rng.randrange(len(queues)), rng.randrange(len(queues))
    queues[one], queues[two] = queues[two], queues[one]
    changed = replace(program, queues=tuple(queues))
    if runs_in_order(changed):
        validate([changed], graph)
    else:
        refused(changed, graph, "deadlock")


def runs_in_order(program: Program) -> bool:
    signals: list[str] = []
    for step in (step for queue in program.queues for step in queue):
        if isinstance(step, Wait) and signals.count(step.event) < step.count:
            return False
        signals += [step.event] if isinstance(step, Signal) else []
    return True
