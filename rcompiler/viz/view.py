"""The view model: what there is to see of a schedule, whoever draws it.

Times in ns from the first launch. A task of the view is one run of rTasks: span i of the time line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from rcompiler.device.model import Device
from rcompiler.errors import ArtifactError
from rcompiler.rammer.expected import expected, timed
from rcompiler.rammer.kernel import Kernel
from rcompiler.rammer.placement import derive_graph
from rcompiler.rammer.program import Program
from rcompiler.rammer.timeline import Timeline
from rcompiler.report import OperatorReport, Report
from rcompiler.viz.arena import LiveRange, live_ranges
from rcompiler.viz.measured import Measured
from rcompiler.viz.syncs import Syncs, synchronisation


@dataclass(frozen=True)
class Plan:
    """A schedule and what was decided about it.

    device: that it is played on; made_for: name of the one that it was made for, "" for the same.
    kernels: their times are taken from the report.
    """

    name: str
    policy: str
    device: Device
    programs: Sequence[Program]
    kernels: Sequence[Kernel]
    report: Report
    made_for: str = ""


@dataclass(frozen=True)
class View:
    """A schedule in time.

    device, made_for: names, see `Plan`. programs: names of the launches; dynamic: of each, whether
    its queues are taken, so that the EU of a task is an estimate. operators: by name; edges: from
    the one that writes bytes to each that reads them. path: tasks of the critical path, first to
    last. arena: bytes; live_ranges: of the values in it. measured: when the tasks did run, if that
    is known.
    """

    name: str
    policy: str
    device: str
    made_for: str
    eus: int
    programs: tuple[str, ...]
    dynamic: tuple[bool, ...]
    operators: dict[str, OperatorReport]
    edges: tuple[tuple[str, str], ...]
    timeline: Timeline
    path: tuple[int, ...]
    syncs: Syncs
    arena: int
    arena_bound: int
    live_ranges: tuple[LiveRange, ...]
    measured: Measured | None = None

    @property
    def tasks(self) -> int:
        """rTasks of all runs."""
        return sum(span.count for span in self.timeline.spans)

    @property
    def utilisation(self) -> float:
        """Share of the EUs' time that is spent in rTasks, 0 to 1."""
        whole = self.timeline.makespan_ns * self.eus
        return float(self.timeline.busy_ns.sum()) / whole if whole else 0.0


def collect(plan: Plan, contention: bool = False) -> View:
    """Play a proved schedule by estimate and note who waits for whom and which bytes are in use.

    contention: tasks slow each other down where they ask for more bandwidth than the shared level
    has (always, by what caches keep, if the device is calibrated); without it the makespan is the
    one that the report tells, on the device that it tells of.

    Raises ArtifactError for a report that is not of these programs.
    """
    operators = {op.name: op for op in map(_checked, plan.report.operators)}
    if type(plan.report.arena_bound_bytes) is not int:
        raise _unfit("the bound of its arena is no number")
    graph = derive_graph(plan.programs, timed(plan.kernels, operators.values()))
    for op in graph.operators:
        if op.name not in operators or operators[op.name].kernel != op.kernels[0]:
            raise _unfit(f"it does not tell of operator {op.name}")
    timeline = expected(plan.programs, graph, plan.device, contention=contention)
    return View(
        name=plan.name,
        policy=plan.policy,
        device=plan.device.name,
        made_for=plan.made_for,
        eus=max((program.eus for program in plan.programs), default=1),
        programs=tuple(program.name for program in plan.programs),
        dynamic=tuple(program.dynamic for program in plan.programs),
        operators={op.name: operators[op.name] for op in graph.operators},
        edges=tuple(
            (before, op.name) for op in graph.operators for before in graph.predecessors[op.name]
        ),
        timeline=timeline,
        path=tuple(timeline.critical_numbers()),
        syncs=synchronisation(plan.programs, timeline),
        arena=max((program.arena for program in plan.programs), default=0),
        arena_bound=plan.report.arena_bound_bytes,
        live_ranges=live_ranges(plan.programs, graph, timeline),
    )


def _checked(op: OperatorReport) -> OperatorReport:
    """A report comes from a file: only the types that it is shown with."""
    texts = (op.name, op.kind, op.kernel, op.root, op.reason, op.source)
    sizes = (op.tile, op.register_tile, (op.tasks,))
    times = (op.estimated_ns, op.measured_ns)
    right = (
        all(isinstance(text, str) for text in texts)
        and all(isinstance(s, tuple) and all(type(n) is int for n in s) for s in sizes)
        and all(type(t) in (int, float) and isfinite(t) and t >= 0 for t in times)
    )
    if not right:
        raise _unfit("it holds other things than names, sizes and times")
    return op


def _unfit(what: str) -> ArtifactError:
    return ArtifactError(f"the report does not fit the schedule: {what}; compile the model again")
