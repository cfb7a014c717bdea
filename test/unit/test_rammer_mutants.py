"""Validator and oracle on mutants; the oracle on hand-made cases and against a naive one."""

import json

import pytest
from oracles import mutate_programs
from oracles._mutants import KINDS, mutant
from oracles._oracle import Illegal, Oracle
from oracles.mutate_programs import FALSE_ACCEPT, FALSE_REJECT, UNCHANGED, judge, program_of
from rammer_cases import NaiveOracle, Wrong, chain, hand_made, kernel
from turns import turn_of

from rcompiler.rammer.graph import Graph, Operator, Value


def two_steps():
    k = kernel("k", (4, 4), (4, 1), "w", itemsize=1)
    return chain([k, k], [[-1], [0]])


def reason(graph, *queues):
    try:
        Oracle([hand_made(graph, *queues)], graph).check()
    except Illegal as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("queues", "words"),
    [
        ([[("o0", 0, 4), ("+", "e")], [("-", "e", 1), ("o1", 0, 4)]], ""),
        ([[("o0", 0, 2), "|", ("o1", 0, 4)], [("o0", 2, 2), "|"]], ""),
        ([[("o0", 0, 4), ("+", "e")], [("-", "e", 2), ("o1", 0, 4)]], "deadlock"),
        ([[("o0", 0, 4), "|"], [("o1", 0, 4)]], "at the same time"),
        ([[("o0", 0, 4), ("o1", 0, 4), "|"], []], "deadlock"),
        ([[("o0", 0, 4)], [("o1", 0, 4)]], "at the same time"),
        ([[("o1", 0, 4), ("o0", 0, 4)]], "instead of"),
        ([[("o0", 0, 3), ("o1", 0, 4)]], "runs [0, 1, 2] of 4 tasks"),
        ([[("o0", 0, 4), ("o0", 1, 1), ("o1", 0, 4)]], "of 4 tasks"),
    ],
)
def test_the_oracle_knows_right_from_wrong(queues, words):
    found = reason(two_steps(), *queues)
    assert words in found and bool(words) == bool(found)


def test_two_results_of_a_task_have_no_order():
    k = kernel("k", (2,), (1,), "w", itemsize=1)
    both = type(k)("both", k.grid, k.reads, k.writes * 2, 1.0)
    values = (Value("x", 2, "input", index=0), Value("u", 2), Value("v", 2))
    graph = Graph((Operator("o", ("both",), ("x",), ("u", "v")),), values, (both,))
    program = hand_made(graph, [("o", 0, 1)])
    assert judge([program], graph)[0] == "accepted"
    moved = [type(b)(b.name, b.kind, 0, b.bytes, b.index) for b in program.buffers]
    aliased = type(program)("p", 1, tuple(moved), program.queues, 128, 0)
    verdict, words = judge([aliased], graph)
    assert verdict == "refused" and "two results" in words


@pytest.mark.parametrize("first", turn_of(range(0, 60, 10), 3))
def test_the_reduction_of_the_oracle_loses_nothing(first):
    compared = {True: 0, False: 0}
    for number in range(first, first + 10):
        rng, graph, programs = program_of(number)
        for kind in KINDS:
            changed = mutant(rng, kind, programs)
            if changed is None:
                continue
            oracle, illegal, wrong = Oracle(changed, graph), "", ""
            try:
                oracle.check()
            except Illegal as error:
                illegal = str(error)
            if not oracle.states and illegal:
                continue  # refused before any execution
            try:
                NaiveOracle(changed, graph).check()
            except Wrong as error:
                wrong = str(error)
            except TimeoutError:
                continue
            assert bool(illegal) == bool(wrong), (number, kind, illegal, wrong)
            compared[bool(wrong)] += 1
    assert min(compared.values()) > 10


def test_validator_and_oracle_agree_on_mutants(tmp_path, capsys):
    """Also: a record is gone on with, and every kind of mutant comes up."""
    file = tmp_path / "mutants.json"
    more = ["--chunk=50", f"--json={file}"]
    assert mutate_programs.main(["--mutants=1", *more]) == 0
    once = json.loads(file.read_text())
    assert mutate_programs.main([f"--mutants={once['mutants'] + 1}", *more]) == 0
    twice = json.loads(file.read_text())
    assert (once["programs"], twice["programs"]) == (50, 100) and twice["mutants"] > 1800
    assert twice["differences"] == [] and set(twice["kinds"]) == {UNCHANGED, *KINDS}
    assert not twice["verdicts"][FALSE_ACCEPT] + twice["verdicts"][FALSE_REJECT]
    assert min(twice["verdicts"]["accepted"], twice["verdicts"]["refused"]) > 500
    assert all(sum(verdicts.values()) > 5 for verdicts in twice["kinds"].values())
    assert "0 differences" in capsys.readouterr().out


def test_a_difference_is_a_failure(monkeypatch, capsys):
    monkeypatch.setattr(mutate_programs, "validate", lambda programs, graph: None)
    counts, _, differences = mutate_programs.try_program(1)
    assert sum(n for (_, verdict), n in counts.items() if verdict == FALSE_ACCEPT) > 0
    assert all(text.startswith("program 1, ") for text in differences)
