"""Run the cases of other projects' suites, and compare what becomes of them with what is known.

    python test/peers --only='Resize|Pad'
    python test/peers --commit-turn

A case is right, or it stands in known.toml with the reason: why what its project expects is not
what the operator's definition says, or what is refused. A case that has another status fails the
run, so that what is mended leaves the file. With --commit-turn it is a part of the cases that the
commit chooses: a few commits have had all.
"""

from __future__ import annotations

import argparse
import resource
from collections.abc import Mapping

from measurements._case_pool import Outcome, Report, Verdict, run_cases
from support.turns import turn_of

from rcompiler.tools._command import Command
from rcompiler.tools._console import doing, pattern, positive

from . import archive, judge
from .known import KNOWN, Known, read

MEMORY = 8 << 30  # bytes of address space of a worker
TURNS = 4


def _run(options: argparse.Namespace) -> int:
    """Exit code 1: a case has another status than the one that is known."""
    cases = {c.name: c for c in archive.cases() if options.only.search(c.name)}
    known = {name: entry for name, entry in read(KNOWN).items() if options.only.search(name)}
    names = turn_of(cases, TURNS) if options.commit_turn else [*cases]

    def job(name: str, report: Report) -> Verdict:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        return judge.judged(cases[name])

    outcomes = []
    for outcome in run_cases(names, job, options.workers, options.timeout):
        outcomes.append(outcome)
        doing(f"{len(outcomes)}/{len(names)} {outcome.case[:60]}")
    for line in (found := surprises(outcomes, known)):
        print(line)
    for name in (gone := sorted(known.keys() - cases.keys())):
        print(f"{name} is known, and no case")
    passed = sum(outcome.status == "pass" for outcome in outcomes)
    print(f"{passed} of {len(outcomes)} cases right, {len(found)} other than known")
    return 1 if found or gone else 0


def surprises(outcomes: list[Outcome], known: Mapping[str, Known]) -> list[str]:
    """A line for each case that has another status than the one that is known of it."""
    lines = []
    for outcome in sorted(outcomes, key=lambda o: o.case):
        entry = known.get(outcome.case)
        claimed = entry.status if entry else "pass"
        if outcome.status != claimed:
            lines.append(f"{outcome.case}: {outcome.status}, not {claimed}: {outcome.reason}")
    return lines


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--only", type=pattern, default=pattern(""), metavar="REGEX", help="cases by their names"
    )
    parser.add_argument("--commit-turn", action="store_true", help="the part that the commit says")
    parser.add_argument("--workers", type=positive, default=2, metavar="N", help="default: 2")
    parser.add_argument("--timeout", type=positive, default=120, metavar="S", help="of a case")


main = Command("peers", __doc__, _options, _run)
