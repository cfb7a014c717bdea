"""The interpreter: its memory, its races, what it finds, and every policy on random graphs."""

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import interpret_dags
from oracles._random_graphs import random_graph
from oracles.interpret import ORDERS, STORES, Adversary, ScheduleInterpreter
from oracles.interpret.tasks import box_bytes
from oracles.interpret.weak_memory import Memory
from rammer_cases import chain, hand_made, kernel, rows, tiled

from rcompiler.errors import ScheduleError
from rcompiler.rammer.graph import Graph, Operator, Value
from rcompiler.rammer.kernel import Access, DimAccess, Kernel
from rcompiler.rammer.program import Wait
from rcompiler.rammer.regions import byte_ranges, task_boxes
from rcompiler.rammer.schedule import POLICIES, schedule
from rcompiler.rammer.validate import validate

PAIRS = [(order, stores) for order in ORDERS for stores in STORES]


def two_steps(**more):
    k = kernel("k", (4, 4), (4, 1), "w", **more)
    return chain([k, k], [[-1], [0]])


def refused(program, graph, rules, *words, find_races=True):
    """Every interleaving is refused, by one of these rules; words: of the first one's messages."""
    interpreter = ScheduleInterpreter([program], graph)
    seen = set()
    for seed in range(3 * len(PAIRS)):
        with pytest.raises(ScheduleError) as error:
            interpreter.execute(Adversary(seed), find_races=find_races)
        seen.add(error.value.rule)
        if error.value.rule == rules.split()[0]:
            for word in words:
                assert word in str(error.value), (word, str(error.value))
    assert seen == set(rules.split())


def test_stores_are_seen_by_others_after_release_and_acquire():
    memory = Memory(np.zeros(4, np.uint8), 2)
    at = np.array([1, 2])
    memory.write(0, at, np.array([5, 6], np.uint8))
    assert memory.read(0, at).tolist() == [5, 6]
    memory.refresh(1)
    assert memory.read(1, at).tolist() == [0, 0]
    memory.drain(0, np.array([0, 2]))  # any bytes, in any order
    memory.refresh(1)
    assert memory.read(1, at).tolist() == [0, 6]
    memory.release(0)
    assert memory.read(1, at).tolist() == [0, 6]  # an old view
    memory.write(1, np.array([1]), np.array([9], np.uint8))
    memory.refresh(1)
    assert memory.read(1, at).tolist() == [9, 6]  # own stores stay
    memory.release(1)
    memory.release(0)
    assert memory.shared.tolist() == [0, 9, 6, 0]  # drained once, not again


def test_a_missing_wait_is_a_race_that_names_both_tasks():
    queues = [[("o0", 0, 2), ("o1", 0, 2)], [("o0", 2, 2), ("o1", 2, 2)]]
    refused(hand_made(two_steps(), *queues), two_steps(), "race clobber", "operator o1",
            "operator o0", "EU 0", "EU 1", "of temp memory", "in no order")  # fmt: skip


def test_a_missing_wait_changes_bytes_also_without_clocks():
    """The producer runs first, and still its stores need not be there."""
    graph = two_steps()
    program = hand_made(graph, [("o0", 0, 4)], [("o1", 0, 4)])
    refused(program, graph, "clobber", "operator o1", "reads v0", find_races=False)


def test_harmless_orders_are_no_races():
    graph = two_steps()
    right = hand_made(
        graph,
        [("o0", 0, 2), ("+", "a"), ("-", "b", 1), ("o1", 0, 2)],
        [("o0", 2, 2), ("+", "b"), ("-", "a", 1), ("o1", 2, 2)],
    )
    barrier = hand_made(graph, [("o0", 0, 2), "|", ("o1", 0, 2)], [("o0", 2, 2), "|", ("o1", 2, 2)])
    for program in (right, barrier):
        interpreter = ScheduleInterpreter([program], graph)
        results = [interpreter.execute(Adversary(3, *pair)).outputs[0] for pair in PAIRS]
        assert all((r == results[0]).all() for r in results)


def test_a_value_overwritten_before_its_last_read():
    k, two = kernel("k", (4, 4), (1, 1), "w"), kernel("k2", (4, 4), (1, 1), "ww")
    graph = chain([k, k, two], [[-1], [0], [0, 1]])
    program = hand_made(graph, [("o0", 0, 1), ("o1", 0, 1), ("o2", 0, 1)])
    ScheduleInterpreter([program], graph).execute(Adversary(0))
    program = replace(program, buffers=tuple(replace(b, offset=0) for b in program.buffers))
    refused(program, graph, "clobber", "operator o2", "reads v0", "bytes 0..63 of temp memory")


@pytest.mark.parametrize(
    ("queues", "words"),
    [
        ([[("o0", 0, 3)], [("o1", 0, 4)]], ["o0", "rTask 3", "not run"]),
        ([[("o0", 0, 4), ("o0", 3, 1)], []], ["o0", "rTask 3", "second time"]),
        ([[("o0", 0, 5)], []], ["o0", "no rTask 4"]),
    ],
)
def test_each_task_exactly_once(queues, words):
    graph = two_steps()
    with pytest.raises(ScheduleError) as error:
        ScheduleInterpreter([hand_made(graph, *queues)], graph).execute(
            Adversary(0, "any", "early"), find_races=False
        )
    assert error.value.rule in ("task", "clobber")
    if error.value.rule == "task":
        assert all(word in str(error.value) for word in words)


def test_deadlocks_name_who_waits_for_whom():
    graph = two_steps()
    queues = [
        [("-", "b", 1), ("o0", 0, 4), ("+", "a")],
        [("-", "a", 1), ("+", "b"), ("o1", 0, 4)],
    ]
    refused(hand_made(graph, *queues), graph, "deadlock",
            "EU 0 waits at place 0 for event b (0 of 1 signals) of EU 1", "of EU 0")  # fmt: skip
    refused(hand_made(graph, [("o0", 0, 4), "|"], []), graph, "deadlock", "at a barrier of EU 1")
    refused(hand_made(graph, [("-", "e", 1)]), graph, "deadlock", "event e", "of nobody")


def test_bodies_compute_what_numpy_computes():
    """A product in tiles, with the operands' boxes as typed arrays."""
    left, right = rows((4, 6), (2, 1)), Access((6, 8), 4, (DimAccess(), DimAccess(1, 4, 0, 4)))
    k = Kernel("dot", (2, 2), (left, right), (tiled((4, 8), (2, 2)),), 1.0)
    values = (
        Value("a", 96, "input", index=0),
        Value("b", 192, "constant"),
        Value("c", 128, "output", index=0),
    )
    graph = Graph((Operator("o", ("dot",), ("a", "b"), ("c",)),), values, (k,))

    def product(operator, task, operands, shapes):
        a, b = (operand.view(np.int32)[..., 0] for operand in operands)
        return [(a @ b)[..., None].view(np.uint8)]

    plan = schedule(graph, 3)
    interpreter = ScheduleInterpreter(plan.programs, graph, {"o": product})
    outputs = interpreter.execute(Adversary(1)).outputs[0].view(np.int32).reshape(4, 8)
    a, b = (interpreter.right[n].view(np.int32) for n in "ab")
    assert (outputs == a.reshape(4, 6) @ b.reshape(6, 8)).all()
    with pytest.raises(ScheduleError, match="boxes have"):
        ScheduleInterpreter(plan.programs, graph, {"o": lambda *a: [np.zeros(3, np.uint8)]})


@settings(max_examples=100)
@given(st.randoms(use_true_random=False))
def test_the_bytes_of_a_task_are_those_of_its_box(rng):
    grid = tuple(rng.randint(1, 4) for _ in range(rng.randint(0, 3)))
    dims = tuple(
        DimAccess(rng.randint(-1, len(grid) - 1), *(rng.randint(0, 3) - k for k in (0, 2, 0)))
        for _ in range(rng.randint(0, 3))
    )
    access = Access(tuple(rng.randint(1, 5) for _ in dims), rng.choice([1, 4]), dims)
    task = rng.randrange(int(np.prod(grid)))
    boxes = task_boxes(grid, access, np.array([task]))
    at, shape = box_bytes(grid, access, task)
    assert shape[:-1] == tuple((boxes[0, :, 1] - boxes[0, :, 0]).tolist())
    ranges = byte_ranges(access, boxes[(boxes[:, :, 0] < boxes[:, :, 1]).all(axis=1)])
    assert at.tolist() == [b for low, high in ranges.tolist() for b in range(low, high)]


def test_an_execution_depends_on_its_seed_only():
    graph = random_graph(random.Random(2), 6)
    interpreter = ScheduleInterpreter(schedule(graph, 3).programs, graph)
    assert [interpreter.execute(Adversary(s)).steps for s in (4, 5)] == [
        interpreter.execute(Adversary(s)).steps for s in (4, 5)
    ]
    with pytest.raises(ScheduleError, match="starve"):
        Adversary(0, "other")


@settings(max_examples=12)
@given(st.randoms(use_true_random=False), st.integers(1, 10), st.integers(1, 132))
def test_every_policy_computes_the_reference(rng, operators, eus):
    graph = random_graph(rng, operators)
    for policy in POLICIES:
        plan = schedule(graph, eus, policy=policy)
        interpreter = ScheduleInterpreter(plan.programs, graph)
        for seed in rng.sample(range(1000), 2):
            interpreter.execute(Adversary(seed))


@settings(max_examples=40)
@given(st.randoms(use_true_random=False))
def test_a_dropped_wait_that_the_validator_refuses_is_found(rng):
    """The clocks find it in every interleaving that reaches it, so in the very first."""
    graph = random_graph(rng, 6)
    programs = list(schedule(graph, 4).programs)
    places = [(i, eu, at) for i, p in enumerate(programs) for eu, q in enumerate(p.queues)
              for at, step in enumerate(q) if isinstance(step, Wait)]  # fmt: skip
    if not places:
        return
    number, eu, at = rng.choice(places)
    queues = [list(q) for q in programs[number].queues]
    del queues[eu][at]
    programs[number] = replace(programs[number], queues=tuple(map(tuple, queues)))
    try:
        validate(programs, graph)
    except ScheduleError:
        with pytest.raises(ScheduleError):
            ScheduleInterpreter(programs, graph).execute(Adversary(0))
    else:
        ScheduleInterpreter(programs, graph).execute(Adversary(0))


def test_the_command_counts_what_it_did(tmp_path, capsys):
    file = tmp_path / "dags.json"
    assert interpret_dags.main(["--graphs=2", "--interleavings=2", f"--json={file}"]) == 0
    assert "2 graphs, 0 failures" in capsys.readouterr().out
    assert '"interleavings": 8' in file.read_text()


def test_random_graphs_have_all_that_a_graph_may_hold():
    seen = set()
    for seed in range(60):
        graph = random_graph(random.Random(seed), 8)
        seen |= {f"{len(op.kernels)} kernels" for op in graph.operators}
        seen |= {"two results" for op in graph.operators if len(op.outputs) > 1}
        seen |= {"in place" for k in graph.kernels if k.in_place}
        seen |= {"part" for v in graph.values if v.alias_of and v.name in graph.producer}
        seen |= {"view" for v in graph.values if v.alias_of and v.name not in graph.producer}
        seen |= {"viewed output" for v in graph.values if v.alias_of and v.kind == "output"}
        for value in graph.values:
            seen |= {value.kind, *(["shared constant"] if value.key else [])}
        for k in graph.kernels:
            for dim in (d for access in k.reads for d in access.dims):
                seen |= {"window"} if dim.extent > dim.scale > 0 else set()
                seen |= {"gap"} if dim.scale > dim.extent > 0 else set()
    assert seen >= {"1 kernels", "2 kernels", "3 kernels", "two results", "in place", "part",
                    "view", "viewed output", "input", "output", "constant", "temp",
                    "shared constant", "window", "gap"}  # fmt: skip
