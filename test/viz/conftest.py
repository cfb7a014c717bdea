"""A schedule worked out by hand, as a plan and as a view.

    EU 0:  o0 500..1500, signal a | o1 1500..3500 | waits for b until 4700 | o3 4700..5700
    EU 1:  waits for a until 1600 | o2 1600..4600, signal b | end

A launch takes 500 ns, a hand-off 100, what an rTask costs beyond its work next to nothing.
"""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

for folder in ("support", "unit"):  # importlib mode leaves sys.path alone
    sys.path.insert(0, str(Path(__file__).parents[1] / folder))

from rammer_cases import chain, hand_made, kernel  # noqa: E402

from rcompiler.device.gpu import gpu_device  # noqa: E402
from rcompiler.device.model import Costs  # noqa: E402
from rcompiler.report import OperatorReport, Report  # noqa: E402
from rcompiler.viz.view import Plan, collect  # noqa: E402

COSTS = Costs(task_ns=1e-6, hand_off_ns=100, barrier_ns=200, launch_ns=500, min_task_ns=1)
NS = {"o0": 1000.0, "o1": 2000.0, "o2": 3000.0, "o3": 1000.0}
QUEUES = (
    [("o0", 0, 1), ("+", "a"), ("o1", 0, 1), ("-", "b", 1), ("o3", 0, 1)],
    [("-", "a", 1), ("o2", 0, 1), ("+", "b")],
)
# EU 0:  o0 500..1500, signal a | takes o2 | o2 1600..4600, signal c | end
# EU 1:  takes o1 | waits for a until 1600 | o1 1600..3600 | takes o3 | waits for c until 4700 | o3
TAKEN = (
    [("o0", 0, 1), ("+", "a")],
    [("-", "a", 1), ("o1", 0, 1), ("+", "b")],
    [("-", "a", 1), ("o2", 0, 1), ("+", "c")],
    [("-", "b", 1), ("-", "c", 1), ("o3", 0, 1)],
)


def diamond_plan(rename=lambda name: name, queues=QUEUES, takers=None, **reported):
    """The plan; rename: other names of operators and events; reported: other fields of reports."""
    kernels = [kernel(f"k{i}", (4, 4), (1, 1), r) for i, r in enumerate(("w", "w", "w", "ww"))]
    graph = chain(kernels, [[-1], [0], [0], [1, 2]])
    program = hand_made(graph, *queues, takers=takers)
    steps = [[_renamed(step, rename) for step in queue] for queue in program.queues]
    program = replace(program, queues=tuple(map(tuple, steps)))
    operators = tuple(
        OperatorReport(
            **{
                **{"name": rename(op.name), "kind": "product", "kernel": op.kernels[0]},
                **{"tile": (4, 2), "register_tile": (2, 2), "tasks": 1},
                **{"estimated_ns": NS[op.name], "measured_ns": 0.0, "reason": "it is small"},
                **{"source": "roller", "explanation": {}},
                **reported,
            }
        )
        for op in graph.operators
    )
    device = replace(gpu_device("v100"), costs=COSTS)
    report = Report("", operators, 2, 1, 0.0, 0.0, 0.0, (), program.arena, 128, 0)
    return Plan("diamond", "list", device, (program,), kernels, report)


def _renamed(step, rename):
    changed = {f: rename(getattr(step, f)) for f in ("operator", "event") if hasattr(step, f)}
    return replace(step, **changed)


@pytest.fixture
def view():
    return collect(diamond_plan())


@pytest.fixture
def taken():
    """The same by two EUs that take queues."""
    return collect(diamond_plan(queues=TAKEN, takers=2))


@pytest.fixture
def plan():
    """Makes plans: see `diamond_plan`."""
    return diamond_plan
