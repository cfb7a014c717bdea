"""Time lines of small programs worked out by hand, and what holds for all of them."""

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rammer_cases import chain, idle_by_reason, kernel, random_graph

from rcompiler.device.model import Costs
from rcompiler.errors import ScheduleError
from rcompiler.rammer.contention import SharedLevel
from rcompiler.rammer.policy.base import schedule_base
from rcompiler.rammer.policy.bsp import schedule_bsp
from rcompiler.rammer.policy.rammer import schedule_rammer
from rcompiler.rammer.schedule import POLICIES, schedule
from rcompiler.rammer.simulate import simulate

SHAPE = (4, 4)
BYTES = 64
COSTS = Costs(task_ns=1e-6, hand_off_ns=100, barrier_ns=200, launch_ns=500, min_task_ns=1)


def single(name: str, ns: float, reads: str = "w"):
    """One rTask of `ns` that reads whole operands."""
    return kernel(name, SHAPE, (1, 1), reads, estimated_ns=ns)


def diamond():
    """o0 (1000), then o1 (2000) beside o2 (3000), then o3 (1000)."""
    kernels = [single("one", 1000), single("two", 2000), single("three", 3000)]
    return chain([*kernels, single("join", 1000, "ww")], [[-1], [0], [0], [1, 2]])


def test_the_critical_path_of_a_diamond():
    graph = diamond()
    programs = schedule_rammer(graph, 2, COSTS)
    line = simulate(programs, graph, COSTS)
    path = line.critical_path()
    assert [span.operator for span in path] == ["o0", "o2", "o3"]
    assert path[0].reason == "launch" and path[0].cause == -1
    across = {span.operator: span.eu for span in line.spans}
    for before, span in zip(path, path[1:], strict=False):
        same = across[before.operator] == across[span.operator]
        assert (span.reason == "order") == same
    assert line.makespan_ns == pytest.approx(500 + 1000 + 3000 + 1000 + 100, abs=1)


def test_idle_time_has_a_reason():
    """On two EUs: one waits while o0 runs, and after its arm."""
    graph = diamond()
    line = simulate(schedule_bsp(graph, 2, COSTS), graph, COSTS)
    # 1000 on one EU, 2000 | 3000, 1000 on one EU, a barrier of 200 between
    assert line.makespan_ns == pytest.approx(500 + 1000 + 200 + 3000 + 200 + 1000, abs=1)
    idle = idle_by_reason(line)
    assert idle == pytest.approx(
        {"launch": 1000, "barrier": 1000 + 4 * 200 + 1000, "end": 1000}, abs=1
    )
    waited = [gap for gap in line.gaps if gap.reason == "barrier" and gap.end - gap.start > 900]
    assert {line.spans[gap.cause].operator for gap in waited} == {"o0", "o2"}


def test_signals_and_waits_take_time_of_their_own():
    """Of the diamond, o0 and o1 | o2 and o3 on two EUs: both signals keep the first EU for 30 and
    are seen then. The wait for o1, which is long done, keeps the second one for 50, nobody's fault.
    """
    graph = diamond()
    programs = schedule_rammer(graph, 2, COSTS)
    line = simulate(programs, graph, replace(COSTS, signal_ns=30, wait_ns=50))
    start = {span.operator: span.start for span in line.spans}
    assert start == pytest.approx(
        {"o0": 500, "o1": 1500 + 30, "o2": 1500 + 30 + 100, "o3": 1630 + 3000 + 50}, abs=1
    )
    assert [(span.operator, span.reason) for span in line.critical_path()] == [
        *[("o0", "launch"), ("o2", "o0"), ("o3", "order")]
    ]
    waits = {gap.reason: (gap.eu, gap.cause) for gap in line.gaps if gap.reason in ("o0", "o1")}
    assert waits == {"o0": (1, 0), "o1": (1, -1)}
    assert idle_by_reason(line)["signal"] == pytest.approx(2 * 30)


def test_launches_follow_each_other():
    graph = chain([single("a", 1000), single("b", 1000)], [[-1], [0]])
    path = simulate(schedule_base(graph, 1, COSTS), graph, COSTS).critical_path()
    assert [(s.program, s.operator, s.reason) for s in path] == [
        (0, "o0", "launch"),
        (1, "o1", "launch"),
    ]


def test_runs_that_want_all_the_bandwidth_share_it():
    """Two rTasks of 1000 ns touch 128 bytes each: alone 0.128 GB/s."""
    k = single("k", 1000)
    graph = chain([k, k], [[-1], [-1]])
    assert k.task_bytes == 2 * BYTES
    programs = schedule_rammer(graph, 2, COSTS)

    def ends(shared):
        return sorted(s.end - 500 for s in simulate(programs, graph, COSTS, shared).spans)

    assert ends(None) == ends(0.256) == pytest.approx([1000, 1000], abs=1)
    assert ends(0.128) == pytest.approx([2000, 2000], abs=1)
    assert ends(0.064) == pytest.approx([4000, 4000], abs=1)


def test_a_modest_run_keeps_its_pace():
    """1000 ns at 0.128 GB/s beside 4000 ns at 0.032, 0.128 GB/s for both: the second has its share
    of 0.064, the first gets 0.096.
    """
    graph = chain([single("hungry", 1000), single("modest", 4000)], [[-1], [-1]])
    line = simulate(schedule_rammer(graph, 2, COSTS), graph, COSTS, 0.128)
    spent = {s.operator: s.end - s.start for s in line.spans}
    assert spent == pytest.approx({"o0": 1000 * 0.128 / 0.096, "o1": 4000}, abs=1)
    assert line.bandwidth_bound_ns == pytest.approx(4 * BYTES / 0.128)


def test_the_speed_changes_when_a_run_ends():
    """Two runs at half speed; after one has ended the other goes on at full speed."""
    level = SharedLevel(1.0, 2)
    level.start(0.0, 0, 100.0, 1.0)
    level.start(0.0, 1, 200.0, 1.0)
    assert level.finish() == (200.0, 0)
    assert level.finish() == (300.0, 1) and not level.running


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf")])
def test_impossible_bandwidths_are_refused(bad):
    with pytest.raises(ScheduleError, match="number above 0"):
        SharedLevel(bad, 2)


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.integers(1, 12), st.sampled_from([1, 2, 5]), st.booleans())
def test_what_holds_for_every_time_line(seed, operators, eus, priced):
    graph = random_graph(random.Random(seed), operators)
    costs = replace(COSTS, signal_ns=30, wait_ns=50) if priced else COSTS
    for policy in POLICIES:
        programs = schedule(graph, eus, costs, policy=policy).programs
        ends = []
        for shared in (None, 1.0, 0.1):
            line = simulate(programs, graph, costs, shared)
            ends.append(line.makespan_ns)
            idle = np.zeros(eus)
            for gap in line.gaps:
                assert gap.end > gap.start
                idle[gap.eu] += gap.end - gap.start
            np.testing.assert_allclose(idle + line.busy_ns, line.makespan_ns)
            path = line.critical_path()
            for before, after in zip(path, path[1:], strict=False):
                assert before.end <= after.start + 1e-6
            assert path[-1].end == pytest.approx(max(s.end for s in line.spans))
            bounds = (line.work_bound_ns, line.path_bound_ns, line.bandwidth_bound_ns)
            assert line.makespan_ns >= max(bounds) * (1 - 1e-9)
        if any(program.dynamic for program in programs):
            continue  # a slow run may be lucky: others take its place (Graham's anomalies)
        assert ends[0] <= ends[1] * (1 + 1e-9) and ends[1] <= ends[2] * (1 + 1e-9)
