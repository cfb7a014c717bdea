"""What can be made of a seed: graphs, and later mutations; each gives an outcome."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from . import graphs, judge
from .judge import Outcome, Report
from .maker import Reject

Kind = Callable[[int, Sequence[str], Report], Outcome]


def graph(seed: int, targets: Sequence[str], report: Report) -> Outcome:
    """A random valid graph, compiled and judged."""
    report("generate")
    try:
        case = graphs.case_of(seed, targets)
    except Reject:
        return Outcome("no graph")
    return judge.judge(case, report)


KINDS: dict[str, Kind] = {"graph": graph}
