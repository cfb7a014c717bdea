"""Every place at which the validator refuses a schedule: a case that ends at that very place.

A refusal that is taken out, or not reached any more, fails the test that has its name. (That whole
rules are needed, which nothing else would refuse, is shown by `test_rules.py`.)
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from rammer_cases import chain, hand_made, kernel, rows
from refusals import refusals, refused_at

from rcompiler.errors import ScheduleError
from rcompiler.rammer.graph import Graph, Operator, Value
from rcompiler.rammer.kernel import Access, DimAccess, Kernel
from rcompiler.rammer.program import Buffer, Program, Run
from rcompiler.rammer.validate import validate

MODULES = (
    "validate",
    "reuse",
    "pinned_boxes",
    "order",
    "lines",
    "placement",
    "caller_tensors",
    "states",
)
K = kernel("k", (4, 4), (4, 1), "w")
ONE = kernel("one", (4, 4), (1, 1), "w")
GRAPH = chain([K, K], [[-1], [0]])
RIGHT = hand_made(GRAPH, [("o0", 0, 4), ("o1", 0, 4)])
O0, O1 = RIGHT.queues[0]

Case = Callable[[], object]


def proof(program: Program, graph: Graph = GRAPH, **more) -> Case:
    return lambda: validate([program], graph, **more)


def queued(*queues: Sequence, takers: int | None = None) -> Case:
    return proof(hand_made(GRAPH, *queues, takers=takers))


def with_runs(*runs) -> Program:
    return replace(RIGHT, queues=(runs,))


def with_buffer(name: str, program: Program = RIGHT, **changes) -> Program:
    """One buffer is another one; the arenas are large enough."""
    buffers = tuple(replace(b, **changes) if b.name == name else b for b in program.buffers)
    return replace(program, buffers=buffers, arena=4096, constants=4096)


def alone(*programs: Program, kernels=(K,)) -> Case:
    """Without a graph."""
    return lambda: validate(programs, kernels=kernels)


# -- single rules -------------------------------------------------------------------------------
def uncovered() -> object:
    half = Access((4,), 4, (DimAccess(0, 1, 0, 1),))
    graph = chain([Kernel("k", (2,), (Access.whole((4,), 4),), (half,), 1.0)], [[-1]])
    return validate([hand_made(graph, [("o0", 0, 2)])], graph)


def own_writes() -> object:
    whole = Access.whole((4,), 4)
    graph = chain([Kernel("k", (2,), (whole,), (whole,), 1.0)], [[-1]])
    return validate([hand_made(graph, [("o0", 0, 1)], [("o0", 1, 1)])], graph)


def two_arenas() -> object:
    first, second = with_runs(O0), with_runs(O1)
    return validate([first, replace(second, arena=second.arena + 64)], GRAPH)


def constants() -> object:
    two = (Buffer("c", "constant", 0, 64, key="a"), Buffer("d", "constant", 32, 64, key="b"))
    return validate([replace(RIGHT, buffers=(*RIGHT.buffers, *two), constants=96)], GRAPH)


def unwritten_output() -> object:
    values = (*GRAPH.values, Value("y", 64, "output", index=1))
    return validate([RIGHT], replace(GRAPH, values=values))


def output_elsewhere() -> object:
    """Two outputs are one value."""
    values = (*GRAPH.values, Value("y", 64, "output", "v1", 1))
    return validate([RIGHT], replace(GRAPH, values=values))


def output_further() -> object:
    return validate([with_buffer("v1", offset=64)], GRAPH)


def other_buffers() -> object:
    """A run of two is on other buffers, without a graph that would say which are right."""
    [o0, *_] = RIGHT.queues[0]
    halves = replace(o0, count=2), replace(o0, first=2, count=2, buffers=("x", "v1"))
    return validate([with_runs(*halves, O1)], kernels=[K])


def two_places() -> object:
    """One half of the runs has v0 at other bytes."""
    twin = Buffer("twin", "temp", 2048, 64)
    moved = replace(O1, buffers=("twin", "v1"))
    program = replace(with_runs(O0, moved), buffers=(*RIGHT.buffers, twin), arena=4096)
    return validate([program], GRAPH)


# -- values on the same bytes -------------------------------------------------------------------
def two_results(offset_u: int, offset_v: int) -> object:
    """An operator of two tasks and two results; what follows reads u."""
    k = kernel("k", (4,), (2,), "t", itemsize=1)
    both = replace(k, name="both", writes=k.writes * 2)
    values = [Value("x", 4, "input", index=0), Value("y", 4, "output", index=0)]
    values += [Value("u", 4), Value("v", 4)]
    operators = (
        Operator("o0", ("both",), ("x",), ("u", "v")),
        Operator("o1", ("k",), ("u",), ("y",)),
    )
    graph = Graph(operators, tuple(values), (both, k))
    program = hand_made(graph, [("o0", 0, 2), ("o1", 0, 2)])
    return validate(
        [with_buffer("v", with_buffer("u", program, offset=offset_u), offset=offset_v)], graph
    )


def overwritten(*queues: Sequence) -> Case:
    """v0 and v1 on the same bytes; o2 reads v0."""

    def case() -> object:
        last = kernel("last", (4, 4), (1, 1), "ww")
        graph = chain([ONE, ONE, last], [[-1], [-1], [0, 0]])
        program = hand_made(graph, *queues)
        return validate([with_buffer("v1", with_buffer("v0", program, offset=0), offset=0)], graph)

    return case


def not_in_place() -> object:
    k = kernel("k", (4, 4), (4, 1), "t")
    graph = chain([k, k, k], [[-1], [0], [1]])
    program = hand_made(graph, [("o0", 0, 4), ("o1", 0, 4), ("o2", 0, 4)])
    return validate([with_buffer("v1", with_buffer("v0", program, offset=0), offset=0)], graph)


# -- memory of the EUs --------------------------------------------------------------------------
OWN = rows((8, 4), (2, 1))
PIN = Kernel("pin", (2, 1), (OWN,), (OWN,), 1.0, pinned=(1,))
STEP = Kernel("step", (2, 1), (OWN,), (OWN,), 1.0, pinned=(0,))


def boxes(
    order: tuple[str, ...] = ("pin v", "pin w", "step v", "step w"),
    kernels: Sequence[Kernel] = (PIN, STEP),
    at: int = 64,
    runs: Sequence[tuple[int, int, int]] = ((0, 1, 1), (1, 1, 1)),
    **more,
) -> Case:
    """Two constants, of which each EU has a half in memory of its own; w there from `at` on."""

    def run(text: str, tasks: tuple[int, int, int]) -> Run:
        what, name = text.split()
        result = {"v": "y", "w": "z"}[name]
        own = (name, f"{name}.p") if what == "pin" else (f"{name}.p", result)
        return Run(what, text, *tasks, own)

    size = kernels[0].writes[0].bytes
    buffers = [Buffer(n, "constant", i * size, size, key=n) for i, n in enumerate("vw")]
    buffers += [Buffer("v.p", "pinned", 0, size), Buffer("w.p", "pinned", at, size)]
    buffers += [Buffer(n, "output", 0, size, index=i) for i, n in enumerate("yz")]
    queues = tuple(tuple(run(text, tasks) for text in order) for tasks in runs)
    settings = {"pinned": size, **more}
    program = Program("p", 2, tuple(buffers), queues, 0, 2 * size, **settings)
    return lambda: validate([program], kernels=kernels)


def other_box() -> object:
    other = Access((4, 8), 4, (DimAccess(0, 2, 0, 2), DimAccess()))
    return boxes(kernels=(PIN, Kernel("step", (2, 1), (other,), (OWN,), 1.0, pinned=(0,))))()


def no_neighbours() -> object:
    """Every EU has every second task."""
    own = rows((16, 4), (4, 1))
    four = [
        Kernel(n, (4, 1), (own,), (own,), 1.0, pinned=(i,)) for i, n in ((1, "pin"), (0, "step"))
    ]
    return boxes(("pin v", "step v"), four, runs=((0, 2, 2), (1, 2, 2)))()


def not_side_by_side() -> object:
    column = Access((8, 4), 4, (DimAccess(), DimAccess(1, 2, 0, 2)))
    two = [Kernel(n, (1, 2), (column,), (column,), 1.0, pinned=(i,))
           for i, n in ((1, "pin"), (0, "step"))]  # fmt: skip
    return boxes(("pin v", "step v"), two)()


WAITING = [[("-", "f", 1), ("o0", 0, 4), ("+", "e")], [("-", "e", 1), ("o1", 0, 4), ("+", "f")]]


def over(program: Program) -> Program:
    """Its output in the place of its input."""
    buffers = tuple(replace(b, over=0) if b.kind == "output" else b for b in program.buffers)
    return replace(program, buffers=buffers)


STEP_GRAPH = chain([kernel("step", (4, 4), (4, 1), "t", in_place=((0, 0),))], [[-1]])
STEP_OVER = over(hand_made(STEP_GRAPH, [("o0", 0, 4)]))
TWO = chain([K, kernel("tile", (4, 4), (4, 1), "t")], [[-1], [-1]])
PART = chain([kernel("part", (4, 4), (4, 1), "t", in_place=((0, 0),), updates=((0, 0),))], [[-1]])


def with_more(buffer: Buffer) -> Program:
    return replace(STEP_OVER, buffers=(*STEP_OVER.buffers, buffer))


CASES: dict[str, Case] = {
    "validate.validate": uncovered,
    "validate._check_programs": proof(hand_made(GRAPH, [("o0", 0, 4)], []), max_eus=1),
    "validate._check_programs 2": two_arenas,
    "validate._check_programs 3": constants,
    "validate._check_outputs": unwritten_output,
    "validate._check_outputs 2": output_elsewhere,
    "validate._check_overlaps": queued([("o0", 0, 4)], [("o1", 0, 4)]),
    "validate._check_own_writes": own_writes,
    "reuse._check_writes": overwritten([("o0", 0, 1), ("o2", 0, 1)], [("o1", 0, 1)]),
    "reuse._check_read": overwritten(
        [("o0", 0, 1), ("+", "a"), ("o2", 0, 1)], [("-", "a", 1), ("o1", 0, 1)]
    ),
    "reuse._check_between": lambda: two_results(10, 8),
    "reuse._check_tasks": not_in_place,
    "pinned_boxes.check_pinned": no_neighbours,
    "pinned_boxes._Unit.read": other_box,
    "pinned_boxes._Unit.write": boxes(pinned=127),
    "pinned_boxes._Unit.write 2": boxes(at=32),
    "pinned_boxes._pinned": boxes(kernels=(PIN, replace(STEP, pinned=()))),
    "pinned_boxes._pinned 2": boxes(dynamic=True),
    "pinned_boxes._pinned 3": not_side_by_side,
    "order._Execution.execute": queued(*WAITING),
    "order._syncs": lambda: validate([with_runs(O0, "step", O1)], GRAPH),
    "order._syncs 2": queued([("o0", 0, 4), ("+", "a")], [("-", "a", 2), ("o1", 0, 4)]),
    "lines._run_in_order": queued([("o0", 0, 4), "|"], [("o1", 0, 4)], takers=2),
    "lines._run_in_order 2": proof(replace(with_runs(O0, "step", O1), dynamic=True)),
    "lines._run_in_order 3": queued(
        [("-", "a", 1), ("o1", 0, 4)], [("o0", 0, 4), ("+", "a")], takers=2
    ),
    "placement.derive_graph": alone(with_runs(O0), with_buffer("v0", with_runs(O1), offset=64)),
    "placement.derive_graph 2": other_buffers,
    "placement.derive_graph 3": alone(RIGHT, kernels=(ONE,)),
    "placement.place_runs": proof(with_runs(O0, O1, replace(O1, operator="o2"))),
    "placement._operator_runs": proof(with_runs(O0, replace(O1, kernel="other"))),
    "placement._check_tasks": queued([("o0", 0, 5), ("o1", 0, 4)]),
    "placement._check_tasks 2": queued([("o0", 0, 4)] * 3 + [("o1", 0, 4)]),
    "placement._check_tasks 3": queued([("o0", 0, 3), ("o1", 0, 4)]),
    "placement._check_buffers": proof(with_runs(O0, replace(O1, buffers=("v0", "v1", "v1")))),
    "placement._check_buffers 2": proof(with_runs(O0, replace(O1, buffers=("w", "v1")))),
    "placement._check_buffers 3": proof(with_buffer("v0", bytes=60)),
    "placement._check_buffers 4": proof(with_buffer("v0", kind="constant")),
    "placement._check_buffers 5": two_places,
    "placement._check_external": output_further,
    "caller_tensors.check_signature": proof(RIGHT, inputs=[32], outputs=[64]),
    "caller_tensors.check_signature 2": proof(STEP_OVER, STEP_GRAPH, inputs=[128], outputs=[64]),
    "caller_tensors.check_signature 3": proof(RIGHT, inputs=[64], outputs=[128]),
    "states.check_updates": proof(with_more(Buffer("w", "output", 0, 64, 0)), STEP_GRAPH),
    "states.check_updates 2": proof(with_more(Buffer("w", "output", 0, 64, 1, over=0)), STEP_GRAPH),
    "states.check_updates_in_place": proof(hand_made(PART, [("o0", 0, 4)]), PART),
    "reuse._check_last_read": proof(
        over(hand_made(TWO, [("o0", 0, 4), ("o1", 0, 2), ("+", "a")], [("o1", 2, 2)])), TWO
    ),
}


@pytest.mark.parametrize("place", CASES)
def test_the_validator_refuses_at(place):
    with pytest.raises(ScheduleError) as caught:
        CASES[place]()
    assert refused_at(caught.value) == place, str(caught.value)


def test_every_refusal_of_the_validator_has_a_case():
    assert refusals("rcompiler.rammer", MODULES) == set(CASES)
