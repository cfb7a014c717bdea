"""Try each operator with each type, attribute and optional input of each version, and compare.

    python test/operators --only='^Pad|^Slice'
    python test/operators --record

Graphs of one operator are drawn as for the fuzzer, in the newest form, and written in older ones;
onnxruntime judges the results, then onnx.reference, then an evaluation in f64. record.json has who
judged each cell of the table, why it is refused, or that no graph has it. A cell that was right and
no longer is, or that was refused for another reason, fails a run, and so does a wrong result.
With --commit-turn it is a part of the operators that the commit chooses.
"""

from __future__ import annotations

import argparse
import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from measurements._case_pool import Outcome, Report, Verdict, run_cases
from support.turns import turn_of

from rcompiler.frontend import contrib
from rcompiler.tools._command import Command
from rcompiler.tools._console import doing, pattern, positive

from . import compared, trials

RECORD = Path(__file__).with_name("record.json")
TURNS = 20
Found = Mapping[str, Mapping[str, str]]  # what is known of cells, by jobs


def _run(options: argparse.Namespace) -> int:
    """Exit code 1: a wrong result, a crash, or a cell that was right and is not."""
    os.environ.setdefault("RC_DEVICE", "default")
    jobs = [job for job in trials.jobs() if options.only.search(job)]
    jobs = turn_of(jobs, TURNS) if options.commit_turn else jobs
    if any(contrib.DOMAIN in job for job in jobs):
        compared.trials()  # once, for all workers
    found: dict[str, dict[str, str]] = {}
    failures: list[str] = []
    runs = 0

    def work(job: str, report: Report) -> Verdict:
        return Verdict("done", facts=trials.tried(job, report))

    def without_engine(job: str, report: Report) -> Verdict:
        return Verdict("done", facts=trials.tried(job, report, engine=False))

    def outcomes() -> Iterator[Outcome]:
        ended = []
        for outcome in run_cases(jobs, work, options.workers, options.timeout):
            if outcome.status == "crash" and outcome.subject == "onnxruntime":
                ended.append(outcome.case)  # it ended the process
            else:
                yield outcome
        yield from run_cases(ended, without_engine, options.workers, options.timeout)

    for outcome in outcomes():
        if outcome.status == "crash":
            failures.append(f"{outcome.case}: crash: {outcome.reason}")
            continue
        found[outcome.case] = outcome.facts["cells"]
        runs += outcome.facts["runs"]
        failures += [f"{outcome.case}: wrong: {text}" for text in outcome.facts["wrong"]]
        doing(f"{len(found)}/{len(jobs)} {outcome.case}")
    if options.record:
        _keep(found)
    else:
        failures += worse(found, json.loads(RECORD.read_text()))
    for line in failures:
        print(line)
    counts = Counter(kind_of(text) for cells in found.values() for text in cells.values())
    print(", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())), f"in {runs} runs")
    return 1 if failures else 0


def kind_of(text: str) -> str:
    """What is known of a cell without the reason: the judge, refused, wrong, unjudged, no case."""
    return text.partition(":")[0]


def worse(found: Found, record: Found) -> list[str]:
    """A line for each cell that the record has right and that is not, or that it does not have.
    Another judge is no difference.
    """
    lines = []
    for job, cells in sorted(found.items()):
        for cell, text in cells.items():
            known = record.get(job, {}).get(cell, "absent")
            bad = {"refused", "wrong", "unjudged", "no case", "absent"}
            if known == "absent" or kind_of(text) in bad and kind_of(known) not in bad:
                lines.append(f"{job} {cell}: {known} in the record, {text} here")
    return lines


def _keep(found: Mapping[str, Any]) -> None:
    known = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    there = set(trials.jobs())
    whole = {job: cells for job, cells in (known | dict(found)).items() if job in there}
    RECORD.write_text(json.dumps(dict(sorted(whole.items())), indent=0) + "\n")


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--only", type=pattern, default=pattern(""), metavar="REGEX",
        help="of operator|domain|version",
    )  # fmt: skip
    parser.add_argument("--commit-turn", action="store_true", help="the part that the commit says")
    parser.add_argument("--record", action="store_true", help="write what is found as the record")
    parser.add_argument("--workers", type=positive, default=2, metavar="N", help="default: 2")
    parser.add_argument("--timeout", type=positive, default=600, metavar="S", help="of an operator")


main = Command("operators", __doc__, _options, _run)
