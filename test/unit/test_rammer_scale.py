"""What keeps the proof of large schedules short, held against the plain way to compute it."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from measurements import validate_scale
from oracles._oracle import Oracle
from rammer_cases import chain, hand_made, kernel

from rcompiler.errors import ScheduleError
from rcompiler.rammer.kernel import Access, DimAccess
from rcompiler.rammer.order import happens_before
from rcompiler.rammer.overlap import Overlaps, Shares, overlapping
from rcompiler.rammer.program import Run, Signal, Wait
from rcompiler.rammer.validate import validate


@st.composite
def shares(draw, shape, itemsize):
    number = st.integers(0, 4)
    grid = tuple(draw(st.integers(1, 9)) for _ in range(2))
    dims = tuple(
        DimAccess(draw(st.integers(-1, 1)), draw(number), draw(number) - 2, draw(number))
        for _ in shape
    )
    tasks = grid[0] * grid[1]
    first = draw(st.lists(st.integers(0, tasks - 1), min_size=1, max_size=81))
    stride = draw(st.sampled_from([1, 1, 2]))
    count = [draw(st.integers(1, (tasks - 1 - f) // stride + 1)) for f in first]
    arrays = (np.array(a, np.int64) for a in (first, count, [stride] * len(first)))
    return Shares(grid, Access(shape, itemsize, dims), draw(st.sampled_from([0, 0, 3])), *arrays)


@settings(max_examples=150)
@given(st.data())
def test_overlapping_finds_all_pairs_and_no_others(data):
    a = data.draw(shares((6, 8), 1))
    b = data.draw(shares(data.draw(st.sampled_from([(6, 8), (12, 4)])), 1))
    want = {
        (i, j)
        for i in range(len(a))
        for j in range(len(b))
        if {x for low, high in a.bytes_of(i).tolist() for x in range(low, high)}
        & {x for low, high in b.bytes_of(j).tolist() for x in range(low, high)}
    }
    i, j = overlapping(a, b)
    assert set(zip(i.tolist(), j.tolist(), strict=True)) == want and len(i) == len(want)
    known = Overlaps()
    assert {tuple(pair) for pair in np.argwhere(known(a, b)).tolist()} == want
    assert known.pairs(a, b)[0] is known.pairs(replace(a), replace(b))[0]


def test_precedes_is_before_pair_by_pair():
    k = kernel("k", (4, 4), (4, 1), "w")
    graph = chain([k, k], [[-1], [0]])
    program = hand_made(
        graph,
        [("o0", 0, 2), ("+", "a"), ("-", "b", 1), ("o1", 0, 2)],
        [("o0", 2, 2), ("+", "b"), ("o1", 2, 2)],
    )
    order = happens_before([program, program])
    every = np.arange(len(order.runs))
    i, j = np.repeat(every, len(every)), np.tile(every, len(every))
    table = order.before(every, every)
    assert (order.precedes(i, j).reshape(table.shape) == table).all()
    assert table.sum() == 2 * 3 + 4 * 4  # in each launch a run before two, and one before one


def three_values(queues):
    """o0 writes v0, o1 reads it and writes v1, o2 the same: all temps at byte 0, in turn."""
    k = kernel("k", (4, 4), (1, 1), "w", itemsize=1)
    graph = chain([k] * 6, [[-1], [0], [-1], [2], [-1], [4]])
    program = hand_made(graph, *queues)
    place = {"v0": 0, "v2": 0, "v4": 0, "v1": 64, "v3": 128}
    buffers = tuple(replace(b, offset=place.get(b.name, b.offset)) for b in program.buffers)
    return graph, replace(program, buffers=buffers, arena=192)


def test_a_value_is_compared_with_all_before_it_where_the_order_is_mixed():
    """v0, v2 and v4 take turns at the same bytes; the last turn must come after both others."""
    in_turn = [("o0", 0, 1), ("o1", 0, 1), ("o2", 0, 1), ("o3", 0, 1)]
    graph, program = three_values([[*in_turn, ("+", "e")], [("-", "e", 1), ("o4", 0, 1),
                                                            ("o5", 0, 1)]])  # fmt: skip
    validate([program], graph)
    Oracle([program], graph).check()
    early = [*in_turn[:2], ("+", "e"), *in_turn[2:]]
    graph, program = three_values([early, [("-", "e", 1), ("o4", 0, 1), ("o5", 0, 1)]])
    with pytest.raises(ScheduleError, match="v[24]") as error:
        validate([program], graph)
    assert error.value.rule == "clobber"


@pytest.mark.parametrize("variant", validate_scale.VARIANTS)
def test_variants_run_the_same_tasks(variant):
    found = validate_scale.measure(variant, 13, 256, 7)
    assert (found.tasks, found.operators) == (13 * 256, 13)
    assert found.runs == (found.tasks if variant != "ranges" else 13 * 7)
    assert found.arena_bytes < found.plain_bytes and found.waits > 50


@pytest.mark.parametrize("variant", validate_scale.VARIANTS)
def test_a_missing_wait_is_found_among_many(variant):
    from rcompiler.rammer.policy.rammer import schedule_rammer

    graph = validate_scale.network(7, 256)
    (program,) = schedule_rammer(graph, 5, validate_scale.COSTS)
    program = validate_scale.variant_of(program, variant)
    queue = list(program.queues[2])
    places = [i for i, step in enumerate(queue) if isinstance(step, Wait)]
    assert any(isinstance(s, Run) for s in queue) and any(isinstance(s, Signal) for s in queue)
    del queue[places[len(places) // 2]]
    queues = (*program.queues[:2], tuple(queue), *program.queues[3:])
    with pytest.raises(ScheduleError) as error:
        validate([replace(program, queues=queues)], graph)
    assert error.value.rule == "race"


def test_the_command_writes_a_record(tmp_path, capsys):
    file = tmp_path / "scale.json"
    options = ["--operators=6", "--tasks=64", "--eus=3", "--variant=tasks", f"--json={file}"]
    assert validate_scale.main(options) == 0
    record = json.loads(file.read_text())
    assert [v["tasks"] for v in record["variants"]] == [384]
    assert "384" in capsys.readouterr().out
