"""Compile the cases of ONNX's standard backend tests to schedules (stage S4), run every rTask
in numpy, and compare the outputs with those that ONNX expects. No code is generated.

    python test/interpret --only='conv|lstm' --targets=cpu:v3
    python test/interpret --commit-turn

right: all rTasks are tiled bodies; whole: right, and some are parts of a body that is still the
whole operator; wrong, refused, crash: as of `backend_coverage`. A case fails the run if its outcome
is not that of the record of the conformance suite, where known.toml has no other one with the
reason. With --commit-turn it is a part of the cases that the commit chooses: a few commits have had
all but those of LARGE, which take minutes each.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from measurements._case_pool import Outcome, Report, Verdict, run_cases
from measurements.backend_coverage import NETWORKS
from peers.known import read
from support.turns import turn_of

from rcompiler.driver.host import target_device
from rcompiler.tools._command import Command
from rcompiler.tools._console import doing, pattern, positive

from .judge import WHOLE, Judge

RECORD = Path(__file__).parents[2] / "tools/bench/results/onnx-backend-coverage.json"
KNOWN = Path(__file__).with_name("known.toml")
TARGETS = "cpu:v4,cuda:h200"
TURNS = 27
# Whole networks, and cases of as many points as hundreds of others together: what they show,
# smaller ones of their operators do.
_CASES = "MaxPool[12]d_stride_padding_dilation|lppool_3d_default|operator_conv"
LARGE = re.compile(f"{NETWORKS.pattern}|^test_({_CASES})$")


def _run(options: argparse.Namespace) -> int:
    """Exit code 1: a case has another outcome than the one that the record claims."""
    targets = options.targets.split(",")
    for target in targets:
        target_device(target)  # refuse a wrong one here, not in every case
    judge = Judge()
    names = [n for n in judge.names if options.only.search(n)]
    names = [n for n in names if options.large or not LARGE.search(n)]
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
    for line in (found := surprises(outcomes, claims(targets))):
        print(line)
    for target in targets:
        print(f"{target}: {summary(o for o in outcomes if o.case.startswith(target + ' '))}")
    if options.json:
        told = {o.case: [o.status, o.reason, round(o.seconds, 2), dict(o.facts)] for o in outcomes}
        Path(options.json).write_text(json.dumps(told, indent=0) + "\n")
    return 1 if found else 0


def claims(targets: Iterable[str]) -> dict[str, str]:
    """The statuses that cases are known to have, by the names of target and case."""
    record = {c["case"]: c["status"] for c in json.loads(RECORD.read_text())["cases"]}
    found = {f"{target} {name}": status for target in targets for name, status in record.items()}
    return found | {name: entry.status for name, entry in read(KNOWN).items() if name in found}


def surprises(outcomes: Iterable[Outcome], claimed: Mapping[str, str]) -> list[str]:
    """A line for each case that has another status than it is known to have."""
    lines = []
    for outcome in outcomes:
        known = claimed.get(outcome.case, "absent")
        status = "pass" if outcome.status == WHOLE else outcome.status
        if status != known or status == "crash":
            lines.append(f"{outcome.case}: {status}, not {known}: {outcome.reason.strip()}")
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
    parser.add_argument("--large", action="store_true", help="also those of LARGE")
    parser.add_argument("--workers", type=positive, default=2, metavar="N", help="default: 2")
    parser.add_argument("--timeout", type=positive, default=120, metavar="S", help="of a case")
    parser.add_argument("--json", metavar="FILE", help="write the outcome of each case")


main = Command("interpret", __doc__, _options, _run)
