"""The list policy and supersteps on cases small enough to work out by hand."""

import pytest
from rammer_cases import chain, kernel

from rcompiler.device.model import Costs
from rcompiler.device.record import builtin_device
from rcompiler.errors import ScheduleError
from rcompiler.rammer.graph import Graph, Operator, Value
from rcompiler.rammer.policy.bsp import schedule_bsp
from rcompiler.rammer.policy.list import schedule_list
from rcompiler.rammer.policy.listing import bottom_ranks, wave_ranks
from rcompiler.rammer.policy.merge import schedule_merge
from rcompiler.rammer.policy.rammer import schedule_rammer
from rcompiler.rammer.program import Barrier, Run, Signal, Wait
from rcompiler.rammer.schedule import policies, schedule
from rcompiler.rammer.simulate import simulate
from rcompiler.rammer.validate import validate

SHAPE = (4, 4)
COSTS = Costs(task_ns=1e-6, hand_off_ns=100, barrier_ns=200, launch_ns=500, min_task_ns=1)


def single(name: str, ns: float, reads: str = "w"):
    """One rTask of `ns` that reads whole operands."""
    return kernel(name, SHAPE, (1, 1), reads, estimated_ns=ns)


def makespan(programs, graph):
    validate(programs, graph)
    return simulate(programs, graph, COSTS).makespan_ns - COSTS.launch_ns * len(programs)


def order(program):
    return [[step.operator for step in q if isinstance(step, Run)] for q in program.queues]


def test_what_a_long_chain_waits_for_goes_first():
    """o2 -> o3 -> o4 beside o0 and o1, which are first in their wave; two EUs.

    Waves: o0 | o1, then o2 at 4000, o3 and o4 behind it: 13000. By chains: o2, o3, o4 on one EU,
    9000, and o0, o1 on the other.
    """
    kernels = [single("long", 4000), single("short", 1000)]
    graph = chain(
        [kernels[0], kernels[0], kernels[1], kernels[0], kernels[0]], [[-1], [-1], [-1], [2], [3]]
    )
    listed = schedule_list(graph, 2, COSTS)
    assert makespan(listed, graph) == pytest.approx(9000, abs=1)
    assert sorted(order(listed[0])) == [["o0", "o1"], ["o2", "o3", "o4"]]
    assert makespan(schedule_rammer(graph, 2, COSTS), graph) == pytest.approx(13000, abs=1)


def test_ranks_by_hand():
    graph = chain(
        [single("a", 1000), single("b", 2000), single("c", 500, "ww")], [[-1], [0], [0, 1]]
    )
    ranks = bottom_ranks(graph, lambda op: graph.kernel[op.kernels[0]].estimated_ns, 100)
    assert ranks == {"o2": 500, "o1": 2600, "o0": 3700}
    assert wave_ranks(graph) == {"o0": 0, "o1": -1, "o2": -2}


def choices(operators: int) -> Graph:
    """Independent operators with two rKernels: two rTasks of 3 us, or one of 4 us."""
    fast = kernel("fast", SHAPE, (2, 1), "w", estimated_ns=3000)
    lean = kernel("lean", SHAPE, (1, 1), "w", estimated_ns=4000)
    size = lean.writes[0].bytes
    values = [Value("x", size, "input", index=0)]
    values += [Value(f"v{i}", size, "output", index=i) for i in range(operators)]
    named = ("fast", "lean")
    found = tuple(Operator(f"o{i}", named, ("x",), (f"v{i}",)) for i in range(operators))
    return Graph(found, tuple(values), (fast, lean))


@pytest.mark.parametrize(
    ("operators", "mode", "kernels", "ns"),
    [
        (1, "select", {"fast"}, 3000),  # EUs to spare
        (2, "select", {"lean"}, 4000),  # one each is less work: 4 us instead of 6
        (2, "fast", {"fast"}, 6000),
        (1, "efficient", {"lean"}, 4000),
    ],
)
def test_the_kernel_depends_on_what_else_there_is_to_do(operators, mode, kernels, ns):
    graph = choices(operators)
    programs = schedule_list(graph, 2, COSTS, kernels=mode)
    used = {s.kernel for queue in programs[0].queues for s in queue if isinstance(s, Run)}
    assert used == kernels and makespan(programs, graph) == pytest.approx(ns, abs=1)


def test_supersteps_meet_after_every_wave():
    """A diamond on two EUs: 1000, both arms 2000, 1000, and two barriers."""
    one, arm, join = single("one", 1000), single("arm", 2000), single("join", 1000, "ww")
    graph = chain([one, arm, arm, join], [[-1], [0], [0], [1, 2]])
    [program] = schedule_bsp(graph, 2, COSTS)
    steps = [step for queue in program.queues for step in queue]
    assert not any(isinstance(step, Signal | Wait) for step in steps)
    assert [sum(isinstance(s, Barrier) for s in q) for q in program.queues] == [2, 2]
    assert makespan([program], graph) == pytest.approx(4000 + 2 * COSTS.barrier_ns, abs=1)


def test_supersteps_on_as_many_eus_as_an_ipu_has():
    graph = chain([kernel("k", (64, 64), (64, 32), "h", estimated_ns=1000)] * 3, [[-1], [0], [1]])
    found = schedule(graph, 1216, COSTS, policy="bsp")
    assert found.certificate.tasks == 3 * 2048 and found.certificate.eus == 1216


def test_a_device_without_signals_refuses_to_wait_for_one_eu():
    graph = chain([kernel("k", (64, 64), (64, 32), "h", estimated_ns=1000)] * 3, [[-1], [0], [1]])
    ipu = builtin_device("ipu")
    assert policies(ipu.costs) == ("base", "wave", "bsp")
    for policy in policies(ipu.costs):
        programs = schedule(graph, ipu.eus, ipu.costs, policy=policy).programs
        steps = [step for program in programs for queue in program.queues for step in queue]
        assert not any(isinstance(step, Signal | Wait) for step in steps)
    with pytest.raises(ScheduleError, match="meet in barriers only; use base, wave, bsp"):
        schedule(graph, ipu.eus, ipu.costs, policy="rammer")


def test_nothing_to_do_needs_no_program():
    graph = Graph((), (Value("x", 4, "input", index=0),), ())
    assert schedule_list(graph, 2, COSTS) == [] and schedule_bsp(graph, 2, COSTS) == []


def test_what_needs_a_launch_between_does_not_join_the_one_before():
    """o1 is merged with nobody. o0 -> o1 -> o2: o2 must stay behind it, whatever it would save.
    o0 -> o2 beside it: o2 may jump over it.
    """
    kernels = [single("a", 1000), single("outside", 1000), single("b", 1000)]
    tried = []

    def price(draft):
        tried.append({*draft.shares})
        return 1e9 if "o1" in draft.shares and len(draft.shares) > 1 else 1000.0

    def launches(inputs):
        tried.clear()
        graph = chain(kernels, inputs)
        programs = schedule_merge(graph, 2, COSTS, time=price)
        validate(programs, graph)
        return [sorted(sum(order(p), [])) for p in programs]

    assert launches([[-1], [0], [1]]) == [["o0"], ["o1"], ["o2"]]
    assert {"o0", "o2"} not in tried
    assert launches([[-1], [0], [0]]) == [["o0", "o2"], ["o1"]]


def test_launches_are_merged_if_that_saves_time():
    """Two of 1000 ns and a launch of 500 each, or one launch and 2000."""
    graph = chain([single("a", 1000)] * 2, [[-1], [0]])
    assert len(schedule_merge(graph, 1, COSTS)) == 1
    never = schedule_merge(graph, 1, COSTS, time=lambda draft: 10.0 ** len(draft.shares))
    assert len(never) == 2
