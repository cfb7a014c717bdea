"""States that are updated in place, against the oracle that tries every execution."""

from collections import Counter
from dataclasses import replace

import pytest
from oracles._corruptions import facts_of
from oracles._mutants import KINDS, mutant
from oracles._oracle import Illegal, Oracle, TooLarge
from oracles.mutate_programs import ACCEPTED, REFUSED, UNDECIDED, judge, program_of
from rammer_cases import chain, hand_made, kernel

from rcompiler.checker import Refused, check
from rcompiler.errors import ScheduleError
from rcompiler.rammer.program import Buffer, Program
from rcompiler.rammer.schedule import schedule
from rcompiler.rammer.states import update_in_place
from rcompiler.rammer.validate import validate


def over(programs, pair=(0, 0)):
    """The same, with an output in the place of an input."""
    place, output = pair
    return tuple(
        replace(
            program,
            buffers=tuple(
                replace(b, over=place) if (b.kind, b.index) == ("output", output) else b
                for b in program.buffers
            ),
        )
        for program in programs
    )


def cases(first, count):
    """Random programs with an input and an output of one size, and what is left to draw from."""
    for number in range(first, first + count):
        rng, graph, programs = program_of(number)
        pairs = [
            (a.index, b.index)
            for a in graph.values
            for b in graph.values
            if (a.kind, b.kind, a.bytes) == ("input", "output", b.bytes)
        ]
        if pairs:
            pair = rng.choice(pairs)
            yield number, rng, graph, programs, pair


@pytest.mark.parametrize("first", range(0, 160, 40))
def test_what_is_proved_of_updates_is_what_the_oracle_finds(first):
    """Validator and oracle agree on schedules, right and spoilt, and what is legal is planned."""
    found = Counter()
    for number, rng, graph, programs, pair in cases(first, 40):
        forced = over(programs, pair)
        verdict, words = judge(forced, graph)
        assert verdict in (ACCEPTED, REFUSED, UNDECIDED), (number, words)
        found[verdict] += 1
        placed, reasons = update_in_place(graph, programs, [pair])
        if verdict != UNDECIDED:
            assert (placed == forced, not reasons) == (verdict == ACCEPTED,) * 2, (number, words)
        for kind in rng.sample(KINDS, 4):
            changed = mutant(rng, kind, forced)
            if changed is not None:
                verdict, words = judge(changed, graph)
                assert verdict in (ACCEPTED, REFUSED, UNDECIDED), (number, kind, words)
    assert found[ACCEPTED] > 3 and found[REFUSED] > 3, found


@pytest.mark.parametrize("first", range(0, 80, 40))
def test_the_checker_accepts_nothing_that_is_not_legal(first):
    found = Counter()
    for number, rng, graph, programs, pair in cases(first, 40):
        forced = over(programs, pair)
        for kind in ("", *rng.sample(KINDS, 4)):
            changed = mutant(rng, kind, forced) if kind else forced
            try:
                facts = replace(facts_of(changed or forced, graph, forced), updates=[pair])
                check(facts)
                accepted = True
            except ScheduleError:  # there is no certificate
                continue
            except Refused:
                accepted = False
            try:
                Oracle(changed or forced, graph).check()
                legal = True
            except Illegal:
                legal = False
            except TooLarge:
                continue
            assert not accepted or legal, (number, kind)
            assert accepted or not legal or kind, (number, "it is legal")
            found[accepted, legal] += 1
    assert found[True, True] > 10 and found[False, False] > 20, found


STEP = kernel("step", (4, 4), (4, 1), "t", in_place=((0, 0),))
WHOLE = kernel("whole", (4, 4), (4, 1), "w")


def reason(graph, *queues):
    return update_in_place(graph, [hand_made(graph, *queues)], [(0, 0)])[1].get((0, 0), "")


def test_why_a_state_is_double_buffered():
    two = chain([WHOLE, STEP], [[-1], [0]])
    halves = [("o0", 0, 2), ("+", "a"), ("-", "b", 1), ("o1", 0, 2)]
    others = [("o0", 2, 2), ("+", "b"), ("-", "a", 1), ("o1", 2, 2)]
    assert reason(two, halves, others) == ""
    assert (
        reason(two, [("o0", 0, 4), ("o1", 0, 2), ("+", "a")], [("-", "a", 1), ("o1", 2, 2)]) == ""
    )
    assert reason(chain([STEP], [[-1]]), [("o0", 0, 4)]) == ""
    assert reason(chain([WHOLE], [[-1]]), [("o0", 0, 4)]) == "operator o0 reads it while it writes"
    late = chain([STEP, WHOLE, STEP], [[-1], [-1], [0]])
    queues = [("o0", 0, 4), ("+", "a"), ("o1", 0, 4)], [("-", "a", 1), ("o2", 0, 4)]
    assert reason(late, *queues) == "operator o2 may write it before operator o1 has read it"


def test_states_are_part_of_a_schedule():
    found = schedule(chain([WHOLE, WHOLE], [[-1], [0]]), 2, states=[(0, 0)])
    assert [b.over for p in found.programs for b in p.buffers if b.kind == "output"] == [0]
    assert not found.double_buffered
    found = schedule(chain([WHOLE], [[-1]]), 2, states=[(0, 0)])
    assert [b.over for p in found.programs for b in p.buffers if b.kind == "output"] == [-1]
    assert list(found.double_buffered) == [(0, 0)]


UPDATE = kernel("update", (4, 4), (4, 1), "t", in_place=((0, 0),), updates=((0, 0),))


def test_a_part_of_a_result_is_written_where_the_rest_lies():
    graph = chain([UPDATE], [[-1]])
    program = hand_made(graph, [("o0", 0, 4)])
    refused(program, graph, "writes a part of v0 and leaves the rest as it is in x")
    [placed] = over([program])
    validate([placed], graph)
    facts = facts_of([placed], graph)
    check(replace(facts, updates=[(0, 0)]))
    with pytest.raises(Refused, match="a part of a result is written") as caught:
        check(facts)
    assert caught.value.rule == "buffer"
    found = schedule(graph, 2, states=[(0, 0)])
    assert not found.double_buffered
    two = chain([UPDATE, UPDATE], [[-1], [0]])
    refused(hand_made(two, [("o0", 0, 4), ("o1", 0, 4)]), two, "operator o0")
    with pytest.raises(ScheduleError, match="are not in place"):
        kernel("update", (4, 4), (4, 1), "t", updates=((0, 0),))


def refused(program, graph, words, **sizes):
    with pytest.raises(ScheduleError, match=words) as caught:
        validate([program], graph, **sizes)
    assert caught.value.rule == "buffer"


def test_updates_that_contradict_themselves():
    graph = chain([STEP], [[-1]])
    program = hand_made(graph, [("o0", 0, 4)])
    [placed] = over([program])
    more = Buffer("other", "output", 0, 64, 0)
    both = replace(placed, buffers=(*placed.buffers, more))
    refused(both, graph, "buffer other: output 0 lies over input 0, and not over it")
    more = Buffer("other", "output", 0, 64, 1, over=0)
    both = replace(placed, buffers=(*placed.buffers, more))
    refused(both, graph, "outputs 0 and 1 both lie over input 0")
    sizes = {"inputs": [128], "outputs": [64]}
    refused(placed, graph, "output 0 has 64 bytes, and lies over input 0 of 128", **sizes)
    with pytest.raises(ScheduleError, match="only an output lies over an input"):
        Program("p", 1, (Buffer("x", "input", 0, 4, 0, over=0),), ((),), 0, 0)
