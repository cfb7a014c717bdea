"""Figures that cannot be are not told: of every tiling and every schedule."""

import random
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rammer_cases import kernel, random_graph
from roller_cases import CASES, at, elementwise
from test_roller_properties import DEVICES, expressions

from rcompiler.device.model import Costs
from rcompiler.rammer.graph import Graph, Operator, Value
from rcompiler.rammer.kernel import WHOLE, Access, DimAccess, Kernel
from rcompiler.rammer.layout import temp_roots
from rcompiler.rammer.live_bytes import live_bytes, live_values
from rcompiler.rammer.order import happens_before
from rcompiler.rammer.packing import Packing
from rcompiler.rammer.placement import place_runs
from rcompiler.rammer.reuse import Clash, check_pair, live_ranges
from rcompiler.rammer.schedule import POLICIES, schedule
from rcompiler.rammer.simulate import simulate
from rcompiler.roller.construct import construct
from rcompiler.roller.cost import peak_ns
from rcompiler.roller.expr import TensorAccess as Reads
from rcompiler.roller.expr import tensor_expr
from rcompiler.roller.ranking import sampled

COSTS = Costs(task_ns=1e-6, hand_off_ns=100, barrier_ns=200, launch_ns=500, min_task_ns=1)


def check(expr, device, decision):
    why = decision.explanation
    used, there = why.registers
    assert 0 < used <= there
    assert 0 <= why.saturation <= 1
    spent = decision.tasks * decision.estimated_ns
    assert spent >= peak_ns(expr, device) - 0.1 * decision.tasks  # it is rounded to 0.1 ns
    assert all(ns >= 0 for _, ns in why.parts_ns)


@settings(max_examples=150)
@given(expressions(), st.sampled_from(list(DEVICES)), st.integers(0, 9))
def test_tilings(expr, name, seed):
    for decision in [*construct(expr, DEVICES[name]), *sampled(expr, DEVICES[name], 4, seed)]:
        check(expr, DEVICES[name], decision)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("device", DEVICES.values(), ids=list(DEVICES))
def test_tilings_of_real_operators(name, device):
    for decision in construct(CASES[name], device):
        check(CASES[name], device, decision)


@pytest.mark.parametrize("element", ["i8", "bf16"])
def test_dot_groups_are_measured_by_their_own_peak(element):
    axes = [("m", 256, "parallel"), ("n", 256, "parallel"), ("k", 64, "reduction")]
    a, b = (Reads((256, 64), 4, (at(p), at(2))) for p in (0, 1))
    product = tensor_expr(
        axes, [a, b], [Reads((256, 256), 4, (at(0), at(1)))], ops=8.0, dot=element
    )
    for device in DEVICES.values():
        for decision in construct(product, device) if device.kind == "cpu" else ():
            check(product, device, decision)


def test_more_operands_than_registers_are_spilled():
    axes = [("n", 4096, "parallel")]
    one = Reads((4096,), 4, (at(0),))
    many = tensor_expr(axes, [Reads((4096,), 4, (at(0),)) for _ in range(40)], [one], ops=80.0)
    decision, *_ = construct(many, DEVICES["x86-64"])
    check(many, DEVICES["x86-64"], decision)
    assert decision.explanation.registers == (16, 16)
    assert "spilled" in decision.reason
    few, *_ = construct(elementwise(4096), DEVICES["x86-64"])
    assert "spilled" not in few.reason


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.integers(1, 12), st.sampled_from([1, 2, 8]))
def test_schedules(seed, operators, eus):
    graph = random_graph(random.Random(seed), operators)
    for policy in POLICIES:
        found = schedule(graph, eus, COSTS, policy=policy)
        assert found.memory.bound <= found.memory.peak
        for shared in (None, 0.1):
            line = simulate(found.programs, graph, COSTS, shared)
            least = max(line.work_bound_ns, line.path_bound_ns, line.bandwidth_bound_ns)
            assert least <= line.makespan_ns * (1 + 1e-9)


def test_tasks_that_read_none_of_an_operand_wait_for_none():
    """o1 reads the result of o0 in its second rTask only, and o2 but what the first one wrote."""
    half = Access((4, 4), 4, (DimAccess(0, 4, -4, 4), DimAccess(WHOLE)))  # nothing, then all of it
    rows = Access((8, 4), 4, (DimAccess(0, 4, 0, 4), DimAccess(WHOLE)))
    slow = kernel("slow", (4, 4), (1, 1), "w", estimated_ns=10_000.0)
    joined = Kernel("joined", (2,), (half,), (rows,), 1_000.0)
    upper = Access((8, 4), 4, (DimAccess(0, 4, 0, 4), DimAccess(WHOLE)))
    first = Access((4, 4), 4, (DimAccess(0, 4, 0, 4), DimAccess(WHOLE)))
    last = Kernel("last", (1,), (upper,), (first,), 10_000.0)
    values = [Value("x", 64, "input", index=0), Value("v0", 64), Value("v1", 128)]
    operators = [
        Operator("o0", ("slow",), ("x",), ("v0",)),
        Operator("o1", ("joined",), ("v0",), ("v1",)),
        Operator("o2", ("last",), ("v1",), ("y",)),
    ]
    y = Value("y", 64, "output", index=0)
    graph = Graph(tuple(operators), (*values, y), (slow, joined, last))
    programs = schedule(graph, 2, COSTS, policy="list").programs
    line = simulate(programs, graph, COSTS)
    assert line.path_bound_ns == 11_000  # not 21,000
    assert line.path_bound_ns <= line.makespan_ns


def packed(graph, eus):
    """Where the runs of a schedule of the graph are, and its values as blocks of their own."""
    programs = schedule(graph, eus, COSTS).programs
    placement = place_runs(programs, graph, happens_before(programs))
    use = live_ranges(placement, [r for r in temp_roots(graph) if r in placement.place])
    return placement, Packing(placement, use, np.arange(len(use.names)))


def test_a_part_that_is_read_for_the_last_time_is_live_no_more():
    """v0 has three parts, of which o1, o2 and o3 read one each, and the result before them."""
    part = kernel("part", (16, 16), (1, 1), "w")
    whole = Access.whole((48, 16), 4)
    parts = [Value(f"p{i}", 1024, alias_of="v0", alias_offset=1024 * i) for i in range(3)]
    values = (
        *(Value("x", 3072, "input", index=0), Value("v0", 3072), *parts),
        *(Value("v1", 1024), Value("v2", 1024), Value("y", 1024, "output", index=0)),
    )
    two = kernel("two", (16, 16), (1, 1), "ww")
    operators = (
        Operator("o0", ("all",), ("x",), ("v0",)),
        Operator("o1", ("part",), ("p0",), ("v1",)),
        Operator("o2", ("two",), ("p1", "v1"), ("v2",)),
        Operator("o3", ("two",), ("p2", "v2"), ("y",)),
    )
    all_of_it = Kernel("all", (1,), (whole,), (whole,), 1000.0)
    placement, packing = packed(Graph(operators, values, (all_of_it, part, two)), 1)
    assert live_values(placement, packing) == 5 * 1024
    assert live_bytes(placement, packing) == 3 * 1024
    number = packing.use.names.index
    assert packing.stackable(number("v0"), number("v2"))  # over the first part, not the third
    assert not packing.stackable(number("v0"), number("v1"))


def may_share(placement, one, two):
    """The exact rule, run by run, for values that begin at the same byte."""
    together = dict.fromkeys(placement.place, (("temp", -1), 0))
    try:
        check_pair(replace(placement, place=together), one, two)
    except Clash:
        return False
    return True


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.integers(2, 12), st.sampled_from([1, 2, 8]))
def test_values_lie_over_each_other_where_the_exact_rule_says_so(seed, operators, eus):
    placement, packing = packed(random_graph(random.Random(seed), operators, (8, 4)), eus)
    names = packing.use.names
    for one, two in combinations(range(len(names)), 2):
        assert packing.stackable(one, two) == may_share(placement, names[one], names[two])


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.integers(1, 10), st.sampled_from([1, 2, 8]))
def test_live_bytes_are_no_more_than_any_plan_has(seed, operators, eus):
    graph = random_graph(random.Random(seed), operators, (8, 4))
    placement, packing = packed(graph, eus)
    least = live_bytes(placement, packing)
    assert least <= live_values(placement, packing)
    for _, peak in (packing.first(least), packing.best(least)):  # stacked beyond what is live
        assert least <= peak
