"""What can be made of a seed: a graph, or mutants of one; each gives an outcome."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from . import graphs, judge, quantisers, ranges
from . import halves as half_graphs
from . import large as large_graphs
from . import quantised as quantised_networks
from .calls import calls
from .graphs import Case
from .judge import Outcome, Report
from .maker import Reject
from .mutate_artifacts import artifacts
from .mutate_models import models
from .mutate_passes import passes
from .mutate_schedules import schedules
from .sized import sized
from .sweep import sweep

Kind = Callable[[int, Sequence[str], Report], Outcome]


CaseOf = Callable[[int, Sequence[str]], Case]
Judge = Callable[..., Outcome]  # of a case and a report


def _judged(case_of: CaseOf, judged: Judge) -> Kind:
    """Random valid graphs, compiled and judged. case_of: the case of a seed; raises Reject."""

    def kind(seed: int, targets: Sequence[str], report: Report) -> Outcome:
        report("generate")
        try:
            case = case_of(seed, targets)
        except Reject as error:
            return Outcome("no graph", str(error))
        return judged(case, report)

    return kind


# Those of one graph each, which can be made small: the case of a seed, and the judge of cases.
OF_GRAPHS: dict[str, tuple[CaseOf, Judge]] = {
    "graph": (graphs.case_of, judge.judge),
    "quantised": (quantised_networks.case_of, quantised_networks.judged),
    "quantisers": (quantisers.case_of, quantised_networks.judged),
    "ranges": (ranges.case_of, ranges.judged),
    "halves": (half_graphs.case_of, judge.judge),
    "large": (large_graphs.case_of, judge.judge),
}
KINDS: dict[str, Kind] = {
    **{name: _judged(*pair) for name, pair in OF_GRAPHS.items()},
    "passes": passes,
    "schedules": schedules,
    "models": models,
    "artifacts": artifacts,
    "sized": sized,
    "calls": calls,
    "sweep": sweep,
}
BYTES = ("models", "artifacts")  # whose mutants are files with other bytes
# How often each is tried where all are.
SHARES = {
    **{"graph": 10, "sized": 1, "quantised": 1, "quantisers": 1, "calls": 1, "halves": 1},
    **{"ranges": 1, "large": 1, "passes": 2, "schedules": 1, "models": 1, "artifacts": 1},
}
