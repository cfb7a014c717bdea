"""Compile the cases of ONNX's standard backend tests to schedules (stage S4), run every rTask
in numpy, and compare the outputs with those that ONNX expects. No code is generated.

    python test/interpret --only='conv|lstm' --targets=cpu:v3
    python test/interpret --commit-turn

right: all rTasks are tiled bodies; whole: right, and some are parts of a body that is still the
whole operator; wrong, refused, crash: as of `backend_coverage`. A case fails the run if it is wrong
or a crash, or if it is refused where the record of the conformance suite has it right, or the other
way round. With --commit-turn it is a part of the cases that the commit chooses.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from measurements._case_pool import Outcome, Report, Verdict, run_cases
from measurements.backend_coverage import NETWORKS
from support.turns import turn_of

from rcompiler.driver.host import target_device
from rcompiler.tools._command import Command
from rcompiler.tools._console import doing, pattern, positive

from .judge import WHOLE, Judge

RECORD = Path(__file__).parents[2] / "tools/bench/results/onnx-backend-coverage.json"
TARGETS = "cpu:v4,cuda:h200"
TURNS = 20
# What the record says of a case, by what becomes of it here.
_STATUS = {"pass": "pass", WHOLE: "pass", "refused": "refused"}


def _run(options: argparse.Namespace) -> int:
    """Exit code 1: a case has another outcome than the one that the record claims."""
    targets = options.targets.split(",")
    for target in targets:
        target_device(target)  # refuse a wrong one here, not in every case
    judge = Judge()
    names = [n for n in judge.names if options.only.search(n)]
    names = [n for n in names if options.networks or not NETWORKS.search(n)]
    cases = [f"{target} {name}" for target in targets for name in names]
    cases = turn_of(cases, TURNS) if options.commit_turn else cases

    def job(case: str, report: Report) -> Verdict:
        target, _, name = case.partition(" ")
        return judge.judged(name, target, report)

    outcomes = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ONNX_HOME"] = folder  # where onnx writes the data of its light models
        for outcome in run_cases(cases, job, options.workers, options.timeout):
            outcomes.append(outcome)
            doing(f"{len(outcomes)}/{len(cases)} {outcome.case[:60]}")
    outcomes.sort(key=lambda outcome: outcome.case)
    claimed = {c["case"]: c["status"] for c in json.loads(RECORD.read_text())["cases"]}
    for line in (found := surprises(outcomes, claimed)):
        print(line)
    for target in targets:
        print(f"{target}: {summary(o for o in outcomes if o.case.startswith(target + ' '))}")
    if options.json:
        told = {o.case: [o.status, o.reason, round(o.seconds, 2), dict(o.facts)] for o in outcomes}
        Path(options.json).write_text(json.dumps(told, indent=0) + "\n")
    return 1 if found else 0


def surprises(outcomes: Iterable[Outcome], claimed: Mapping[str, str]) -> list[str]:
    """A line for each case of which the record says another thing; claimed: the status by case."""
    lines = []
    for outcome in outcomes:
        known = claimed.get(outcome.case.partition(" ")[2], "absent")
        if _STATUS.get(outcome.status) != known:
            what = f"{outcome.status}, {known} in the record"
            lines.append(f"{outcome.case}: {what}: {outcome.reason.strip()}")
    return lines


def summary(outcomes: Iterable[Outcome]) -> str:
    """How many cases there are of each outcome, and how many rTasks ran as tiled bodies."""
    kept = list(outcomes)
    counts = Counter(outcome.status for outcome in kept)
    parts = [f"{counts['pass']} right", f"{counts[WHOLE]} right with bodies of whole operators"]
    parts += [f"{counts[name]} {name}" for name in ("wrong", "refused", "crash")]
    tasks = sum(outcome.facts.get("tasks", 0) for outcome in kept)
    return f"{', '.join(parts)}; {tasks} tiled rTasks"


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--only", type=pattern, default=pattern(""), metavar="REGEX", help="cases by their names"
    )
    parser.add_argument("--targets", default=TARGETS, metavar="NAMES", help=f"default: {TARGETS}")
    parser.add_argument("--commit-turn", action="store_true", help="the part that the commit says")
    parser.add_argument("--networks", action="store_true", help="also the whole networks")
    parser.add_argument("--workers", type=positive, default=2, metavar="N", help="default: 2")
    parser.add_argument("--timeout", type=positive, default=120, metavar="S", help="of a case")
    parser.add_argument("--json", metavar="FILE", help="write the outcome of each case")


main = Command("interpret", __doc__, _options, _run)
