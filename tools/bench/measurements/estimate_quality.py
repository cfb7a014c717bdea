"""What operators are expected to take beside what they take, on one EU of this machine.

    python tools/bench estimate_quality --only='softmax|gemv' --json=estimates.json

Each operator is an ONNX model of its own, see _estimate_cases.py, compiled for one EU by the
measured record of this machine. Expected is the makespan of its report. All models take turns in
short rounds; measured is the best round's median, since whatever disturbs a round makes it longer.
Schedules are chosen by what is expected, and a wrong figure gives the work to too many EUs, or too
few. An operator is off by what the larger of both times is of the smaller one.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from measurements._shared import chosen, operator_options
from rcompiler.errors import CompilerError
from rcompiler.tools._command import Command
from rcompiler.tools._console import (
    doing,
    report,
    table,
    timing_options,
)
from rcompiler.tools._record import keep

if TYPE_CHECKING:
    from measurements._estimate_cases import EstimateCase

_SHORTEST_US = 20.0  # below, the call and the clock are a part of what is measured
_FAR = 3.0  # what no estimate may be off by


@dataclass(frozen=True)
class Estimate:
    """Times of one operator in microseconds. operators: how many the compiler made of it."""

    kind: str
    name: str
    expected_us: float
    measured_us: float
    operators: int

    @property
    def off(self) -> float:
        """The larger time relative to the smaller one."""
        return max(self.measured_us / self.expected_us, self.expected_us / self.measured_us)

    @property
    def counts(self) -> bool:
        """Whether it takes long enough to be timed."""
        return self.measured_us >= _SHORTEST_US

    @property
    def far(self) -> bool:
        return self.counts and self.off > _FAR


def worst_first(estimates: Iterable[Estimate]) -> list[Estimate]:
    """By how far they are off; those too short to be timed at the end."""
    return sorted(estimates, key=lambda e: (not e.counts, -e.off, e.kind, e.name))


def _run(options: argparse.Namespace) -> int:
    """Exit code 1: an operator failed. An estimate that is far off is no failure."""
    from measurements._estimate_cases import estimate_cases

    cases = chosen(estimate_cases(), options.only, lambda c: f"{c.kind} {c.name}")
    found, failures = _measured(cases, options)
    _print(found)
    keep(
        options,
        far=[f"{e.kind} {e.name}" for e in found if e.far],
        operators=[vars(e) | {"off": e.off} for e in found],
    )
    return report("estimate_quality", failures)


def _measured(
    cases: Sequence[EstimateCase], options: argparse.Namespace
) -> tuple[list[Estimate], list[str]]:
    """The estimates, worst first, and what went wrong with others."""
    import rcompiler
    from rcompiler.support.random_inputs import random_inputs
    from rcompiler.tools._measure import interleaved, medians

    bound: dict[str, Any] = {}
    models, failures = {}, []
    for case in cases:
        name = f"{case.kind} {case.name}"
        doing(name)
        try:
            model: Any = rcompiler.compile_onnx(case.build(), target=options.target, eus=1)
            bound[name] = model.bind(random_inputs(model.inputs, ranges=case.ranges))
            models[name] = case, model.report()
        except CompilerError as error:
            failures.append(f"{name}: {error}")
    doing("timing")
    times = interleaved(bound, options.rounds, options.seconds / options.rounds, options.clock)
    found = []
    for name, (case, told) in models.items():
        best = float(medians(times[name]).min())
        expected = max(told.makespan_ns, 1.0) / 1e3
        found.append(Estimate(case.kind, case.name, expected, best / 1e3, len(told.operators)))
    return worst_first(found), failures


def _print(found: Sequence[Estimate]) -> None:
    rows = [
        [e.kind, e.name, f"{e.expected_us:.4g}", f"{e.measured_us:.4g}"]
        + [f"{e.measured_us / e.expected_us:.2f}", "far" if e.far else "" if e.counts else "short"]
        for e in found
    ]
    table(["kind", "operator", "us expected", "us measured", "ratio", ""], rows)
    timed = [e for e in found if e.counts]
    far = sum(e.far for e in timed)
    print(f"{far} of {len(timed)} operators of {_SHORTEST_US:g} us and more are off by > {_FAR:g}x")


def _options(parser: argparse.ArgumentParser) -> None:
    operator_options(parser)
    timing_options(parser, "operator", 5, 0.1)


main = Command(__name__, __doc__, _options, _run)
