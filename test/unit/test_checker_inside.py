"""Every place at which the checker refuses a file: a case that ends at that very place.

A refusal that is taken out, or not reached any more, fails the test that has its name. (That whole
rules are needed, which nothing else would refuse, is shown by `test_rules.py`.)
"""

import copy
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from rammer_cases import chain, hand_made, kernel, rows
from refusals import refusals, refused_at

from rcompiler.checker import Facts, Refused, check, memory, streams
from rcompiler.checker.streams import Steps
from rcompiler.rammer.graph import Graph
from rcompiler.rammer.kernel import Access, DimAccess, Kernel
from rcompiler.rammer.placement import derive_graph
from rcompiler.rammer.program import Buffer, Instruction, Program, Run, Signal, Wait
from rcompiler.tools._corruptions import facts_of

MODULES = ("boxes", "check", "facts", "memory", "order", "pinned", "reuse", "streams")
Case = Callable[[], object]
K = kernel("k", (4, 4), (4, 1), "w")
GRAPH = chain([K, K], [[-1], [0]])
SERIAL = ([("o0", 0, 4), ("+", "e")], [("-", "e", 1), ("o1", 0, 4)])
BARRIER = ([("o0", 0, 4), "|", ("o1", 0, 2)], ["|", ("o1", 2, 2)])
X, V0, V1 = range(3)  # buffers


def facts(*queues: Sequence, graph: Graph = GRAPH, takers: int | None = None) -> Facts:
    return facts_of([hand_made(graph, *(queues or SERIAL), takers=takers)], graph)


def checked(given: Facts, **changes) -> Case:
    return lambda: check(replace(given, **changes))


def launched(given: Facts, number: int = 0, **changes) -> Facts:
    launches = [*given.launches]
    launches[number] = replace(launches[number], **changes)
    return replace(given, launches=launches)


def worded(eu: int, words: dict[int, int], given: Facts | None = None) -> Facts:
    """Some words of a stream are others."""
    given = given or facts()
    all_streams = [stream.copy() for stream in given.launches[0].streams]
    all_streams[eu][[*words]] = [*words.values()]
    return launched(given, streams=all_streams)


def noted(number: int, field: int, value: object, given: Facts | None = None) -> Facts:
    """A field of the note of a buffer."""
    given = given or facts()
    buffers = [[*b] for b in given.buffers]
    buffers[number][field] = value
    return replace(given, buffers=buffers)


def boxed(change: Callable[[list], None]) -> Case:
    """The notes of the kernel are others."""
    given = facts()
    boxes = copy.deepcopy(given.boxes)
    change(boxes[0])
    return checked(given, boxes=boxes)


def on(operator: str, *buffers: int) -> Facts:
    """An operator is on other buffers, in notes and streams."""
    given = facts()
    eu = int(operator[1])
    base = {"temp": 0, "constant": 1, "input": 2, "output": 3}
    pairs = [word for b in buffers for word in (base[given.buffers[b][1]], given.buffers[b][2])]
    run = [1, 0, 0, 4, 1, len(buffers), *pairs]
    stream = [*run, 3, 0, 0] if eu == 0 else [2, 0, 1, *run, 0]
    all_streams = [*given.launches[0].streams]
    all_streams[eu] = np.array(stream)
    operands = {**given.launches[0].operands, operator: [*buffers]}
    return launched(given, streams=all_streams, operands=operands)


def certified(given: Facts, table: Sequence[Sequence[int]]) -> Case:
    """table: of each segment its turn, and the clock of each line."""
    steps = np.diff(np.array(table).T.astype("<i4"), axis=1, prepend=np.int32(0)).astype("<i4")
    return checked(given, clocks=zlib.compress(steps.tobytes()))


def other_programs() -> object:
    """The second program has the operator of the first, on other buffers."""
    programs = [hand_made(GRAPH, [("o0", 0, 4)]), hand_made(GRAPH, [("o1", 0, 4)])]
    given = facts_of(programs, GRAPH)
    operands = {**given.launches[1].operands, "o0": [X, V1]}
    return check(launched(given, 1, operands=operands))


def two_kernels() -> object:
    other = kernel("other", (4, 4), (4, 1), "t")
    graph = chain([K, other], [[-1], [0]])
    return check(worded(0, {11: 1}, facts([("o0", 0, 2), ("o0", 2, 2), ("o1", 0, 4)], graph=graph)))


def uncovered() -> object:
    half = Access((4,), 4, (DimAccess(0, 1, 0, 1),))
    graph = chain([Kernel("k", (2,), (Access.whole((4,), 4),), (half,), 1.0)], [[-1]])
    return check(facts([("o0", 0, 2)], graph=graph))


def many_tasks() -> object:
    whole = Access.whole((4,), 4)
    graph = chain([Kernel("k", (1 << 26,), (whole,), (whole,), 1.0)], [[-1]])
    return check(facts([("o0", 0, 1 << 26)], graph=graph))


def many_runs() -> object:
    given = facts([("o0", 0, 2), ("o0", 2, 2)], [("o1", 0, 2), ("o1", 2, 2)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory, "_MOST_PAIRS", 3)
        return check(given)


def taken_over() -> object:
    """o1 writes over v0, which o2 reads later."""
    k = kernel("k", (4, 4), (4, 1), "w")
    graph = chain([k, k, k], [[-1], [-1], [0]])
    program = hand_made(graph, [("o0", 0, 4), ("o1", 0, 4), ("o2", 0, 4)])
    buffers = tuple(replace(b, offset=0) for b in program.buffers)
    return check(facts_of([replace(program, buffers=buffers)], graph))


def unwritten() -> object:
    """o1 reads what nobody writes."""
    given = facts()
    buffers = [*given.buffers, ["u", "temp", 1024, 64, -1, None, ""]]
    words = {3 + 7: 1024}
    moved = worded(1, words, replace(given, buffers=buffers, arena=4096))
    operands = {**moved.launches[0].operands, "o1": [3, V1]}
    return check(launched(moved, operands=operands))


def views_in_a_ring() -> object:
    given = noted(V0, 5, "twin")
    twin = ["twin", *given.buffers[V0][1:5], "v0", ""]
    return check(replace(given, buffers=[*given.buffers, twin]))


def constants() -> object:
    two = [["c", "constant", 0, 64, -1, None, "a"], ["d", "constant", 32, 64, -1, None, "b"]]
    given = facts()
    return check(replace(given, buffers=[*given.buffers, *two], constants=128))


def late_barrier() -> object:
    """EU 1 has no barrier."""
    given = facts(*BARRIER)
    one, two = given.launches[0].streams
    short = launched(given, streams=[one, two[1:]])
    return certified(short, [[0, 0, 0], [1, 1, 0], [2, 0, 0]])()


def turns_at_barrier() -> object:
    return certified(facts(*BARRIER), [[0, 0, 0], [1, 2, 0], [5, 1, 1]])()


def many_clocks() -> object:
    streams_of_all = [np.array([3, 0, 0])] * 9000
    return check(launched(facts(), streams=streams_of_all, operators=[[]] * 9000))


# -- memory of the EUs --------------------------------------------------------------------------
OWN = rows((8, 4), (2, 1))
PIN = Kernel("pin", (2, 1), (OWN,), (OWN,), 1.0, pinned=(1,))
STEP = Kernel("step", (2, 1), (OWN,), (OWN,), 1.0, pinned=(0,))
BOTH = ("pin v", "pin w", "step v", "step w")


def run(text: str, task: int) -> Run:
    what, name = text.split()
    own = (name, f"{name}.p") if what == "pin" else (f"{name}.p", {"v": "y", "w": "z"}[name])
    return Run(what, text, task, 1, 1, own)


def pinned(
    *queues: Sequence[Instruction],
    kernels: Sequence[Kernel] = (PIN, STEP),
    at: int = 64,
    room: int = 128,
    **more,
) -> Facts:
    """Two constants, of which each EU has a half in memory of its own; w there from `at` on."""
    size = kernels[0].writes[0].bytes
    buffers = [Buffer(n, "constant", i * size, size, key=n) for i, n in enumerate("vw")]
    buffers += [Buffer("v.p", "pinned", 0, size), Buffer("w.p", "pinned", at, size)]
    buffers += [Buffer(n, "output", 0, size, index=i) for i, n in enumerate("yz")]
    queues = queues or tuple([run(text, eu) for text in BOTH] for eu in range(2))
    program = Program("p", 2, tuple(buffers), tuple(map(tuple, queues)), 0, 2 * size, pinned=room)
    graph = derive_graph([program], kernels)
    return launched(replace(facts_of([program], graph), pinned=room), **more)


def other_eu() -> object:
    """Each EU knows the box of the other one, which is not in its memory."""
    queues = [
        (run("pin v", 0), Signal("a"), Wait("b", 1), run("step v", 1)),
        (run("pin v", 1), Signal("b"), Wait("a", 1), run("step v", 0)),
    ]
    given = pinned(*queues)
    return check(replace(given, outputs=given.outputs[:1], buffers=given.buffers[:5]))


def not_side_by_side() -> object:
    column = Access((8, 4), 4, (DimAccess(), DimAccess(1, 2, 0, 2)))
    two = [Kernel(n, (1, 2), (column,), (column,), 1.0, pinned=(i,))
           for i, n in ((1, "pin"), (0, "step"))]  # fmt: skip
    return check(pinned(kernels=two))


# -- streams ------------------------------------------------------------------------------------
def stream(*words: int) -> Case:
    return lambda: Steps([np.array(words)])


def long_streams() -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streams, "_MOST_WORDS", 20)
        return Steps([np.array([3, 0, 3, 0, 3, 0, 3, 0, 0])] * 3)


LATE = ([("-", "e", 1), ("o1", 0, 4)], [("o0", 0, 4), ("+", "e")])
HALVES = ([("o0", 0, 4), ("+", "e")], [("-", "e", 1), ("o1", 0, 2), ("-", "e", 1), ("o1", 2, 2)])
CASES: dict[str, Case] = {
    "boxes.Access.__init__": boxed(lambda own: own[1][0][2][0].__setitem__(0, 7)),
    "boxes.Access.__init__ 2": boxed(lambda own: own[1][0].__setitem__(1, 0)),
    "check.Check._kernels": checked(facts(), sizes=[*facts().sizes] * 2),
    "check.Check._kernels 2": checked(facts(), sizes=[(4, [64, 68], 1, ())]),
    "check.Check._kernels 3": uncovered,
    "check.Check._kernels 4": boxed(lambda own: own[3].append([5, 0])),
    "check.Check._buffers": checked(noted(V0, 0, "x")),
    "check.Check._buffers 2": checked(noted(V0, 3, -1)),
    "check.Check._buffers 3": checked(facts(), arena=32),
    "check.Check._buffers 4": checked(noted(V0, 5, "nobody")),
    "check.Check._buffers 5": checked(noted(V0, 5, "x")),
    "check.Check._buffers 6": views_in_a_ring,
    "check.Check._constants": constants,
    "check.Check._runs": other_programs,
    "check.Check._runs 2": checked(
        launched(facts(), operands={"o0": [X, V0], "o1": [V0, 99]}),
    ),
    "check.Check._runs 3": checked(launched(facts(), operators=[["o0", "o0"], ["o1"]])),
    "check.Check._runs 4": checked(launched(facts(), operators=[["nobody"], ["o1"]])),
    "check.Check._runs 5": checked(worded(0, {1: 9})),
    "check.Check._runs 6": checked(
        launched(facts(), operands={**facts().launches[0].operands, "idle": [X]})
    ),
    "check.Check._runs 7": two_kernels,
    "check.Check._tasks": checked(worded(0, {3: 5})),
    "check.Check._tasks 2": checked(facts([("o0", 0, 4), ("o0", 1, 1), ("o1", 0, 4)])),
    "check.Check._operands": checked(
        launched(on("o0", X, V0, V0), operands=facts().launches[0].operands)
    ),
    "check.Check._operands 2": checked(worded(0, {9: 64})),
    "check.Check._values": checked(on("o0", X, V0, V0)),
    "check.Check._values 2": checked(noted(V0, 3, 60)),
    "check.Check._values 3": checked(on("o0", X, X)),
    "check.Check._values 4": checked(on("o1", V0, V0)),
    "check.Check._values 5": unwritten,
    "check.Check._complete": checked(facts(), outputs=[128]),
    "facts.wholes": checked(noted(V0, 2, 1 << 50)),
    "facts.whole": boxed(lambda own: own[0].__setitem__(0, "4")),
    "facts.ramp": many_tasks,
    "memory.Uses.clashes": many_runs,
    "memory.Uses.check": checked(facts([("o0", 0, 4)], [("o1", 0, 4)])),
    "order.Order._threads": checked(launched(facts(*SERIAL, takers=2), lines=[7, 0])),
    "order.Order._check_turns": certified(facts(*HALVES), [[0, 0, 0], [1, 0, 0], [1, 0, 0]]),
    "order.Order._check_turns 2": checked(worded(1, {2: 5})),
    "order.Order._check_turns 3": certified(facts(), [[0, 0, 0], [0, 0, 0]]),
    "order.Order._check_turns 4": checked(launched(facts(*BARRIER), taken_by=2, lines=[0, 1])),
    "order.Order._check_turns 5": checked(launched(facts(*LATE), taken_by=2, lines=[0, 1])),
    "order.Order._check_clocks": certified(
        facts([("o0", 0, 4)], [("o1", 0, 4)]), [[0, 0, 0], [0, 1, 0]]
    ),
    "order.Order._check_clocks 2": certified(
        launched(facts([("o0", 0, 4)], [("o1", 0, 4)], takers=2), lines=[0, 0]), [[0, 0], [1, 0]]
    ),
    "order.Order._meet": late_barrier,
    "order.Order._meet 2": turns_at_barrier,
    "order._certificate": many_clocks,
    "order._certificate 2": checked(facts(), clocks=b"nothing"),
    "order._certificate 3": checked(facts(), clocks=zlib.compress(b"")),
    "pinned.check_pinned": checked(facts(), sizes=[(*facts().sizes[0][:3], (0,))]),
    "pinned.check_pinned 2": not_side_by_side,
    "pinned.check_pinned 3": checked(pinned(taken_by=2, lines=[0, 1])),
    "pinned.check_pinned 4": checked(pinned(room=127)),
    "pinned.check_pinned 5": checked(pinned(at=32)),
    "pinned.check_pinned 6": other_eu,
    "reuse._byte_by_byte": taken_over,
    "streams.Steps.__init__": long_streams,
    "streams._unrolled": stream(9),
    "streams._unrolled 2": stream(0, 0),
    "streams._without_loops": stream(3, 0, 5, 1, 2, 0, 0, 0),
    "streams._without_loops 2": stream(3, 0, 5, 2, 2, 0, 1, 0, 1, 0),
    "streams._without_loops 3": stream(3, 0, 5, 2, 2, 0, 1, 1, 1 << 50, 0),
    "streams._without_loops 4": stream(3, 0, 3, 0, 5, 2, 4, 0, 0, 5, 2, 7, 0, 0, 0),
    "streams._without_loops 5": stream(3, 0, 5, 1 << 40, 2, 0, 0, 0),
}  # fmt: skip


@pytest.mark.parametrize("place", CASES)
def test_the_checker_refuses_at(place):
    with pytest.raises(Refused) as caught:
        CASES[place]()
    assert refused_at(caught.value) == place, str(caught.value)


@pytest.mark.parametrize("number", ["0", 0.0, True, None, -1 << 50])
def test_what_is_no_number(number):
    with pytest.raises(Refused):
        check(noted(V0, 2, number))


def test_every_refusal_of_the_checker_has_a_case():
    assert refusals("rcompiler.checker", MODULES) == set(CASES)


def test_the_cases_are_right_but_for_what_they_change():
    for given in (facts(), facts(*BARRIER), facts(*HALVES), facts(*SERIAL, takers=2), pinned()):
        check(given)
