"""Waits of made programs: each stands in front of the run that needs it, and none can go."""

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles._random_graphs import random_graph
from rammer_cases import kernel

from rcompiler.device.model import Costs
from rcompiler.errors import ScheduleError
from rcompiler.rammer.policy.draft import Shares, unsettled
from rcompiler.rammer.program import Run, Wait
from rcompiler.rammer.schedule import POLICIES
from rcompiler.rammer.validate import validate

COSTS = Costs(task_ns=10, hand_off_ns=100, barrier_ns=200, launch_ns=500, min_task_ns=1)
WAITING = ("rammer", "list", "merge", "dynamic")  # EUs wait for single other ones
graphs = st.builds(
    lambda seed, operators: random_graph(random.Random(seed), operators),
    *(st.integers(0, 10**6), st.integers(2, 12)),
)


def placed(number, *eus, finish, clocks):
    """One rTask on each of these EUs; clocks: what is over when it is, of all EUs."""
    one = np.ones(len(eus), np.int64)
    eu, clock = np.array(eus), np.array(clocks, np.int32)
    task = kernel("k", (4, 4), (len(eus), 1), "t")
    place = clock[np.arange(len(eus)), eu] - 1
    ns = np.array(finish, float)
    return Shares(number, task, eu, np.cumsum(one) - one, one, eu, place, ns, clock, ())


def test_what_follows_from_another_wait_is_not_waited_for_whatever_ends_last():
    """q on EU 1 comes after the first half of p, on EU 0; the second half of p, on EU 2, ends last.

    Who needs q and the first half of p waits for q alone.
    """
    p = placed(0, 0, 2, finish=(10, 100), clocks=[[1, 0, 0, 0], [0, 0, 1, 0]])
    q = placed(1, 1, finish=(20,), clocks=[[1, 1, 0, 0]])
    needs = [("p", np.array([[True, False]])), ("q", np.array([[True]]))]
    known = np.zeros((1, 4), np.int32)
    kept = unsettled({"p": p, "q": q}, needs, known)
    assert [need.producer for need in kept] == ["q"]
    assert known.tolist() == [[1, 1, 0, 0]]


@pytest.mark.parametrize("policy", WAITING)
@settings(max_examples=40)
@given(graphs, st.sampled_from([2, 3, 8]))
def test_a_wait_stands_directly_in_front_of_the_run_that_needs_it(policy, graph, eus):
    for program in POLICIES[policy](graph, eus, COSTS):
        for queue in program.queues:
            for at, step in enumerate(queue):
                if not isinstance(step, Wait):
                    continue
                behind = next(s for s in queue[at:] if not isinstance(s, Wait))
                assert isinstance(behind, Run)
                producer = step.event.partition(".")[0]
                assert producer in graph.predecessors[behind.operator]


@pytest.mark.parametrize("policy", WAITING)
@settings(max_examples=25)
@given(graphs, st.sampled_from([2, 3, 8]))
def test_no_wait_can_be_left_out(policy, graph, eus):
    """No wait follows from the others: without any single one there is a race."""
    programs = POLICIES[policy](graph, eus, COSTS)
    validate(programs, graph)
    for number, program in enumerate(programs):
        for which, queue in enumerate(program.queues):
            for at, step in enumerate(queue):
                if not isinstance(step, Wait):
                    continue
                queues = [*program.queues]
                queues[which] = (*queue[:at], *queue[at + 1 :])
                less = [*programs]
                less[number] = replace(program, queues=tuple(queues))
                with pytest.raises(ScheduleError) as error:
                    validate(less, graph)
                assert error.value.rule == "race"
