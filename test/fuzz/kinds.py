"""What can be made of a seed: a graph, or mutants of one; each gives an outcome."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from . import graphs, judge
from .judge import Outcome, Report
from .maker import Reject
from .mutate_artifacts import artifacts
from .mutate_models import models
from .mutate_passes import passes
from .mutate_schedules import schedules
from .sweep import sweep

Kind = Callable[[int, Sequence[str], Report], Outcome]


def graph(seed: int, targets: Sequence[str], report: Report) -> Outcome:
    """A random valid graph, compiled and judged."""
    report("generate")
    try:
        case = graphs.case_of(seed, targets)
    except Reject:
        return Outcome("no graph")
    return judge.judge(case, report)


KINDS: dict[str, Kind] = {
    "graph": graph,
    "passes": passes,
    "schedules": schedules,
    "models": models,
    "artifacts": artifacts,
    "sweep": sweep,
}
BYTES = ("models", "artifacts")  # whose mutants are files with other bytes
# How often each is tried where all are.
SHARES = {"graph": 12, "passes": 2, "schedules": 1, "models": 1, "artifacts": 1}
