"""The validator against an oracle that tries every execution, on mutants of legal programs.

    python test/oracles mutate_programs --mutants=100000 --json=mutants.json

Small legal programs (of the policies, and of random schedules that synchronise more than they need)
are changed in one way or two; validator and oracle judge each mutant by themselves. Any difference
is printed with the number of its program and is a failure. With --json, the record is written after
every chunk, and a later call with the same file goes on from there.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from oracles._mutants import KINDS, mutant
from oracles._oracle import Illegal, Oracle, TooLarge
from oracles._random_graphs import random_graph
from oracles._random_programs import random_programs
from rcompiler.errors import ScheduleError
from rcompiler.rammer.graph import Graph
from rcompiler.rammer.program import Program
from rcompiler.rammer.validate import validate
from rcompiler.tools._command import Command
from rcompiler.tools._console import positive, table
from rcompiler.tools._record import write_record

UNCHANGED = "unchanged"
_OF_EACH = 2  # mutants of each kind and program
# Verdicts of validator and oracle; the last two must not occur.
ACCEPTED, REFUSED, UNDECIDED = "accepted", "refused", "undecided"
FALSE_ACCEPT, FALSE_REJECT = "false accept", "false reject"
VERDICTS = (ACCEPTED, REFUSED, UNDECIDED, FALSE_ACCEPT, FALSE_REJECT)

Counts = Counter[tuple[str, str]]  # (kind, verdict)


def judge(programs: Sequence[Program], graph: Graph) -> tuple[str, str]:
    """(verdict, what validator and oracle say)."""
    refused, illegal = "", ""
    try:
        validate(programs, graph)
    except ScheduleError as error:
        refused = f"{error.rule}: {error}"
    try:
        Oracle(programs, graph).check()
    except Illegal as error:
        illegal = str(error)
    except TooLarge:
        return UNDECIDED, ""
    words = f"validator: {refused or 'accepted'}; oracle: {illegal or 'legal'}"
    if bool(refused) == bool(illegal):
        return (REFUSED if refused else ACCEPTED), words
    return (FALSE_REJECT if refused else FALSE_ACCEPT), words


def program_of(number: int) -> tuple[random.Random, Graph, tuple[Program, ...]]:
    """A legal program and its graph; the rest of its random numbers."""
    rng = random.Random(number)
    graph = random_graph(rng, rng.choice((2, 3, 3, 4, 4, 4, 6, 8)), rng.choice((4, 6, 8)))
    return rng, graph, random_programs(rng, graph)


def try_program(number: int) -> tuple[Counts, Counter[str], list[str]]:
    """Verdicts by kind, refusals by the validator's rule, and differences, of one program."""
    rng, graph, programs = program_of(number)
    counts: Counts = Counter()
    rules: Counter[str] = Counter()
    differences: list[str] = []
    seen = set()
    for kind in (UNCHANGED, *(kind for kind in KINDS for _ in range(_OF_EACH))):
        changed = programs if kind == UNCHANGED else mutant(rng, kind, programs)
        if changed is None or changed in seen:
            continue
        seen.add(changed)
        verdict, words = judge(changed, graph)
        counts[kind, verdict] += 1
        if verdict == REFUSED:
            rules[words.split(":")[1].strip()] += 1
        if verdict in (FALSE_ACCEPT, FALSE_REJECT) or (kind, verdict) == (UNCHANGED, REFUSED):
            differences.append(f"program {number}, {kind}, {verdict}: {words}")
    return counts, rules, differences


def _run(options: argparse.Namespace) -> int:
    """Exit code 1: they do not."""
    state = _State(options)
    with ProcessPoolExecutor(options.jobs) as pool:
        while state.mutants() < options.mutants:
            numbers = range(state.next, state.next + options.chunk)
            for counts, rules, differences in pool.map(try_program, numbers, chunksize=5):
                state.counts += counts
                state.rules += rules
                for text in differences:
                    print(f"wrong: {text}", file=sys.stderr, flush=True)
                state.differences += differences
            state.next = numbers.stop
            state.save()
            print(f"{state.mutants()} mutants", file=sys.stderr, flush=True)
    _print(state.counts)
    wrong = len(state.differences)
    print(f"{state.mutants()} mutants of {state.next} programs, {wrong} differences")
    return 1 if wrong else 0


class _State:
    """What is known so far; kept in the record between calls."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.path = Path(options.json) if options.json else None
        self.next, self.seconds = options.first, 0.0
        self.counts: Counts = Counter()
        self.rules: Counter[str] = Counter()
        self.differences: list[str] = []
        if self.path and self.path.exists():
            self._load(json.loads(self.path.read_text()))
        self.started = time.monotonic()

    def _load(self, record: dict[str, Any]) -> None:
        self.next, self.seconds = record["programs"], record["seconds"]
        for kind, verdicts in record["kinds"].items():
            for verdict, number in verdicts.items():
                self.counts[kind, verdict] = number
        self.rules.update(record["refused_by_rule"])
        self.differences = record["differences"]

    def mutants(self) -> int:
        """Different mutants judged so far."""
        return sum(number for (kind, _), number in self.counts.items() if kind != UNCHANGED)

    def save(self) -> None:
        """Write the record."""
        if not self.path:
            return
        record = {
            "command": f"python test/oracles mutate_programs --mutants={self.mutants()}",
            "programs": self.next,
            "mutants": self.mutants(),
            "seconds": round(self.seconds + time.monotonic() - self.started, 1),
            "verdicts": {v: sum(n for (k, w), n in self.counts.items() if w == v and k != UNCHANGED)
                         for v in VERDICTS},
            "kinds": {kind: {v: self.counts[kind, v] for v in VERDICTS if self.counts[kind, v]}
                      for kind in (UNCHANGED, *KINDS)},
            "refused_by_rule": dict(sorted(self.rules.items())),
            "differences": self.differences,
        }  # fmt: skip
        write_record(self.path, record)


def _print(counts: Counts) -> None:
    rows = [
        (kind, *(counts[kind, verdict] for verdict in VERDICTS)) for kind in (UNCHANGED, *KINDS)
    ]
    table(("kind", *VERDICTS), rows)


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--mutants", type=positive, default=2000, metavar="N", help="at least; default: 2000"
    )
    parser.add_argument("--first", type=int, default=0, metavar="N", help="number of a program")
    parser.add_argument("--jobs", type=positive, default=1, metavar="N", help="processes")
    parser.add_argument(
        "--chunk", type=positive, default=200, metavar="N",
        help="programs between two records; default: 200",
    )  # fmt: skip
    parser.add_argument("--json", metavar="FILE", help="the record to write, or to go on with")


# Its record is read before it is written.
main = Command(__name__, __doc__, _options, _run, writes=())
