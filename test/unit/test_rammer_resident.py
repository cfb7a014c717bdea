"""Constants stay with the EU that read them before, where that costs no more than a hand-off."""

import pytest
from rammer_cases import kernel

from rcompiler.device.model import Costs
from rcompiler.rammer.graph import Graph, Operator, Value
from rcompiler.rammer.kernel import Access, Kernel
from rcompiler.rammer.policy.dependences import Dependences
from rcompiler.rammer.policy.draft import Draft
from rcompiler.rammer.policy.rammer import schedule_rammer
from rcompiler.rammer.program import Run


def three(kind="constant"):
    """p and r read w for 1000 ns, q reads v for 950 ns; none needs another one."""
    slow = kernel("slow", (4, 4), (1, 1), "w", estimated_ns=1000.0)
    quick = kernel("quick", (4, 4), (1, 1), "w", estimated_ns=950.0)
    index = 0 if kind == "input" else -1
    values = [Value("w", 64, kind, index=index), Value("v", 64, "constant")]
    values += [Value(name, 64, "output", index=i) for i, name in enumerate(("a", "b", "c"))]
    operators = (
        Operator("p", ("slow",), ("w",), ("a",)),
        Operator("q", ("quick",), ("v",), ("b",)),
        Operator("r", ("slow",), ("w",), ("c",)),
    )
    return Graph(operators, tuple(values), (slow, quick))


def costs(hand_off):
    return Costs(task_ns=1, hand_off_ns=hand_off, barrier_ns=200, launch_ns=500, min_task_ns=1)


def eus_of(graph, hand_off):
    [program] = schedule_rammer(graph, 2, costs(hand_off))
    runs = {s.operator: eu for eu, q in enumerate(program.queues) for s in q if isinstance(s, Run)}
    return "".join(str(runs[name]) for name in "pqr")


@pytest.mark.parametrize(("hand_off", "eus"), [(100, "010"), (50, "010"), (49, "011")])
def test_a_constant_stays_where_it_was_read_for_the_price_of_a_hand_off(hand_off, eus):
    # EU 1 is free 50 ns before EU 0, which has read w.
    assert eus_of(three(), hand_off) == eus


def test_values_of_one_inference_are_not_worth_it():
    assert eus_of(three("input"), 100) == "011"


def test_the_largest_constant_decides():
    # Two directions of a layer: they begin with the same zeros, and have weights of their own.
    whole = Access.whole((4,), 4), Access.whole((4, 4), 4)
    step = Kernel("step", (1,), whole, (Access.whole((4,), 4),), 1000.0)
    values = [Value("zeros", 16, "constant"), *(Value(n, 64, "constant") for n in "vw")]
    values += [Value(name, 16, "output", index=i) for i, name in enumerate("ab")]
    operators = (
        Operator("p", ("step",), ("zeros", "v"), ("a",)),
        Operator("q", ("step",), ("zeros", "w"), ("b",)),
    )
    [program] = schedule_rammer(Graph(operators, tuple(values), (step,)), 2, costs(2000))
    assert [len(queue) for queue in program.queues] == [1, 1]


def test_what_is_taken_back_read_nothing():
    graph = three()
    p, q, r = graph.operators
    draft = Draft.empty(graph, 2, costs(100), Dependences(graph))
    slow, quick = graph.kernels
    mark = draft.mark()
    draft.add(p, slow)
    draft.rewind(mark)
    draft.add(q, quick)
    draft.add(p, slow)
    draft.add(r, slow)
    assert [draft.shares[name].eu.tolist() for name in "qpr"] == [[0], [1], [1]]


def test_weights_of_a_recurrence_stay_for_all_steps():
    """Two cells a step, of different weights: the longer one first, on whichever EU is free."""
    slow = kernel("slow", (4, 4), (1, 1), "ww", estimated_ns=1000.0)
    quick = kernel("quick", (4, 4), (1, 1), "ww", estimated_ns=900.0)
    values = [
        Value("h", 64, "input", index=0),
        Value("w", 64, "constant"),
        Value("v", 64, "constant"),
    ]
    operators, state = [], "h"
    for step in range(8):
        for name, k, weight in (("a", "slow", "w"), ("b", "quick", "v")):
            values.append(Value(f"{name}{step}", 64))
            inputs = (state, weight)
            operators.append(Operator(f"{name}{step}", (k,), inputs, (f"{name}{step}",)))
        state = f"{'ab'[step % 2]}{step}"  # the next step goes on from either of them
    graph = Graph(tuple(operators), tuple(values), (slow, quick))
    [program] = schedule_rammer(graph, 2, costs(150))
    for queue in program.queues:
        cells = {step.operator[0] for step in queue if isinstance(step, Run)}
        assert len(cells) == 1
