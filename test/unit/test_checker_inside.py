"""Every place at which the checker refuses a file: a case that ends at that very place.

A refusal that is taken out, or not reached any more, fails the test that has its name. (That whole
rules are needed, which nothing else would refuse, is shown by `test_rules.py`.)
"""

import copy
import sys
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from oracles._corruptions import (
    facts_of,
    launches_of,
    operands_of,
    with_launch,
    with_operands,
)
from rammer_cases import chain, hand_made, kernel, rows
from refusals import refusals, refused_at

from rcompiler.checker import MOST, Facts, Refused, check, order, uses
from rcompiler.checker import facts as checker_facts
from rcompiler.checker import streams as checker_streams
from rcompiler.checker.intervals import meeting
from rcompiler.checker.streams import Instructions
from rcompiler.driver.certified import CheckedLaunch, flat, numbers, resolved, unpacked
from rcompiler.driver.certified import boxes as boxes_of
from rcompiler.rammer.graph import Graph
from rcompiler.rammer.kernel import Access, DimAccess, Kernel
from rcompiler.rammer.placement import derive_graph
from rcompiler.rammer.program import Buffer, Instruction, Program, Run, Signal, Wait
from rcompiler.runtime import tables

check_module = sys.modules["rcompiler.checker.check"]  # the function has its name
MODULES = ("boxes", "check", "facts", "intervals", "order", "streams", "uses", "work")
Case = Callable[[], object]
K = kernel("k", (4, 4), (4, 1), "w")
GRAPH = chain([K, K], [[-1], [0]])
SERIAL = ([("o0", 0, 4), ("+", "e")], [("-", "e", 1), ("o1", 0, 4)])
BARRIER = ([("o0", 0, 4), "|", ("o1", 0, 2)], ["|", ("o1", 2, 2)])
O0, O1 = range(2)  # operators


def facts(*queues: Sequence, graph: Graph = GRAPH, takers: int | None = None) -> Facts:
    return facts_of([hand_made(graph, *(queues or SERIAL), takers=takers)], graph)


def checked(given: Facts, **changes) -> Case:
    return lambda: check(replace(given, **changes))


def launched(given: Facts, number: int = 0, **changes) -> Facts:
    return with_launch(given, number, **changes)


def worded(eu: int, words: dict[int, int], given: Facts | None = None) -> Facts:
    """Some words of a stream are others."""
    given = given or facts()
    all_streams = [stream.copy() for stream in launches_of(given)[0].streams]
    all_streams[eu][[*words]] = [*words.values()]
    return launched(given, streams=all_streams)


def fewer_operands() -> object:
    """A run has an operand less than its operator."""
    first, *others = launches_of(facts())[0].streams
    run = np.concatenate([first[:5], [first[5] - 1], first[6:8], first[10:]])
    return check(launched(facts(), streams=[run, *others]))


def noted(operator: int, operand: int, field: int, by: int, given: Facts | None = None) -> Facts:
    """A number in the note of an operand is so much more."""
    given = given or facts()
    operands = [[*own] for own in operands_of(given)]
    own = [*operands[operator][operand]]
    own[field] += by
    operands[operator][operand] = tuple(own)
    return with_operands(given, operands)


def boxed(change: Callable[[list], None]) -> Case:
    """The notes of the kernel are others."""
    given = facts()
    boxes = copy.deepcopy(given.boxes)
    change(boxes[0])
    return checked(given, boxes=boxes)


def on(operator: int, *operands: tuple[int, int, int], given: Facts | None = None) -> Facts:
    """An operator is on other operands, in notes and streams."""
    given = given or facts()
    run = [1, 0, 0, 4, 1, len(operands), *(word for _, *place in operands for word in place)]
    all_streams = [*launches_of(given)[0].streams]
    all_streams[operator] = np.array([*run, 3, 0, 0] if operator == O0 else [2, 0, 1, *run, 0])
    notes = operands_of(given)
    notes[operator] = [*operands]
    return launched(with_operands(given, notes), streams=all_streams)


def certified(given: Facts, table: Sequence[Sequence[int]]) -> Case:
    """table: of each segment its turn, and the clock of each line."""
    return checked(given, clocks=np.array(table, np.int32))


def two_kernels() -> object:
    """A run of one of them is of the other, with the same operands and boxes."""
    other = kernel("other", (4, 4), (4, 1), "t")
    graph = chain([K, other], [[-1], [0]])
    return check(worded(0, {11: 1}, facts([("o0", 0, 2), ("o0", 2, 2), ("o1", 0, 4)], graph=graph)))


def uncovered() -> object:
    half = Access((4,), 4, (DimAccess(0, 1, 0, 1),))
    graph = chain([Kernel("k", (2,), (Access.whole((4,), 4),), (half,), 1.0)], [[-1]])
    return check(facts([("o0", 0, 2)], graph=graph))


def many_tasks() -> object:
    """Too many cells."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rcompiler.checker.facts.MOST_AT_ONCE", 3)
        return check(facts())


def many_dims() -> object:
    """Few numbers in the notes, of which many would be made."""
    given, tasks, dims = facts(), 1 << 22, 20
    access = [np.array([1] * dims), 4, np.array([[-1, 0, 0, 1]] * dims)]
    more = [np.array([tasks]), [access], [], []]
    sizes = [*given.sizes, (tasks, [4], 0, (0,))]
    return check(replace(given, boxes=[*given.boxes, more], sizes=sizes))


def many_launches() -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(order, "_MOST", 0)
        return check(facts())


def many_memories() -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(uses, "_MOST_MEMORIES", 4)
        return check(facts())


def taken_over() -> object:
    """o1 writes over v0, which o2 reads later."""
    k = kernel("k", (4, 4), (4, 1), "w")
    graph = chain([k, k, k], [[-1], [-1], [0]])
    program = hand_made(graph, [("o0", 0, 4), ("o1", 0, 4), ("o2", 0, 4)])
    buffers = tuple(replace(b, offset=0) for b in program.buffers)
    return check(facts_of([replace(program, buffers=buffers)], graph))


def in_turns() -> object:
    """Both tasks write all of one value, and between them one writes another value there."""
    whole = Access.whole((4,), 4)
    k = Kernel("k", (2,), (whole,), (whole,), 1.0)
    graph = chain([k, k, k], [[-1], [-1], [0]])
    steps = [("o0", 0, 1), ("+", "a"), ("-", "b", 1), ("o0", 1, 1), ("o2", 0, 2)]
    other = [("-", "a", 1), ("o1", 0, 2), ("+", "b")]
    program = hand_made(graph, steps, other)
    buffers = tuple(replace(b, offset=0) for b in program.buffers)
    return check(facts_of([replace(program, buffers=buffers)], graph))


def constants() -> object:
    """Both operators read constants, of which one begins in the other one."""
    given = replace(facts(), constants=128)
    _, written = operands_of(given)[O0]
    given = on(O0, (7, 1, 0), written, given=given)
    return check(on(O1, (8, 1, 32), operands_of(given)[O1][1], given=given))


def late_barrier() -> object:
    """EU 1 has no barrier."""
    given = facts(*BARRIER)
    one, two = launches_of(given)[0].streams
    short = launched(given, streams=[one, two[1:]])
    return certified(short, [[0, 0, 0], [1, 1, 0], [0, 0, 0]])()


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


def pinned_again(operator: str, by: int) -> Facts:
    """The notes say something else of the pinned operand of an operator."""
    given = pinned()
    return noted(given.names.index(operator), int(operator[:3] == "pin"), 0, by, given)


def other_eu() -> object:
    """Each EU knows the box of the other one, which is not in its memory."""
    queues = [
        (run("pin v", 0), Signal("a"), Wait("b", 1), run("step v", 1)),
        (run("pin v", 1), Signal("b"), Wait("a", 1), run("step v", 0)),
    ]
    given = pinned(*queues)
    return check(replace(given, outputs=given.outputs[:1]))


def not_side_by_side() -> object:
    column = Access((8, 4), 4, (DimAccess(), DimAccess(1, 2, 0, 2)))
    two = [Kernel(n, (1, 2), (column,), (column,), 1.0, pinned=(i,))
           for i, n in ((1, "pin"), (0, "step"))]  # fmt: skip
    return check(pinned(kernels=two))


# -- streams ------------------------------------------------------------------------------------
def _steps(*words: np.ndarray) -> Instructions:
    given = flat([CheckedLaunch(words, [[]] * len(words), range(len(words)), False)])
    return Instructions(replace(facts(), **given))


def stream(*words: int) -> Case:
    return lambda: _steps(np.array(words))


def long_streams(*words: int) -> Case:
    def case() -> object:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(checker_facts, "MOST_AT_ONCE", 20)
            patch.setattr(checker_streams, "MOST_AT_ONCE", 20)
            return stream(*words)()

    return case


def two_streams() -> object:
    words = [np.array([3, 0, 0]), np.array([3, 0, 5, 2, 5, 0, 0, 0])]
    return _steps(*words)


LATE = ([("-", "e", 1), ("o1", 0, 4)], [("o0", 0, 4), ("+", "e")])
HALVES = ([("o0", 0, 4), ("+", "e")], [("-", "e", 1), ("o1", 0, 2), ("-", "e", 1), ("o1", 2, 2)])
[[INPUT, V0], [_, V1]] = operands_of(facts())
UPDATE = kernel("u", (4, 4), (4, 1), "t", in_place=((0, 0),), updates=((0, 0),))
UPDATING = chain([K, UPDATE], [[-1], [0]])
CASES: dict[str, Case] = {
    "boxes.Access.__init__": boxed(lambda own: own[1][0][2][0].__setitem__(0, 7)),
    "boxes.Access.__init__ 2": boxed(lambda own: own[2][0][2][0].__setitem__(1, 1 << 45)),
    "boxes.KernelOperands.__init__": checked(facts(), sizes=[(4, [64, 68], 1, ())]),
    "boxes.KernelOperands.__init__ 2": uncovered,
    "intervals.neighbours": in_turns,
    "intervals.neighbours 2": checked(noted(O1, 0, 0, 7)),
    "uses.Uses.__init__ 6": checked(on(O0, INPUT, INPUT)),
    "uses.Uses.__init__ 8": constants,
    "check._complete": checked(facts(), outputs=[128]),
    "check._pairs": checked(on(O1, V0, V0), outputs=[]),
    "check._late": checked(pinned(at=32)),
    "check._byte_by_byte": checked(facts([("o0", 0, 4)], [("o1", 0, 4)])),
    "facts.spans": many_tasks,
    "order.Order.__init__": checked(facts(), clocks=facts().clocks[:, :2]),
    "order.Order._stand_in_lines": checked(launched(facts(*SERIAL, takers=2), lines=[7, 0])),
    "order.Order._stand_in_lines 2": many_launches,
    "order.Order._number_events": checked(worded(1, {2: 5})),
    "order.Order._check_turns": certified(facts(), [[0, 0, 0], [0, 0, 0]]),
    "order.Order._check_turns 2": certified(facts(*HALVES), [[0, 0, 0], [1, 0, 0], [1, 0, 0]]),
    "order.Order._check_clocks 2": certified(
        launched(facts([("o0", 0, 4)], [("o1", 0, 4)], takers=2), lines=[0, 0]), [[0, 0], [1, 0]]
    ),
    "order.Order._check_clocks": certified(
        facts([("o0", 0, 4)], [("o1", 0, 4)]), [[0, 0, 0], [0, 1, 0]]
    ),
    "streams.Instructions.__init__": stream(3, 1 << 50, 0),
    "streams.Instructions.__init__ 2": stream(0, 0),
    "streams.Instructions.__init__ 3": stream(3, -1, 0),
    "streams._instructions": stream(9),
    "streams._unrolled 4": long_streams(3, 0, 5, 9, 2, 0, 0, 0),
    "streams._unrolled": stream(3, 0, 5, 1, 2, 0, 0, 0),
    "streams._unrolled 2": stream(3, 0, 5, 2, 2, 0, 1, 0, 1, 0),
    "streams._unrolled 3": stream(3, 0, 3, 0, 5, 2, 4, 0, 0, 5, 2, 7, 0, 0, 0),
    "uses.Uses.__init__": checked(facts(), sizes=[(4, [64, 16], 1, (1,))]),
    "uses.Uses.__init__ 2": many_memories,
    "uses.Uses.__init__ 3": checked(on(O0, (0, 9, 0), V0)),
    "uses.Uses.__init__ 4": checked(on(O0, INPUT, (1, 0, -64))),
    "uses.Uses.__init__ 5": checked(facts(), arena=32),
    "uses.Uses.__init__ 7": checked(facts(graph=UPDATING), updates=[]),
    "uses._updated": checked(facts(), updates=[(0, 1)]),
    "uses.Uses._pin": not_side_by_side,
    "uses.Uses._pin 2": certified(pinned(dynamic=True), [[0, 0, 0], [1, 0, 0]]),
    "uses.Uses._pin 3": checked(pinned(room=127)),
    "work.Work._name_runs": checked(launched(facts(), operators=[[O0, O0], [O1]])),
    "work.Work._name_runs 2": checked(launched(facts(), operators=[[9], [O1]])),
    "work.Work._name_runs 3": checked(facts(), kernels=np.array([0, 9])),
    "work.Work._name_runs 4": two_kernels,
    "work.Work._name_runs 5": checked(on(O0, INPUT, V0, V0)),
    "work.Work._name_runs 6": checked(noted(O1, 0, 0, 1 << 40)),
    "work.Work._name_runs 7": fewer_operands,
    "work.Work._name_runs 8": checked(worded(0, {9: 64})),
    "work.Work._number_tasks": checked(worded(0, {3: 5})),
    "work.Work._number_tasks 2": checked(facts([("o0", 0, 4), ("o0", 1, 1), ("o1", 0, 4)])),
}
MORE: dict[str, tuple[Case, str]] = {
    "elements of no bytes": (boxed(lambda own: own[1][0].__setitem__(1, 0)), "notes"),
    "a dim too few": (boxed(lambda own: own[1][0].__setitem__(2, own[1][0][2][1:])), "notes"),
    "a negative extent": (boxed(lambda own: own[1][0][0].__setitem__(0, -4)), "notes"),
    "taken over": (taken_over, "clobber"),
    "state of two sizes": (checked(facts(), outputs=[128], updates=[(0, 0)]), "notes"),
    "two states in one place": (checked(facts(), updates=[(0, 0), (0, 0)]), "notes"),
    "state that is written before it is read": (
        checked(facts(graph=chain([K, K, K], [[-1], [0], [-1]])), updates=[(0, 0)]),
        "task",
    ),
    "too many dims for the tasks": (many_dims, "notes"),
    "a kernel that is none": (checked(worded(0, {1: 9})), "notes"),
    "an operator that does not run": (
        checked(
            with_operands(facts(), [*operands_of(facts()), [INPUT, INPUT]]),
            kernels=np.zeros(3, int),
        ),
        "task",
    ),
    "another size": (checked(on(O0, INPUT, (V0[0], 0, 4)), arena=128), "task"),
    "box of the other EU": (other_eu, "task"),
    "box before it is there": (
        checked(pinned(*[[run(text, eu) for text in BOTH[::-1]] for eu in range(2)])),
        "race",
    ),
    "memory of an EU that is too large": (checked(pinned(room=1 << 33)), "buffer"),
    "box of another value": (checked(pinned_again("step v", 100)), "task"),
    "barrier that one EU has not": (late_barrier, "deadlock"),
    "barrier of queues": (checked(launched(facts(*BARRIER), dynamic=True)), "deadlock"),
    "queue that waits for a later one": (checked(launched(facts(*LATE), dynamic=True)), "deadlock"),
    "streams that are too long": (long_streams(3, 0, 3, 0, 3, 0, 3, 0, 3, 0, 0), "notes"),
    "loops of many turns": (long_streams(3, 0, 3, 0, 5, 11, 4, 0, 0, 0), "notes"),
    "too many turns": (stream(3, 0, 5, 1 << 40, 2, 0, 0, 0), "stream"),
    "body that begins with its loop": (stream(3, 0, 5, 2, 0, 0, 0, 0), "stream"),
    "body in the stream before": (two_streams, "stream"),
    "body before the first word": (stream(3, 1, 5, 3, 4, 0, 0, 0), "stream"),
    "loop about a loop's end": (stream(3, 0, 5, 2, 2, 0, 0, 5, 2, 5, 0, 0, 0), "stream"),
    "step that grows too far": (stream(3, 0, 5, 1 << 10, 2, 0, 1, 1, 1 << 40, 0), "stream"),
    "step behind the body": (stream(3, 0, 5, 2, 2, 0, 1, 2, 1, 0), "stream"),
    "two steps of one word": (stream(3, 0, 5, 2, 2, 0, 2, 1, 1, 1, 1, 0), "stream"),
    "step too far": (stream(3, 0, 5, 2, 2, 0, 1, 1, 1 << 50, 0), "stream"),
    "event of the next program": (
        stream(3, MOST - 1, 5, 4, 2, 0, 1, 1, MOST // 4, 5, 4, 9, 0, 1, 1, MOST // 4, 0),
        "stream",
    ),
    "no end": (stream(3, 0), "stream"),
    "no operands": (stream(1, 0, 0, 1, 1, -1, 0), "stream"),
}


@pytest.mark.parametrize("place", CASES)
def test_the_checker_refuses_at(place):
    with pytest.raises(Refused) as caught:
        CASES[place]()
    assert refused_at(caught.value) == place, str(caught.value)


@pytest.mark.parametrize("name", MORE)
def test_the_checker_refuses(name):
    case, rule = MORE[name]
    with pytest.raises(Refused) as caught:
        case()
    assert caught.value.rule == rule, str(caught.value)


def test_kernels_without_boxes_are_none():
    with pytest.raises(ValueError, match="longer than"):
        check(replace(facts(), sizes=[*facts().sizes] * 2))


def test_many_rows_are_compared_in_parts(monkeypatch):
    """Each half of `o1` waits for its half of `o0`, by columns: of many rows, and of two kinds."""
    half = Access((64, 2), 4, (DimAccess(), DimAccess(0, 1, 0, 1)))
    both = [Kernel(name, (2,), (half,), (half,), 1.0) for name in ("copy", "other")]
    graph = chain([both[0], both[0], both[1]], [[-1], [0], [1]])
    one = [("o0", 0, 1), ("+", "a"), ("o0", 1, 1), ("+", "b"), ("-", "d", 1), ("o2", 0, 1)]
    two = [("-", "a", 1), ("o1", 0, 1), ("+", "d"), ("-", "b", 1), ("o1", 1, 1), ("o2", 1, 1)]
    given = facts(one, two, graph=graph)
    parts = []
    monkeypatch.setattr(check_module, "_ROWS", 1)
    monkeypatch.setattr(check_module, "meeting", lambda a, b: parts.append(len(a)) or meeting(a, b))
    check(given)
    assert parts == [128, 128]


@pytest.mark.parametrize("number", ["0", 0.0, True, None, -1 << 50, 1 << 50])
def test_what_is_no_number(number):
    with pytest.raises(Refused, match="a number is none"):
        numbers([1, number])
    notes = {"kernels": [[[4], [[[4], 4, [[0, 1, 0, 1]]]], [[[4], 4, [[0, 1, 0, 1]]]], [[0, 0]]]]}
    assert boxes_of(notes)
    for change in (
        lambda own: own[0].__setitem__(0, number),
        lambda own: own[1][0][0].__setitem__(0, number),
        lambda own: own[1][0].__setitem__(1, number),
        lambda own: own[2][0][2][0].__setitem__(3, number),
    ):
        other = copy.deepcopy(notes)
        change(other["kernels"][0])
        with pytest.raises(Refused, match="a number is none"):
            boxes_of(other)


@pytest.mark.parametrize("number", ["0", 0.0, True, None, -1 << 50])
def test_a_buffer_that_lies_at_no_number(number):
    buffers = [["b"], [tables.BUFFER_KINDS.index("temp")], [0], [4], [0], [""], [0], [0]]
    notes = {"buffers": buffers, "programs": [{"operators": {"o": [3, [0]]}}]}
    names, found = resolved(notes, 0)
    assert names == {"o": 0} and found["names"] == ["o"] and found["kernels"].tolist() == [3]
    assert found["uses"].tolist() == [1] and found["operands"].tolist() == [[0, 0, 0]]
    notes["buffers"][2][0] = number
    with pytest.raises(Refused, match="a number is none"):
        resolved(notes, 0)


@pytest.mark.parametrize(("read", "result"), [(True, 0), (0, None), ("0", 0)])
def test_what_is_in_place_has_numbers(read, result):
    with pytest.raises(TypeError):
        boxes_of({"kernels": [[[], [], [], [[read, result]]]]})


def test_queues_may_stand_in_no_line():
    assert unpacked(b"\2" + zlib.compress(b""), [[-2]]).shape == (0, 1)


def test_every_refusal_of_the_checker_has_a_case():
    assert refusals("rcompiler.checker", MODULES) == set(CASES)


def test_the_cases_are_right_but_for_what_they_change():
    for given in (facts(), facts(*BARRIER), facts(*HALVES), facts(*SERIAL, takers=2), pinned()):
        check(given)


def test_tasks_that_write_common_elements_need_an_order():
    """Each writes three of four elements: one after the other, or at the same time."""
    three = Access((4,), 4, (DimAccess(0, 1, 0, 3),))
    graph = chain([Kernel("k", (2,), (Access.whole((4,), 4),), (three,), 1.0)], [[-1]])
    check(facts([("o0", 0, 2)], graph=graph))
    with pytest.raises(Refused, match="'o0' may touch bytes while operator 'o0' needs them"):
        check(facts([("o0", 0, 1)], [("o0", 1, 1)], graph=graph))
