"""Append and Wait: what a launch that is written range by range becomes."""

import random

import pytest
from oracles.interpret import Adversary, ScheduleInterpreter
from rammer_cases import chain, kernel, random_graph

from rcompiler.device.model import Costs
from rcompiler.errors import ScheduleError
from rcompiler.rammer.policy import Launch, fastest, waves
from rcompiler.rammer.program import Run, Signal, Wait
from rcompiler.rammer.schedule import schedule
from rcompiler.rammer.validate import validate

ROWS = kernel("rows", (8, 4), (8, 1), "t")  # a task reads what the task before it wrote
ALL = kernel("all", (8, 4), (8, 1), "w")


def two(second):
    """o0 in rows, and o1, which reads it."""
    return chain([ROWS, second], [[-1], [0]])


def kinds(queue):
    return "".join({Run: "r", Wait: "w", Signal: "s"}[type(step)] for step in queue)


def test_a_wait_stands_before_its_range_and_signals_behind_theirs():
    graph = two(ALL)
    first, second = graph.operators
    launch = Launch(graph, 2)
    parts = [launch.append(first, ROWS, eu, 4 * eu, 4) for eu in range(2)]
    after = launch.append(second, ALL, 1)
    assert launch.producers(after) == parts
    launch.wait(after, parts)
    program = launch.program("p")
    # its own EU's part is over anyway: one event, that of the other's part
    assert [kinds(queue) for queue in program.queues] == ["rs", "rwr"]
    assert program.queues[1][1] == Wait("o0.0", 1)
    assert validate([program], graph).waits == 1


def test_a_range_reads_of_few_others_what_the_boxes_say():
    graph = two(kernel("same", (8, 4), (8, 1), "t"))
    launch = Launch(graph, 4)
    parts = [launch.append(graph.operators[0], ROWS, eu, 2 * eu, 2) for eu in range(4)]
    after = launch.append(graph.operators[1], graph.kernels[1], 0, 3, 2)
    assert launch.producers(after) == parts[1:3]
    assert launch.producers(parts[0]) == []


@pytest.mark.parametrize(("parts", "event"), [(2, "o0"), (3, "o0.set1")])
def test_many_are_waited_for_by_one_event(parts, event):
    graph = two(ALL)
    launch = Launch(graph, 5)
    ranges = [launch.append(graph.operators[0], ROWS, eu, eu, 1) for eu in range(parts)]
    after = launch.append(graph.operators[1], ALL, 4)
    launch.wait(after, ranges)
    if parts > 2:  # one that is not waited for
        launch.append(graph.operators[0], ROWS, 3, 3, 5)
    assert launch.program("p").queues[4][0] == Wait(event, parts)


def test_waits_for_what_is_appended_later_are_counted_too():
    graph = two(ALL)
    launch = Launch(graph, 2)
    after = launch.append(graph.operators[1], ALL, 0)
    for row in range(8):
        launch.wait(after, [launch.append(graph.operators[0], ROWS, 1, row, 1)])
    program = launch.program("p")
    assert program.queues[0][0] == Wait("o0", 8)
    validate([program], graph)


def test_an_eu_that_waits_for_itself_is_refused_by_the_proof():
    graph = two(ALL)
    launch = Launch(graph, 1)
    after = launch.append(graph.operators[1], ALL, 0)
    launch.wait(after, [launch.append(graph.operators[0], ROWS, 0)])
    with pytest.raises(ScheduleError) as found:
        validate([launch.program("p")], graph)
    assert found.value.rule == "deadlock"


def even(graph, eus, costs, *, kernels="fast", name="main"):
    """One launch, parts of equal size; waits for what is read."""
    launch = Launch(graph, eus)
    for op in graph.operators:
        chosen = fastest(op, graph, eus)
        for eu in range(eus):
            first, end = (chosen.tasks * k // eus for k in (eu, eu + 1))
            if first < end:
                tasks = launch.append(op, chosen, eu, first, end - first)
                launch.wait(tasks, launch.producers(tasks))
    return [launch.program(f"{name}_0")]


def by_waves(graph, eus, costs, *, kernels="fast", name="main"):
    """A launch for each wave: no waits."""
    programs = []
    for number, wave in enumerate(waves(graph)):
        launch = Launch(graph, eus)
        for k, op in enumerate(wave):
            if fastest(op, graph, eus).tasks:
                launch.append(op, fastest(op, graph, eus), k % eus)
        programs.append(launch.program(f"{name}_{number}"))
    return programs


@pytest.mark.parametrize("policy", [even, by_waves])
@pytest.mark.parametrize("seed", range(20))
def test_random_graphs_are_scheduled_right(seed, policy):
    rng = random.Random(seed)
    graph = random_graph(rng, rng.randint(1, 9))
    plan = schedule(graph, rng.randint(1, 5), policy=policy)
    ScheduleInterpreter(plan.programs, graph).execute(Adversary(seed))


def test_eus_without_signals_are_not_made_to_wait():
    graph, costs = two(ALL), Costs(signals=False)
    with pytest.raises(ScheduleError, match="return a launch for each wave"):
        schedule(graph, 2, costs, policy=even)
    assert len(schedule(graph, 2, costs, policy=by_waves).programs) == 2


def test_what_cannot_be_appended_or_waited_for_is_refused():
    graph = two(ALL)
    first, second = graph.operators
    launch, other = Launch(graph, 2), Launch(graph, 2)
    foreign = other.append(first, ROWS, 0)
    own = launch.append(second, ALL, 0, 0, 4)
    for call, reason in (
        (lambda: Launch(graph, 0), "give one or more"),
        (lambda: launch.append(first, ROWS, -1), "no EU -1"),
        (lambda: launch.append(first, ALL, 0), "operator o0 has no rKernel all; it has rows"),
        (lambda: launch.append(first, ROWS, 0, 8), "no 0 rTasks from 8 on, rKernel rows has 8"),
        (lambda: launch.append(first, ROWS, 0, -1), "append 1 or more, from 0 on"),
        (lambda: launch.append(two(ROWS).operators[1], ROWS, 0), "is not of the graph"),
        (lambda: launch.wait(own, [foreign]), "rTasks 0 to 8 of o0 are not of this launch"),
        (lambda: launch.wait(foreign, [own]), "are not of this launch"),
    ):
        with pytest.raises(ScheduleError, match=reason):
            call()


def test_an_operator_runs_one_kernel():
    graph = chain([ROWS], [[-1]])
    more = kernel("more", (8, 4), (4, 1), "t")
    op = type(graph.operators[0])("o0", ("rows", "more"), ("x",), ("v0",))
    graph = type(graph)((op,), graph.values, (ROWS, more))
    launch = Launch(graph, 2)
    launch.append(op, ROWS, 0, 0, 4)
    with pytest.raises(ScheduleError, match="runs rKernel rows already"):
        launch.append(op, more, 1, 2, 2)
