"""The view model of a schedule worked out by hand (see conftest.py)."""

import math
import random
from dataclasses import fields, replace

import pytest
from rammer_cases import random_graph

from rcompiler.device.model import Costs
from rcompiler.errors import ArtifactError
from rcompiler.rammer.schedule import POLICIES, schedule
from rcompiler.rammer.simulate import simulate
from rcompiler.viz.arena import LiveRange, bytes_in_use, live_ranges
from rcompiler.viz.syncs import Signalled, Waited, synchronisation
from rcompiler.viz.view import collect


def test_tasks_and_the_critical_path(view):
    spans = [(s.operator, s.eu, round(s.start), round(s.end)) for s in view.timeline.spans]
    assert spans == [
        ("o0", 0, 500, 1500),
        ("o1", 0, 1500, 3500),
        ("o2", 1, 1600, 4600),
        ("o3", 0, 4700, 5700),
    ]
    assert view.path == (0, 2, 3)
    assert view.timeline.makespan_ns == pytest.approx(5700, abs=1)
    assert view.utilisation == pytest.approx(7000 / (2 * 5700), rel=1e-6)
    assert (view.tasks, view.eus, view.programs) == (4, 2, ("p",))
    assert view.timeline.work_bound_ns == pytest.approx(3500)
    assert view.timeline.path_bound_ns == pytest.approx(5000)
    assert view.timeline.bandwidth_bound_ns == 0  # nothing waits for the shared level


def test_edges_lead_to_those_that_read(view):
    assert {*view.edges} == {("o0", "o1"), ("o0", "o2"), ("o1", "o3"), ("o2", "o3")}
    assert len(view.edges) == 4


def test_bandwidth_bounds_what_it_slows_down(plan):
    view = collect(plan(), contention=True)
    # 64 bytes each: three tasks of one operand, one of two, and a result each
    assert view.timeline.bandwidth_bound_ns == pytest.approx(9 * 64 / 2155)
    assert view.timeline.bandwidth_bound_ns <= view.timeline.makespan_ns


def test_who_waits_for_whom(view):
    syncs = view.syncs
    assert syncs.events == ((0, "a"), (0, "b"))
    assert [_rounded(s) for s in syncs.signals] == [
        Signalled(event=0, eu=0, at=1500, task=0),
        Signalled(event=1, eu=1, at=4600, task=2),
    ]
    assert [_rounded(w) for w in syncs.waits] == [
        Waited(event=0, count=1, eu=1, since=500, until=1600, task=2, by=0),
        Waited(event=1, count=1, eu=0, since=3500, until=4700, task=3, by=2),
    ]


def test_a_wait_that_does_not_block_knows_its_signal(plan):
    queues = (
        [("o0", 0, 1), ("+", "a"), ("o1", 0, 1), ("-", "a", 1), ("-", "b", 1), ("o3", 0, 1)],
        [("-", "a", 1), ("o2", 0, 1), ("+", "b")],
    )
    waits = collect(plan(queues=queues)).syncs.waits
    free = next(w for w in waits if (w.event, w.eu) == (0, 0))
    assert (round(free.since), round(free.until), free.task, free.by) == (3500, 3500, 3, 0)


def test_queues_are_taken(taken, view):
    assert (taken.dynamic, view.dynamic) == ((True,), (False,))
    spans = [(s.operator, s.eu, round(s.start), round(s.end)) for s in taken.timeline.spans]
    assert spans == [
        ("o0", 0, 500, 1500),
        ("o2", 0, 1600, 4600),
        ("o1", 1, 1600, 3600),
        ("o3", 1, 4700, 5700),
    ]
    gaps = [(g.eu, round(g.start), round(g.end), g.reason, g.cause) for g in taken.timeline.gaps]
    assert sorted(gaps) == [
        (0, 0, 500, "launch", -1),
        (0, 1500, 1600, "take", -1),
        (0, 4600, 5700, "end", -1),
        (1, 0, 500, "launch", -1),
        (1, 500, 600, "take", -1),
        (1, 600, 1600, "a", 0),
        (1, 3600, 3700, "take", -1),
        (1, 3700, 4700, "c", 1),
    ]
    names = [name for _, name in taken.syncs.events]
    waits = [(names[w.event], w.eu, round(w.since), round(w.until), w.task, w.by)
             for w in taken.syncs.waits]  # fmt: skip
    assert sorted(waits) == [
        ("a", 0, 1600, 1600, 1, 0),
        ("a", 1, 600, 1600, 2, 0),
        ("b", 1, 3700, 3700, 3, 2),
        ("c", 1, 3700, 4700, 3, 1),
    ]


def test_barriers_are_passed(plan):
    queues = (
        [("o0", 0, 1), "|", ("o1", 0, 1), "|", ("+", "c"), ("o3", 0, 1)],
        ["|", ("o2", 0, 1), "|"],
    )
    (signal,) = collect(plan(queues=queues)).syncs.signals
    # o0 to 1500, a barrier of 200, o2 to 4700, a barrier of 200
    assert (round(signal.at), signal.task) == (4900, 1)


def test_the_arena_over_time(view):
    ranges = [(x.name, x.offset, x.bytes, round(x.start), round(x.end)) for x in view.live_ranges]
    assert ranges == [
        ("v0", 0, 64, 500, 4600),
        ("v1", 64, 64, 1500, 5700),
        ("v2", 128, 64, 1600, 5700),
    ]
    steps = [(round(time), used) for time, used in bytes_in_use(view.live_ranges)]
    assert steps == [(500, 64), (1500, 128), (1600, 192), (4600, 128), (5700, 0)]
    assert (view.arena, view.arena_bound) == (192, 128)


def test_bytes_that_two_values_hold_count_once():
    ranges = [
        LiveRange("a", 0, 100, 0.0, 10.0),
        LiveRange("b", 50, 100, 5.0, 20.0),
        LiveRange("c", 10, 5, 6.0, 7.0),
    ]
    assert bytes_in_use(ranges) == [(0.0, 100), (5.0, 150), (10.0, 100), (20.0, 0)]


def test_occupancy_against_counting_bytes():
    rng = random.Random(3)
    ranges = []
    for i in range(60):
        start = rng.randrange(50)
        end = start + rng.randrange(1, 20)
        ranges.append(LiveRange(str(i), rng.randrange(80), rng.randrange(1, 30), start, end))
    steps = dict(bytes_in_use(ranges))
    used = 0
    for now in range(80):
        held = {
            byte
            for one in ranges
            if one.start <= now < one.end
            for byte in range(one.offset, one.offset + one.bytes)
        }
        used = steps.get(now, used)
        assert used == len(held)


@pytest.mark.parametrize("policy", POLICIES)
def test_every_instruction_of_random_schedules_is_told(policy):
    free = Costs(task_ns=1e-6, hand_off_ns=100, barrier_ns=200, launch_ns=500, min_task_ns=1)
    for seed in range(6):
        costs = replace(free, signal_ns=30, wait_ns=50) if seed % 2 else free
        graph = random_graph(random.Random(seed), 9)
        found = schedule(graph, 3, costs, policy=policy)
        line = simulate(found.programs, graph, costs)
        syncs = synchronisation(found.programs, line)
        steps = [type(s).__name__ for p in found.programs for q in p.queues for s in q]
        assert len(syncs.signals) == steps.count("Signal")
        assert len(syncs.waits) == steps.count("Wait")
        blocked = [gap for gap in line.gaps if (gap.program, gap.reason) in syncs.events]
        assert sum(wait.until > wait.since for wait in syncs.waits) == len(blocked)
        for wait in syncs.waits:
            assert wait.by < 0 or line.spans[wait.by].end <= wait.until
            assert wait.task < 0 or wait.until <= line.spans[wait.task].start
        ranges = live_ranges(found.programs, graph, line)
        assert max((used for _, used in bytes_in_use(ranges)), default=0) <= found.memory.peak


@pytest.mark.parametrize(
    "reported",
    [
        {"estimated_ns": math.inf},
        {"estimated_ns": math.nan},
        {"measured_ns": -1.0},
        {"tile": ("x",)},
        {"kind": 3},
        {"kernel": "another"},
        {"tasks": True},
    ],
)
def test_a_report_of_something_else_is_refused(plan, reported):
    with pytest.raises(ArtifactError, match="the report does not fit the schedule"):
        collect(plan(**reported))


def test_an_operator_that_is_not_reported_is_refused(plan):
    given = plan()
    report = replace(given.report, operators=given.report.operators[1:])
    with pytest.raises(ArtifactError, match="it does not tell of operator o0"):
        collect(replace(given, report=report))
    report = replace(given.report, arena_bound_bytes="much")
    with pytest.raises(ArtifactError, match="the bound of its arena is no number"):
        collect(replace(given, report=report))


def test_a_schedule_without_programs(plan):
    view = collect(replace(plan(), programs=()))
    assert (view.tasks, view.eus, view.utilisation, view.path) == (0, 1, 0.0, ())
    assert bytes_in_use(view.live_ranges) == []


def _rounded(record):
    floats = [f.name for f in fields(record) if isinstance(getattr(record, f.name), float)]
    return replace(record, **{name: round(getattr(record, name)) for name in floats})
