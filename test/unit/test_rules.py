"""Every rule of the validator and of the checker is needed: a case that only this rule refuses.

Each case is refused, with its law; with its rule disabled it is let through, so that a rule that is
lost, or sees nothing any more, fails the test that has its name.
"""

import sys
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
from rammer_cases import chain, hand_made, kernel

from rcompiler.checker import Refused, check
from rcompiler.checker import order as checker_order
from rcompiler.errors import ScheduleError
from rcompiler.rammer import caller_tensors, placement, reuse, validate
from rcompiler.rammer.encode import encode
from rcompiler.rammer.graph import Graph, Value
from rcompiler.rammer.kernel import Access, DimAccess, Kernel
from rcompiler.rammer.program import Buffer

checker = sys.modules["rcompiler.checker.check"]  # the function has the name of its module
SERIAL = [[("o0", 0, 4), ("+", "e")], [("-", "e", 1), ("o1", 0, 4)]]


def two_steps() -> Graph:
    k = kernel("k", (4, 4), (4, 1), "w")
    return chain([k, k], [[-1], [0]])


def three_steps() -> Graph:
    k = kernel("k", (4, 4), (4, 1), "t")
    return chain([k, k, k], [[-1], [0], [1]])


def overlapping_writes() -> Graph:
    """Both tasks of the operator write all of its result."""
    whole = Access.whole((4,), 4)
    k = Kernel("k", (2,), (whole,), (whole,), 1.0)
    return chain([k], [[-1]])


def moved(program, **offsets):
    buffers = tuple(replace(b, offset=offsets.get(b.name, b.offset)) for b in program.buffers)
    return replace(program, buffers=buffers, arena=4096)


def case(name: str):
    """(programs, graph) of a schedule that breaks one law."""
    graph = two_steps()
    if name == "own-writes":
        graph = overlapping_writes()
        return [hand_made(graph, [("o0", 0, 1)], [("o0", 1, 1)])], graph
    if name == "reads":
        return [hand_made(graph, [("o0", 0, 4)], [("o1", 0, 4)])], graph
    if name == "tasks":
        return [hand_made(graph, [("o0", 0, 4), ("o0", 1, 1), ("o1", 0, 4)])], graph
    if name == "reuse":
        graph = three_steps()
        run = [("o0", 0, 4), ("+", "a"), ("-", "b", 1), ("o2", 0, 4)]
        other = [("-", "a", 1), ("o1", 0, 4), ("+", "b")]
        return [moved(hand_made(graph, run, other), v0=0, v1=0)], graph
    if name == "uncovered":
        half = Access((4,), 4, (DimAccess(0, 1, 0, 1),))
        k = Kernel("k", (2,), (Access.whole((4,), 4),), (half,), 1.0)
        graph = chain([k], [[-1]])
        return [hand_made(graph, [("o0", 0, 2)])], graph
    if name in ("last-value", "updates", "one-place"):
        more = {"in_place": ((0, 0),), "updates": ((0, 0),)} if name == "one-place" else {}
        graph = chain([kernel("k", (4, 4), (4, 1), "t", **more)], [[-1]])
        program = hand_made(graph, [("o0", 0, 4)])
        over = tuple(replace(b, over=0) if b.kind == "output" else b for b in program.buffers)
        if name == "last-value":  # the kernel may write an element before it reads another one
            return [replace(program, buffers=over)], graph
        if name == "updates":
            more = Buffer("other", "output", 0, 64, 1, over=0)
            unread = {"in_place": ((0, 0),)}
            graph = chain([kernel("k", (4, 4), (4, 1), "t", **unread)], [[-1]])
            return [replace(program, buffers=(*over, more))], graph
        return [program], graph  # the rest of the result lies elsewhere
    raise KeyError(name)


# -- the validator ------------------------------------------------------------------------------
VALIDATOR = {
    "own-writes": (validate, "_check_own_writes", "race"),
    "reads": (validate, "_check_reads", "race"),
    "tasks": (placement, "_check_tasks", "task"),
    "reuse": (validate, "check_reuse", "clobber"),
    "uncovered": (validate, "covers", "task"),
    "last-value": (reuse, "check_last_value", "clobber"),
    "updates": (validate, "check_updates", "buffer"),
    "one-place": (validate, "check_updates_in_place", "buffer"),
}


@pytest.mark.parametrize("name", VALIDATOR)
def test_the_validator_needs_its_rule(name, monkeypatch):
    programs, graph = case(name)
    module, attribute, law = VALIDATOR[name]
    with pytest.raises(ScheduleError) as caught:
        validate.validate(programs, graph)
    assert caught.value.rule == law
    monkeypatch.setattr(module, attribute, lambda *_, **__: True)
    validate.validate(programs, graph)


def test_the_validator_needs_the_sizes_of_the_signature(monkeypatch):
    graph = two_steps()
    programs = [hand_made(graph, *SERIAL)]
    sizes = {"inputs": [64], "outputs": [128]}
    with pytest.raises(ScheduleError, match="no operator writes byte 64"):
        validate.validate(programs, graph, **sizes)
    monkeypatch.setattr(validate, "check_signature", lambda *_: None)
    validate.validate(programs, graph, **sizes)
    assert caller_tensors.check_signature is not validate.check_signature


def test_the_validator_needs_the_place_of_outputs(monkeypatch):
    graph = two_steps()
    values = tuple(replace(v, kind="temp", index=-1) if v.name == "v1" else v for v in graph.values)
    lost = replace(graph, values=(*values, Value("y", 64, "output", index=0)))
    programs = [hand_made(lost, *SERIAL)]
    with pytest.raises(ScheduleError, match="output y is not written"):
        validate.validate(programs, lost)
    monkeypatch.setattr(validate, "_check_outputs", lambda *_: None)
    validate.validate(programs, lost)


def test_the_validator_needs_the_memory_of_the_device(monkeypatch):
    graph = two_steps()
    programs = [hand_made(graph, *SERIAL)]
    with pytest.raises(ScheduleError, match="the device has 1"):
        validate.validate(programs, graph, max_eus=1)
    monkeypatch.setattr(validate, "_check_programs", lambda *_: None)
    validate.validate(programs, graph, max_eus=1)


def test_the_validator_needs_the_buffers_of_the_values(monkeypatch):
    graph = two_steps()
    [program] = [hand_made(graph, *SERIAL)]
    small = tuple(replace(b, bytes=60) if b.name == "v0" else b for b in program.buffers)
    programs = [replace(program, buffers=small)]
    with pytest.raises(ScheduleError, match="its buffer v0 60"):
        validate.validate(programs, graph)

    def placed(program, graph, op, buffers, place):
        for name in buffers:
            buffer = program.buffer[name]
            place.setdefault(graph.root(name)[0], (buffer.space, buffer.offset))

    monkeypatch.setattr(placement, "_check_buffers", placed)
    validate.validate(programs, graph)


# -- the checker --------------------------------------------------------------------------------
def certified(facts, table):
    return replace(facts, clocks=table.astype(np.int32))


def facts_case(name: str):
    """Facts that break one law."""
    if name in VALIDATOR:
        updates = [(0, 0)] if name == "last-value" else []
        return replace(facts_of(*case(name)), updates=updates)
    graph = two_steps()
    facts = facts_of([hand_made(graph, *SERIAL)], graph)
    if name == "clocks":
        return certified(facts_case("reads"), np.array([[0, 1, 0], [0, 1, 0]]))
    if name == "turns":  # o0 waits for what only comes after o1, which waits for o0
        one = [("-", "f", 1), ("o0", 0, 4), ("+", "e")]
        stuck = facts_streams(graph, one, [("-", "e", 1), ("o1", 0, 4), ("+", "f")])
        return certified(stuck, np.array([[0, 0, 1], [0, 1, 0]]))
    if name == "operands":
        streams = [stream.copy() for stream in launches_of(facts)[0].streams]
        streams[0][9] += 64  # the result of o0
        return with_launch(facts, 0, streams=streams)
    if name == "buffers":
        return replace(facts, arena=32)
    if name == "values":  # o1 reads what nobody writes
        program = hand_made(graph, *SERIAL)
        u = Buffer("u", "temp", 2048, 64)
        queues = tuple(
            tuple(replace(s, buffers=("u", "v1")) if getattr(s, "operator", "") == "o1" else s
                  for s in q) for q in program.queues
        )  # fmt: skip
        program = replace(program, buffers=(*program.buffers, u), queues=queues, arena=4096)
        return facts_of([program], graph)
    if name == "twice":  # o1 writes the value of o0 again
        program = hand_made(graph, *SERIAL)
        (read,) = (b.name for b in program.buffers if b.kind == "input")
        queues = tuple(
            tuple(replace(s, buffers=(read, "v0")) if getattr(s, "operator", "") == "o1" else s
                  for s in q) for q in program.queues
        )  # fmt: skip
        return replace(facts_of([replace(program, queues=queues)], graph), outputs=[])
    if name == "complete":
        return replace(facts, outputs=[128])
    if name == "constants":  # both operators read one, and the second begins in the first
        places = {"x": (7, 1, 0), "v0": (8, 1, 32)}
        [[_, v0], [_, v1]] = operands_of(facts)
        streams = [stream.copy() for stream in launches_of(facts)[0].streams]
        streams[0][6:8], streams[1][9:11] = places["x"][1:], places["v0"][1:]
        facts = with_operands(facts, [[places["x"], v0], [places["v0"], v1]])
        return with_launch(replace(facts, constants=128), 0, streams=streams)
    if name == "kernels":
        tasks, sizes, results, pinned = facts.sizes[0]
        return replace(facts, sizes=[(tasks, [*sizes[:-1], sizes[-1] + 4], results, pinned)])
    if name == "pinned":
        tasks, (read, written), results, _ = facts.sizes[0]
        return replace(facts, sizes=[(tasks, [read, written // tasks], results, (1,))])
    raise KeyError(name)


def facts_streams(graph, *queues):
    """Facts of queues for which there may be no certificate: with the one of other queues."""
    program = hand_made(graph, *queues)
    bare = [[step for step in q if isinstance(step, tuple) and step[0][0] == "o"] for q in queues]
    good = facts_of([hand_made(graph, *bare)], graph)
    numbers = {k.name: n for n, k in enumerate(graph.kernels)}
    return with_launch(good, 0, streams=encode(program, numbers, 1))


# rule -> (where it is, its name, the laws that it says)
WORK, USES = (sys.modules[f"rcompiler.checker.{n}"] for n in ("work", "uses"))
CHECKER = {
    "own-writes": (checker, "_byte_by_byte", "race"),
    "reads": (checker, "_byte_by_byte", "race"),
    "tasks": (WORK.Work, "_number_tasks", "task"),
    "reuse": (checker, "_byte_by_byte", "clobber"),
    "last-value": (checker, "_byte_by_byte", "clobber"),
    "one-place": (USES.Uses, "__init__", "buffer"),
    "uncovered": (sys.modules["rcompiler.checker.boxes"].KernelOperands, "__init__", "task"),
    "clocks": (checker_order.Order, "_check_clocks", "clocks"),
    "turns": (checker_order.Order, "_check_turns", "deadlock"),
    "operands": (WORK.Work, "_name_runs", "buffer"),
    "buffers": (USES.Uses, "__init__", "buffer"),
    "values": (sys.modules["rcompiler.checker.intervals"], "neighbours", "task"),
    "complete": (checker, "_complete", "task"),
    "constants": (USES.Uses, "__init__", "buffer"),
    "twice": (checker, "_pairs", "task"),
    "kernels": (sys.modules["rcompiler.checker.boxes"].KernelOperands, "__init__", "notes"),
    "pinned": (USES.Uses, "__init__", "buffer"),
}
# What a rule leaves behind for those after it, where it is disabled by letting it say nothing.
_SILENT = ("tasks", "operands", "buffers", "values", "kernels", "turns", "uncovered", "pinned",
           "constants", "twice", "one-place")  # fmt: skip


@pytest.mark.parametrize("name", CHECKER)
def test_the_checker_needs_its_rule(name, monkeypatch):
    facts = facts_case(name)
    place, attribute, law = CHECKER[name]
    with pytest.raises(Refused) as caught:
        check(facts)
    assert caught.value.rule == law, str(caught.value)
    if name in _SILENT:
        _silence(monkeypatch, place, attribute)
    else:
        monkeypatch.setattr(place, attribute, lambda *_, **__: True)
    check(facts)


def _silence(monkeypatch, place, attribute):
    """Run a rule, but let none of its refusals out: what says them does nothing inside of it."""
    module = sys.modules[getattr(place, "__module__", place.__name__)]
    rule = getattr(place, attribute)
    sayers = {name: getattr(module, name) for name in ("refuse", "forbid") if name in vars(module)}

    def quiet(*given):
        vars(module).update(dict.fromkeys(sayers, lambda *_: None))
        try:
            return rule(*given)
        finally:
            vars(module).update(sayers)

    monkeypatch.setattr(place if place is not module else checker, attribute, quiet)


def test_every_rule_of_the_checker_has_a_case():
    own = {
        name
        for name, x in vars(checker).items()
        if getattr(x, "__module__", "") == checker.__name__
    }
    rules = own - {"check"}
    helpers = {"_late", "_unsafe", "_spans", "_in_place", "_refuse"}
    tested = {attribute for place, attribute, _ in CHECKER.values() if place is checker}
    assert rules - helpers == tested


def test_right_schedules_are_accepted():
    graph = two_steps()
    for queues in (SERIAL, [[("o0", 0, 2), "|", ("o1", 0, 4)], [("o0", 2, 2), "|"]]):
        check(facts_of([hand_made(graph, *queues)], graph))
