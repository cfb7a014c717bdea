"""Checkpoints: where they come, that they are right and stay in step, and when they are kept."""

import random

import pytest
from rammer_cases import chain, hand_made, kernel, random_graph

from rcompiler.device.model import Costs
from rcompiler.rammer import checkpoints
from rcompiler.rammer import schedule as rammer_schedule
from rcompiler.rammer.checkpoints import paced
from rcompiler.rammer.layout import plain_layout
from rcompiler.rammer.plan_memory import plan_memory
from rcompiler.rammer.policy.list import schedule_list
from rcompiler.rammer.policy.merge import schedule_merge
from rcompiler.rammer.policy.rammer import schedule_rammer
from rcompiler.rammer.program import Signal, Wait
from rcompiler.rammer.schedule import WORTH, schedule
from rcompiler.rammer.simulate import simulate
from rcompiler.rammer.validate import validate

COSTS = Costs(task_ns=1e-6, hand_off_ns=10, barrier_ns=20, launch_ns=1, min_task_ns=1)


def told(queue):
    """A queue, a word per step: the operator, +event, -event count."""
    words = []
    for step in queue:
        match step:
            case Signal():
                words.append(f"+{step.event}")
            case Wait():
                words.append(f"-{step.event} {step.count}")
            case _:
                words.append(step.operator)
    return words


def two_chains(long="o0"):
    """o0 -> o2 -> o4 of 1000, 1000, 1000 ns on EU 0 beside o1 -> o3 of 2500, 500 ns on EU 1, which
    o4 needs.
    """
    times = (1000.0, 2500.0, 1000.0, 500.0, 1000.0)
    reads = ("w", "w", "w", "w", "ww")
    kernels = [
        kernel(f"k{i}", (4, 4), (1, 1), letters, estimated_ns=ns)
        for i, (letters, ns) in enumerate(zip(reads, times, strict=True))
    ]
    graph = chain(kernels, [[-1], [-1], [0], [1], [2, 3]])
    left = [(long, 0, 1), ("o2", 0, 1), ("-", "a", 1), ("o4", 0, 1)]
    right = [("o1", 0, 1), ("o3", 0, 1), ("+", "a")]
    return graph, hand_made(graph, left, right)


def test_checkpoints_follow_the_last_run_that_begins_before_their_time(monkeypatch):
    graph, program = two_chains()
    # Runs begin at 0, 1000 and 3010 on EU 0, at 0 and 2500 on EU 1: 3 checkpoints in 3010 ns, at
    # 1003, 2007 and 3010.
    monkeypatch.setattr(checkpoints, "STRETCH", 100)
    [found] = paced([program], graph, COSTS)
    assert told(found.queues[0]) == [
        "o0", "o2",
        "+checkpoint.0",
        "+checkpoint.1", "-checkpoint.0 2",
        "+checkpoint.2", "-checkpoint.1 2",
        "-a 1", "o4",
    ]  # fmt: skip
    assert told(found.queues[1]) == [
        "o1",
        "+checkpoint.0",
        "+checkpoint.1", "-checkpoint.0 2",
        "o3", "+a",
        "+checkpoint.2", "-checkpoint.1 2",
    ]  # fmt: skip
    validate([found], graph)
    # EU 0 passes the last checkpoint once EU 1 has passed the one before it, at 2500 ns.
    assert (
        simulate([found], graph, COSTS).makespan_ns == simulate([program], graph, COSTS).makespan_ns
    )


def test_a_stretch_is_worth_many_hand_offs():
    graph, program = two_chains()
    assert paced([program], graph, COSTS) != [program]  # 3010 ns are one stretch of 2000
    slow = Costs(task_ns=1e-6, hand_off_ns=20, barrier_ns=20, launch_ns=1, min_task_ns=1)
    assert paced([program], graph, slow) == [program]


def test_hand_offs_that_cost_nothing_give_no_more_checkpoints_than_runs():
    graph, program = two_chains()
    free = Costs(task_ns=1e-6, hand_off_ns=1e-6, barrier_ns=1, launch_ns=1, min_task_ns=1)
    [found] = paced([program], graph, free)
    assert sum(isinstance(step, Signal) for step in found.queues[0]) == 3


def test_names_of_events_are_not_used_twice():
    kernels = [kernel(f"k{i}", (4, 4), (1, 1), "w", estimated_ns=9000.0) for i in range(3)]
    graph = chain(kernels, [[-1], [-1], [1]])
    left = [("o0", 0, 1), ("-", "checkpoint.0", 1), ("o2", 0, 1)]
    program = hand_made(graph, left, [("o1", 0, 1), ("+", "checkpoint.0")])
    [found] = paced([program], graph, COSTS)
    assert "+checkpoint_.0" in told(found.queues[0])
    validate([found], graph)


@pytest.mark.parametrize("policy", ["base", "wave", "bsp", "dynamic"])
def test_programs_that_keep_step_anyway_or_may_not_wait_are_left_alone(policy):
    graph = random_graph(random.Random(1), 20)
    programs = [*schedule(graph, 4, COSTS, policy=policy).programs]
    assert paced(programs, graph, COSTS) == programs


@pytest.mark.parametrize("policy", [schedule_rammer, schedule_list, schedule_merge])
@pytest.mark.parametrize("eus", [1, 2, 5, 16])
def test_programs_with_checkpoints_are_right(policy, eus, monkeypatch):
    monkeypatch.setattr(checkpoints, "STRETCH", 30)
    changed = 0
    for seed in range(10):
        graph = random_graph(random.Random(seed), 30)
        programs = policy(graph, eus, COSTS)
        found = paced(programs, graph, COSTS)
        changed += found != programs
        validate(plan_memory(graph, found)[0], graph, max_eus=eus)
    assert (changed > 0) == (eus > 1)


@pytest.mark.parametrize("cached", [True, False])
def test_an_arena_that_caches_hold_needs_no_checkpoints(cached, monkeypatch):
    monkeypatch.setattr(checkpoints, "STRETCH", 30)
    if not cached:
        monkeypatch.setattr(rammer_schedule, "CACHED", 0)
    found = [schedule(random_graph(random.Random(seed), 60), 4, COSTS) for seed in range(10)]
    queues = [queue for s in found for program in s.programs for queue in program.queues]
    assert any("checkpoint" in word for queue in queues for word in told(queue)) is not cached


def test_checkpoints_are_kept_where_they_save_memory(monkeypatch):
    monkeypatch.setattr(checkpoints, "STRETCH", 30)
    monkeypatch.setattr(rammer_schedule, "CACHED", 0)
    kept = 0
    for seed in range(30):
        graph = random_graph(random.Random(seed), 60)
        found = schedule(graph, 4, COSTS)
        programs = schedule_rammer(graph, 4, COSTS)
        free, bound = (
            plan_memory(graph, p)[1].peak for p in (programs, paced(programs, graph, COSTS))
        )
        worth = bound <= WORTH * free
        assert found.memory.peak == (bound if worth else free)
        kept += worth
    assert 0 < kept < 30
    assert plain_layout(graph).arena > found.memory.peak
