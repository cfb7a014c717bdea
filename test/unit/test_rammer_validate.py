"""The validator against an oracle that tries all executions, and on known wrong schedules."""

import random
from dataclasses import replace

import pytest
from rammer_cases import Oracle, Wrong, chain, hand_made, kernel, random_graph

from rcompiler.device.model import Costs
from rcompiler.errors import ScheduleError
from rcompiler.rammer.plan_memory import plan_memory
from rcompiler.rammer.policy.rammer import schedule_rammer
from rcompiler.rammer.program import Barrier, Program, Run, Signal, Wait
from rcompiler.rammer.schedule import schedule
from rcompiler.rammer.validate import validate


def changed(program: Program, rng: random.Random) -> Program:
    """One random change of a schedule: sometimes harmless, mostly not."""
    queues = [list(q) for q in program.queues]
    eu = rng.randrange(program.eus)
    queue = queues[eu]
    what = rng.randrange(9)
    syncs = [i for i, s in enumerate(queue) if not isinstance(s, Run)]
    if what == 0 and syncs:
        del queue[rng.choice(syncs)]
    elif what == 1 and len(queue) > 1:
        i = rng.randrange(len(queue) - 1)
        queue[i], queue[i + 1] = queue[i + 1], queue[i]
    elif what == 2 and syncs:
        i = rng.choice(syncs)
        step = queue[i]
        if isinstance(step, Wait):
            queue[i] = Wait(step.event, max(0, step.count + rng.choice([-1, 1])))
    elif what == 3:
        events = [s.event for q in queues for s in q if isinstance(s, Signal)] or ["e"]
        queue.insert(rng.randint(0, len(queue)), Signal(rng.choice(events)))
    elif what == 4:
        for q in queues:
            q.insert(rng.randint(0, len(q)), Barrier())
    elif what == 5:
        temps = [b for b in program.buffers if b.kind == "temp"]
        if len(temps) > 1:
            one, two = rng.sample(temps, 2)
            moved = replace(one, offset=two.offset + rng.choice([0, 0, 2]))
            size = max(program.arena, moved.offset + moved.bytes)
            buffers = tuple(moved if b == one else b for b in program.buffers)
            return replace(program, buffers=buffers, arena=size)
    elif what == 6 and queue:
        i = rng.randrange(len(queue))
        queues[rng.randrange(program.eus)].append(queue.pop(i))
    elif what == 7:
        queue.insert(rng.randint(0, len(queue)), Barrier())
    elif what == 8 and syncs:
        i = rng.choice(syncs)
        step = queue.pop(i)
        queue.insert(rng.randint(0, len(queue)), step)
    return replace(program, queues=tuple(tuple(q) for q in queues))


def verdicts(programs, graph) -> tuple[bool, bool, str]:
    """(validator accepts, oracle accepts, reason of the validator)."""
    reason = ""
    try:
        validate(programs, graph)
    except ScheduleError as error:
        reason = str(error)
    try:
        Oracle(programs, graph).check()
    except Wrong:
        return not reason, False, reason
    return not reason, True, reason


@pytest.mark.parametrize("seed", range(8))
def test_validator_and_oracle_agree_on_changed_schedules(seed):
    rng = random.Random(seed)
    seen = {True: 0, False: 0}
    while min(seen.values()) < 12:
        shape = rng.choice([(4,), (2, 2)])
        graph = random_graph(rng, rng.randint(2, 3), shape, itemsize=1)
        programs = schedule_rammer(graph, 2, Costs(hand_off_ns=rng.choice([1, 300])))
        if rng.random() < 0.5:
            programs = list(plan_memory(graph, programs)[0])
        for _ in range(rng.randint(0, 2)):
            i = rng.randrange(len(programs))
            programs[i] = changed(programs[i], rng)
        programs = [replace(p, arena=max(q.arena for q in programs)) for p in programs]
        try:
            accepted, right, reason = verdicts(programs, graph)
        except TimeoutError:
            continue
        assert accepted == right, (reason, programs, graph)
        seen[right] += 1


def two_steps(**more):
    k = kernel("k", (4, 4), (4, 1), "w", **more)
    return chain([k, k], [[-1], [0]])


def refused(program, graph, rule, *words):
    with pytest.raises(ScheduleError) as error:
        validate([program], graph)
    assert error.value.rule == rule, error.value
    for word in words:
        assert word in str(error.value), (word, str(error.value))


def test_a_right_schedule_is_certified():
    graph = two_steps()
    program = hand_made(
        graph,
        [("o0", 0, 2), ("+", "a"), ("-", "b", 1), ("o1", 0, 2)],
        [("o0", 2, 2), ("+", "b"), ("-", "a", 1), ("o1", 2, 2)],
    )
    certificate = validate([program], graph, max_eus=2)
    assert (certificate.tasks, certificate.runs, certificate.waits) == (8, 4, 2)


def test_a_barrier_orders_everything():
    graph = two_steps()
    queues = [[("o0", 0, 2), "|", ("o1", 0, 2)], [("o0", 2, 2), "|", ("o1", 2, 2)]]
    validate([hand_made(graph, *queues)], graph)


def test_a_missing_wait_names_both_runs_and_the_bytes():
    graph = two_steps()
    queues = [[("o0", 0, 2), ("o1", 0, 2)], [("o0", 2, 2), ("+", "b"), ("o1", 2, 2)]]
    refused(
        hand_made(graph, *queues),
        graph,
        "race",
        "operator o1",
        "operator o0",
        "EU 1",
        "bytes 0..31 of temp",
    )


def test_waiting_for_each_other_is_a_named_circle():
    graph = two_steps()
    queues = [
        [("-", "b", 1), ("o0", 0, 4), ("+", "a")],
        [("-", "a", 1), ("+", "b"), ("o1", 0, 4)],
    ]
    refused(hand_made(graph, *queues), graph, "deadlock", "EU 0", "EU 1", "event a", "event b")


def test_a_count_that_is_never_reached():
    graph = two_steps()
    queues = [[("o0", 0, 4), ("+", "a")], [("-", "a", 2), ("o1", 0, 4)]]
    refused(hand_made(graph, *queues), graph, "deadlock", "2 times", "only 1 times")


def test_unequal_barriers():
    graph = two_steps()
    refused(hand_made(graph, [("o0", 0, 4), "|"], [("o1", 0, 4)]), graph, "deadlock", "barrier")


@pytest.mark.parametrize("ranges", [[(0, 3)], [(0, 4), (3, 1)], [(0, 2), (3, 1)], [(0, 5)]])
def test_each_task_exactly_once(ranges):
    graph = two_steps()
    steps = [("o0", first, count) for first, count in ranges]
    refused(hand_made(graph, [*steps, ("o1", 0, 4)]), graph, "task", "o0")


def test_any_two_of_three_signals_guarantee_what_they_share():
    k = kernel("k", (4, 4), (1, 1), "w")
    graph = chain([k, k], [[-1], [0]])
    shared = [
        [("o0", 0, 1), ("+", "go"), ("+", "go")],
        [("-", "go", 2), ("+", "e")],
        [("-", "go", 1), ("+", "e")],
        [("-", "e", 1), ("o1", 0, 1)],
    ]
    validate([hand_made(graph, *shared)], graph)
    loose = [*shared[:2], [("+", "e")], shared[3]]
    refused(hand_made(graph, *loose), graph, "race")


def test_column_panels_of_one_buffer_do_not_conflict():
    k = kernel("k", (4, 4), (1, 2), "t")
    graph = chain([k, k], [[-1], [0]])
    queues = [[("o0", 0, 1), ("o1", 0, 1)], [("o0", 1, 1), ("o1", 1, 1)]]
    validate([hand_made(graph, *queues)], graph)
    crossed = [[("o0", 0, 1), ("o1", 1, 1)], [("o0", 1, 1), ("o1", 0, 1)]]
    refused(hand_made(graph, *crossed), graph, "race")


def test_a_value_that_is_overwritten_before_its_last_read():
    k = kernel("k", (4, 4), (1, 1), "w")
    two = kernel("k2", (4, 4), (1, 1), "ww")
    graph = chain([k, k, two], [[-1], [0], [0, 1]])
    program = hand_made(graph, [("o0", 0, 1), ("o1", 0, 1), ("o2", 0, 1)])
    validate([program], graph)
    buffers = tuple(replace(b, offset=0) for b in program.buffers)
    refused(replace(program, buffers=buffers), graph, "clobber", "v0", "v1")


def test_in_place_needs_the_kernels_word():
    def over(**more):
        k = kernel("k", (4, 4), (4, 1), "t", **more)
        graph = chain([k, k, k], [[-1], [0], [1]])
        program = hand_made(graph, [("o0", 0, 4), ("o1", 0, 4), ("o2", 0, 4)])
        return replace(program, buffers=tuple(replace(b, offset=0) for b in program.buffers)), graph

    program, graph = over(in_place=((0, 0),))
    validate([program], graph)
    refused(*over(), "clobber")


def test_more_eus_than_the_device_has():
    graph = two_steps()
    with pytest.raises(ScheduleError, match="the device has 1"):
        validate([hand_made(graph, [("o0", 0, 4)], [])], graph, max_eus=1)


def test_the_programs_alone_are_enough():
    graph = random_graph(random.Random(3), 6)
    programs = schedule(graph, 2).programs
    assert validate(programs, kernels=graph.kernels) == validate(programs, graph)
    cut = replace(
        programs[-1],
        queues=tuple(tuple(s for s in q if not isinstance(s, Wait)) for q in programs[-1].queues),
    )
    if cut != programs[-1]:
        with pytest.raises(ScheduleError):
            validate([*programs[:-1], cut], kernels=graph.kernels)
