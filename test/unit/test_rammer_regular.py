"""Memory plans that keep loops: shorter programs, an arena that is little larger, and legal."""

import random

import pytest
from decoded import decode
from rammer_cases import chain, hand_made, kernel, repeated

from rcompiler.rammer import regular
from rcompiler.rammer.encode import encode
from rcompiler.rammer.loops import Line, Repeat, places, roll
from rcompiler.rammer.schedule import schedule


def words(graph, eus):
    """Of the tables, and the memory plan."""
    found = schedule(graph, eus)  # proved
    numbers = {k.name: i for i, k in enumerate(graph.kernels)}
    streams = [s for program in found.programs for s in encode(program, numbers, inputs=1)]
    return sum(map(len, streams)), found.memory


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("eus", [1, 2])
def test_plans_of_repeated_steps_keep_the_loop(seed, eus, monkeypatch):
    graph = repeated(random.Random(seed), 80)
    kept, memory = words(graph, eus)
    longer, _ = words(repeated(random.Random(seed), 160), eus)
    monkeypatch.setattr(regular, "SHORT", 1 << 40)
    scattered, least = words(graph, eus)
    assert kept <= scattered
    assert longer <= 1.02 * kept
    assert memory.peak <= least.peak * (1 + 1 / regular.SLACK)
    assert memory.bound == least.bound


def test_where_each_line_is_in_its_loops():
    lines = [Line(("a",) * 9, (i,)) for i in range(4)]
    turns = [Line(("b",) * 9, (i, j)) for i in range(3) for j in range(5)]
    rolled = roll([*turns, *lines])
    assert [type(item) for item in rolled] == [Repeat, Repeat]
    inner = [(0, (i, j)) for i in range(3) for j in range(5)]
    assert places(rolled) == [*inner, *((1, (i,)) for i in range(4))]


def test_queues_that_eus_take_have_no_loops():
    """Not even where a list of the same instructions has one."""
    graph = chain([kernel("k", (32, 4), (32, 1), "t")], [[-1]])
    steps = [("o0", task, 1) for task in range(32)]
    for takers in (None, 2):
        program = hand_made(graph, steps, takers=takers)
        streams = encode(program, {"k": 0}, inputs=1)
        assert (len(streams[0]) < 32 * 10) == (takers is None)
        runs = [(run.first, run.count) for run in decode(streams, ["k"])[0]]
        assert runs == [(task, 1) for task in range(32)]
