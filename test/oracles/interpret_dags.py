"""Every policy on random graphs: proved by the validator, then executed by the interpreter.

    python test/oracles interpret_dags --graphs=1000 --interleavings=20 --json=dags.json

Each graph is scheduled by each policy on a few numbers of EUs, which go through 1..132 from graph
to graph. A schedule must be accepted by `validate` and give the reference results in every
interleaving, on the weakest memory that the semantics allow. A failure prints the number of its
graph; --first=NUMBER --graphs=1 repeats it.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

from oracles._random_graphs import random_graph
from oracles.interpret import Adversary, ScheduleInterpreter
from rcompiler.errors import ScheduleError
from rcompiler.rammer.schedule import POLICIES, schedule
from rcompiler.tools._command import Command
from rcompiler.tools._console import positive, table
from rcompiler.tools._record import keep

MOST_EUS = 132
_STRIDE = 53  # coprime to MOST_EUS: consecutive numbers are far apart, and all come up


@dataclass
class PolicyFigures:
    """Of the schedules of one policy. eus: how often each number of EUs came up."""

    schedules: int = 0
    programs: int = 0
    tasks: int = 0
    waits: int = 0
    in_place: int = 0
    reused_bytes: int = 0
    interleavings: int = 0
    phases: int = 0
    eus: Counter[int] = field(default_factory=Counter)

    def add(self, other: PolicyFigures) -> None:
        """Sum up."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)


def try_graph(
    number: int, interleavings: int, numbers_of_eus: int
) -> tuple[dict[str, PolicyFigures], list[str]]:
    """Figures by policy, and failures, of one graph."""
    rng = random.Random(number)
    graph = random_graph(rng, rng.randint(1, 12), rng.choice((16, 64, 64, 200)))
    found: dict[str, PolicyFigures] = {}
    failures: list[str] = []
    for policy in POLICIES:
        figures = found[policy] = PolicyFigures()
        for k in range(numbers_of_eus):
            eus = 1 + (number * numbers_of_eus + k) * _STRIDE % MOST_EUS
            try:
                plan = schedule(graph, eus, policy=policy)
                interpreter = ScheduleInterpreter(plan.programs, graph)
                for seed in range(interleavings):
                    figures.phases += interpreter.execute(Adversary(seed)).steps
            except ScheduleError as error:
                failures.append(f"graph {number}, {policy} on {eus} EUs: {error}")
                continue
            figures.add(
                PolicyFigures(
                    1,
                    len(plan.programs),
                    plan.certificate.tasks,
                    plan.certificate.waits,
                    plan.memory.in_place,
                    plan.memory.plain - plan.memory.peak,
                    interleavings,
                    0,
                    Counter({eus: 1}),
                )
            )
    return found, failures


def _run(options: argparse.Namespace) -> int:
    """Exit code 1: a schedule failed."""
    started = time.monotonic()
    totals = {policy: PolicyFigures() for policy in POLICIES}
    failures: list[str] = []
    numbers = range(options.first, options.first + options.graphs)
    with ProcessPoolExecutor(options.jobs) as pool:
        rest = ([options.interleavings] * len(numbers), [options.eus] * len(numbers))
        for found, wrong in pool.map(try_graph, numbers, *rest, chunksize=4):
            for policy, figures in found.items():
                totals[policy].add(figures)
            for text in wrong:
                print(f"wrong: {text}", file=sys.stderr, flush=True)
            failures += wrong
    _print(totals)
    print(f"{options.graphs} graphs, {len(failures)} failures")
    keep(
        options,
        seconds=round(time.monotonic() - started, 1),
        failures=failures,
        policies={policy: _entry(figures) for policy, figures in totals.items()},
    )
    return 1 if failures else 0


def _entry(figures: PolicyFigures) -> dict[str, object]:
    counts = figures.eus.values()
    return vars(figures) | {
        "eus": {
            "different": len(figures.eus),
            "least": min(figures.eus, default=0),
            "most": max(figures.eus, default=0),
            "schedules_of_each": [min(counts, default=0), max(counts, default=0)],
        }
    }


def _print(totals: dict[str, PolicyFigures]) -> None:
    header = ("policy", "schedules", "EU numbers", "tasks", "waits", "interleavings", "phases")
    rows = [
        (p, f.schedules, len(f.eus), f.tasks, f.waits, f.interleavings, f.phases)
        for p, f in totals.items()
    ]
    table(header, rows)


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--graphs", type=positive, default=100, metavar="N", help="default: 100")
    parser.add_argument(
        "--interleavings", type=positive, default=20, metavar="N",
        help="executions of each schedule; default: 20",
    )  # fmt: skip
    parser.add_argument(
        "--eus", type=positive, default=2, metavar="N",
        help="numbers of EUs for each graph and policy; default: 2",
    )  # fmt: skip
    parser.add_argument("--first", type=int, default=0, metavar="N", help="number of a graph")
    parser.add_argument("--jobs", type=positive, default=1, metavar="N", help="processes")
    parser.add_argument("--json", metavar="FILE", help="write a record")


main = Command(__name__, __doc__, _options, _run)
