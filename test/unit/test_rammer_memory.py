"""Buffer planning, views, the tables of the runtime, and the boxes behind it all."""

import itertools
import random
from dataclasses import replace

import numpy as np
import pytest
from decoded import decode
from hypothesis import given, settings
from hypothesis import strategies as st
from rammer_cases import chain, kernel, random_graph, recurrent, tiled

from rcompiler.device.model import Costs
from rcompiler.errors import ScheduleError
from rcompiler.rammer import packing
from rcompiler.rammer.encode import encode, event_ids
from rcompiler.rammer.graph import Graph, Operator, Value
from rcompiler.rammer.kernel import Access, DimAccess, Kernel
from rcompiler.rammer.plan_memory import plan_memory, plan_within
from rcompiler.rammer.policy.rammer import schedule_rammer
from rcompiler.rammer.program import Run, Signal, Wait
from rcompiler.rammer.regions import byte_ranges, covers, disjoint, range_boxes, task_boxes
from rcompiler.rammer.reuse import check_pair
from rcompiler.rammer.schedule import schedule


@st.composite
def accesses(draw):
    grid = tuple(draw(st.lists(st.integers(1, 4), max_size=3)))
    shape = tuple(draw(st.lists(st.integers(1, 6), max_size=3)))
    number = st.integers(0, 3)
    dims = [
        DimAccess(
            draw(st.integers(-1, len(grid) - 1)), draw(number), draw(number) - 2, draw(number)
        )
        for _ in shape
    ]
    return grid, Access(shape, draw(st.sampled_from([1, 4])), tuple(dims))


def elements(boxes):
    found = set()
    for box in boxes.tolist():
        found |= set(itertools.product(*[range(low, high) for low, high in box]))
    return found


@settings(max_examples=300)
@given(accesses(), st.integers(0, 100), st.integers(1, 100))
def test_boxes_and_bytes_of_a_range_are_those_of_its_tasks(case, first, count):
    grid, access = case
    total = int(np.prod(grid))
    first = first % total
    count = 1 + count % (total - first)
    want = elements(task_boxes(grid, access, np.arange(first, first + count)))
    _, boxes = range_boxes(grid, access, np.array([first]), np.array([count]))
    assert elements(boxes) == want
    mask = np.zeros(access.shape, bool)
    for element in want:
        mask[element] = True
    touched = np.zeros(access.bytes, bool)
    for low, high in byte_ranges(access, boxes):
        touched[low:high] = True
    assert (touched == np.repeat(mask.reshape(-1), access.itemsize)).all()
    whole = elements(task_boxes(grid, access))
    assert covers(grid, access) == (len(whole) == np.prod(access.shape))
    if disjoint(grid, access):
        assert sum(len(elements(b[None])) for b in task_boxes(grid, access)) == len(whole)


def test_a_chain_needs_two_buffers_and_one_in_place():
    k = kernel("k", (16, 16), (1, 1), "w")
    memory = schedule(chain([k] * 6, [[i - 1] for i in range(6)]), 1).memory
    assert (memory.peak, memory.bound, memory.plain) == (2048, 2048, 5 * 1024)
    k = kernel("k", (16, 16), (4, 1), "t", in_place=((0, 0),))
    memory = schedule(chain([k] * 6, [[i - 1] for i in range(6)]), 2).memory
    assert (memory.peak, memory.in_place) == (1024, 4)


def test_an_operand_that_is_read_later_is_not_overwritten():
    k = kernel("k", (16, 16), (4, 1), "t", in_place=((0, 0),))
    two = kernel("k2", (16, 16), (4, 1), "tt")
    memory = schedule(chain([k, k, two], [[-1], [0], [0, 1]]), 2).memory
    assert (memory.peak, memory.in_place) == (2048, 0)


def test_parts_of_a_concatenation_are_written_where_they_belong():
    half = kernel("half", (4, 4), (4, 1), "t")
    whole = kernel("whole", (8, 4), (8, 1), "t")
    flat = Access((32,), 4, (DimAccess(0, 16, 0, 16),))
    reshaped = Kernel("flat", (2,), (flat,), (flat,), 100.0)
    values = (
        Value("x", 64, "input", index=0),
        Value("c", 128),
        Value("a", 64, alias_of="c"),
        Value("b", 64, alias_of="c", alias_offset=64),
        Value("d", 128),
        Value("d2", 128, alias_of="d"),
        Value("y", 128, "output", index=0),
    )
    operators = (
        Operator("left", ("half",), ("x",), ("a",)),
        Operator("right", ("half",), ("x",), ("b",)),
        Operator("both", ("whole",), ("c",), ("d",)),
        Operator("view", ("flat",), ("d2",), ("y",)),
    )
    graph = Graph(operators, values, (half, whole, reshaped))
    for eus in (1, 2, 3):
        plan = schedule(graph, eus)
        places = {b.name: b.offset for p in plan.programs for b in p.buffers}
        assert places["b"] - places["a"] == 64 and places["c"] == places["a"]
        assert places["d"] == places["d2"] and plan.memory.plain == 256


def test_a_reshaped_output_is_written_directly():
    k = kernel("k", (4, 4), (4, 1), "t")
    values = (
        Value("x", 64, "input", index=0),
        Value("v", 64),
        Value("y", 64, "output", alias_of="v", index=0),
    )
    plan = schedule(Graph((Operator("o", ("k",), ("x",), ("v",)),), values, (k,)), 2)
    assert {(b.name, b.kind) for b in plan.programs[0].buffers} == {("x", "input"), ("v", "output")}
    assert plan.memory.peak == 0


def test_constants_with_one_key_share_bytes():
    k = kernel("k", (4, 4), (4, 1), "ttt")
    values = tuple(Value(f"w{i}", 64, "constant", key=f"w_{i // 2}") for i in range(3))
    graph = Graph(
        (Operator("o", ("k",), ("w0", "w1", "w2"), ("y",)),),
        (*values, Value("y", 64, "output", index=0)),
        (k,),
    )
    plan = schedule(graph, 2)
    offsets = {b.name: b.offset for b in plan.programs[0].buffers}
    assert offsets["w0"] == offsets["w1"] != offsets["w2"] and plan.memory.constants == 128


def residual_network(blocks):
    """Convolution-like operators with a skip connection per block and halving sizes."""
    kernels, values, operators = {}, [Value("x", 64 * 64 * 16 * 4, "input", index=0)], []
    last, rows_now, width = "x", 64, 16
    for block in range(blocks):
        skip, shape = last, (rows_now, rows_now, width)
        for part in ("a", "b", "c", "add"):
            reads = "tt" if part == "add" else ("h" if part == "b" else "r")
            if part in ("a", "c") and last == "x":
                reads = "t"
            name = f"{reads}{rows_now}"
            grid = (min(8, rows_now), 1, 1)
            place = ((0, 0),) if part == "add" else ()
            kernels[name] = kernel(name, shape, grid, reads, in_place=place)
            inputs = (last, skip) if part == "add" else (last,)
            out = f"v{block}{part}"
            values.append(Value(out, kernels[name].writes[0].bytes))
            operators.append(Operator(f"o{block}{part}", (name,), inputs, (out,)))
            last = out
    return Graph(tuple(operators), tuple(values), tuple(kernels.values()))


@pytest.mark.parametrize("eus", [1, 2, 4])
def test_a_residual_network_stays_near_its_bound(eus):
    memory = schedule(residual_network(16), eus).memory
    assert memory.peak <= 1.2 * memory.bound
    assert memory.peak <= memory.plain / 4


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.integers(1, 12), st.sampled_from([1, 2, 8]))
def test_plans_lie_between_their_bound_and_no_reuse(seed, operators, eus):
    memory = schedule(random_graph(random.Random(seed), operators), eus).memory
    assert memory.bound <= memory.peak <= memory.plain


def test_no_plan_is_made_that_cannot_be_small_enough(monkeypatch):
    graph = residual_network(4)
    programs = schedule_rammer(graph, 2, Costs())
    planned = plan_memory(graph, programs)
    assert plan_within(graph, programs, planned[1].bound) == planned
    monkeypatch.setattr(packing.Packing, "_pack", None)  # whoever packs, fails
    assert plan_within(graph, programs, planned[1].bound - 1) is None


def test_planning_compares_no_more_pairs_than_its_budget(monkeypatch):
    pairs = []

    def counted(placement, one, two):
        pairs.append((one, two))
        check_pair(placement, one, two)

    monkeypatch.setattr(packing, "check_pair", counted)
    graph = random_graph(random.Random(8), 60)
    programs = schedule_rammer(graph, 4, Costs())
    unbounded = plan_memory(graph, programs)[1]
    assert len(set(pairs)) == len(pairs) > 5  # no pair twice, whatever the orders of the blocks
    pairs.clear()
    monkeypatch.setattr(packing, "BUDGET", 3 * packing.CALL**2)
    bounded = plan_memory(graph, programs)[1]
    assert len(pairs) == 3
    assert unbounded.peak <= bounded.peak <= bounded.plain


def steps_by_address(program, events):
    """The queues of a program with the names that tables have."""
    base = {"temp": 0, "constant": 1, "input": 2, "output": 3}
    place = {b.name: f"{base[b.kind]}+{b.offset}" for b in program.buffers}

    def told(step):
        match step:
            case Run():
                buffers = tuple(place[name] for name in step.buffers)
                return replace(step, operator="", buffers=buffers)
            case Wait() | Signal():
                return replace(step, event=f"e{events[step.event]}")
        return step

    return tuple(tuple(map(told, queue)) for queue in program.queues)


@pytest.mark.parametrize("make", [lambda: random_graph(random.Random(2), 8), lambda: recurrent(12)])
@pytest.mark.parametrize("eus", [1, 3])
def test_tables_round_trip(make, eus):
    graph = make()
    numbers = {k.name: i for i, k in enumerate(graph.kernels)}
    for program in schedule(graph, eus).programs:
        streams = encode(program, numbers, inputs=1)
        queues = decode(streams, list(numbers))
        assert queues == steps_by_address(program, event_ids(program))


def test_tables_of_a_recurrence_are_as_long_for_any_number_of_steps():
    lengths = []
    for steps in (12, 48):
        graph = recurrent(steps)
        (program,) = schedule(graph, 2).programs
        numbers = {k.name: i for i, k in enumerate(graph.kernels)}
        lengths.append([len(stream) for stream in encode(program, numbers, inputs=1)])
    assert lengths[0] == lengths[1]


@pytest.mark.parametrize("words", [[1, 0], [9, 0], [2, 0], [1, 5, 0, 1, 1, 0, 0], [4], [0, 0]])
def test_broken_tables_are_refused(words):
    with pytest.raises(ScheduleError):
        decode([np.array(words)], ["k"])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Access((2, 2), 4, (DimAccess(),)), "one entry per dim"),
        (lambda: Kernel("k", (2,), (Access((2,), 4, (DimAccess(1, 1, 0, 1),)),), (), 1.0), "grid"),
        (lambda: Value("v", 4, "other"), "none of"),
        (lambda: Graph((), (Value("v", 4), Value("v", 4)), ()), "'v'"),
        (lambda: Graph((), (Value("v", 4, alias_of="u"),), ()), "unknown"),
        (lambda: Graph((), (Value("u", 4), Value("v", 8, alias_of="u")), ()), "has 4"),
        (lambda: Graph((Operator("o", ("k",), (), ()),), (), ()), "unknown rKernel"),
        (lambda: chain([Kernel("k", (), (), (tiled((), ()),), 1.0)], [[-1]]), "1 operands"),
    ],
)
def test_impossible_graphs_are_refused(make, words):
    with pytest.raises(ScheduleError, match=words):
        make()


def test_costs_change_the_estimate_only():
    graph = random_graph(random.Random(9), 6)
    cheap, dear = Costs(launch_ns=1), Costs(launch_ns=10**6)
    assert schedule(graph, 2, cheap).certificate.tasks == schedule(graph, 2, dear).certificate.tasks
