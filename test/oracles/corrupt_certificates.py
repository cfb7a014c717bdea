"""The checker of certificates against an oracle that tries every execution, on spoilt schedules.

    python test/oracles corrupt_certificates --corruptions=10000

Small legal programs are spoilt: their schedule (with the best certificate that there is for it, and
with the old one), the words of their streams, offsets, thresholds, notes and certificates. What the
checker accepts must be legal by the oracle; what is unchanged must be accepted. What it refuses
although it is legal is counted: a certificate that claims too little is no fault of the schedule.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

from oracles._corruptions import CORRUPTIONS, facts_of, programs_of
from oracles._mutants import KINDS, mutant
from oracles._oracle import Illegal, Oracle, TooLarge
from oracles.mutate_programs import program_of
from rcompiler.checker import Facts, Refused, check
from rcompiler.errors import CompilerError, ScheduleError
from rcompiler.rammer.graph import Graph
from rcompiler.tools._command import Command
from rcompiler.tools._console import positive, table

UNCHANGED, STALE, FORGED = "unchanged", ", old certificate", ", forged clocks"
ACCEPTED, REFUSED, TOO_STRICT, UNDECIDED, UNSAFE = (
    "accepted", "refused", "refused, legal", "undecided", "accepted, unsafe",
)  # fmt: skip
VERDICTS = (ACCEPTED, REFUSED, TOO_STRICT, UNDECIDED, UNSAFE)
_CHUNK = 40  # programs
_OF_EACH = 3  # corruptions of each kind and program

Counts = Counter[tuple[str, str]]


def judge(facts: Facts, graph: Graph) -> tuple[str, str]:
    """(verdict, what checker and oracle say)."""
    refused, illegal = "", ""
    try:
        check(facts)
    except Refused as error:
        refused = f"{error.rule}: {error}"
    except (TypeError, ValueError, KeyError, IndexError, OverflowError) as error:
        refused = f"unreadable: {error!r}"
    try:
        Oracle(programs_of(facts, graph), graph).check()
    except (Illegal, CompilerError, StopIteration, KeyError, IndexError, ValueError) as error:
        illegal = f"{type(error).__name__} {error}"
    except TooLarge:
        return UNDECIDED, ""
    words = f"checker: {refused or 'accepted'}; oracle: {illegal or 'legal'}"
    if refused:
        return (REFUSED if illegal else TOO_STRICT), words
    return (UNSAFE if illegal else ACCEPTED), words


def spoilt(number: int) -> Iterator[tuple[str, Facts, Graph]]:
    """(kind, facts, graph) of the unchanged program and of everything that is made of it."""
    rng, graph, programs = program_of(number)
    facts = facts_of(programs, graph)
    yield UNCHANGED, facts, graph
    for kind, change in CORRUPTIONS.items():
        for _ in range(_OF_EACH):
            if (changed := change(rng, facts)) is not None:
                yield kind, changed, graph
    for kind in KINDS:
        if (mutated := mutant(rng, kind, programs)) is None:
            continue
        try:
            changed = facts_of(mutated, graph, programs)
        except ScheduleError:  # it deadlocks: there is no certificate
            continue
        yield kind, changed, graph
        yield kind + STALE, replace(changed, clocks=facts.clocks), graph
        if (forged := CORRUPTIONS["forged-clocks"](rng, changed)) is not None:
            yield kind + FORGED, forged, graph


def try_program(number: int) -> tuple[Counts, Counter[str], list[str]]:
    """Verdicts by kind, refusals by rule, and what must not be, of one program."""
    counts: Counts = Counter()
    rules: Counter[str] = Counter()
    wrong: list[str] = []
    for kind, facts, graph in spoilt(number):
        verdict, words = judge(facts, graph)
        counts[kind, verdict] += 1
        if verdict == REFUSED:
            rules[words.split(":")[1].strip()] += 1
        if verdict == UNSAFE or (kind == UNCHANGED and verdict not in (ACCEPTED, UNDECIDED)):
            wrong.append(f"program {number}, {kind}, {verdict}: {words}")
    return counts, rules, wrong


def _run(options: argparse.Namespace) -> int:
    """Exit code 1: something was."""
    counts: Counts = Counter()
    rules: Counter[str] = Counter()
    wrong: list[str] = []
    number = options.first
    with ProcessPoolExecutor(options.jobs) as pool:
        while _corruptions(counts) < options.corruptions:
            chunk = range(number, number + _CHUNK)
            for found, by_rule, faults in pool.map(try_program, chunk, chunksize=5):
                counts += found
                rules += by_rule
                wrong += faults
            number = chunk.stop
    for text in wrong:
        print(f"wrong: {text}", file=sys.stderr)
    kinds = sorted({kind for kind, _ in counts})
    table(("kind", *VERDICTS), [(kind, *(counts[kind, v] for v in VERDICTS)) for kind in kinds])
    print("refused by rule: " + ", ".join(f"{rule} {n}" for rule, n in sorted(rules.items())))
    unsafe = sum(n for (_, verdict), n in counts.items() if verdict == UNSAFE)
    programs = number - options.first
    print(f"{_corruptions(counts)} corruptions of {programs} programs, {unsafe} unsafe accepted")
    return 1 if wrong else 0


def _corruptions(counts: Counts) -> int:
    return sum(n for (kind, _), n in counts.items() if kind != UNCHANGED)


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--corruptions", type=positive, default=2000, metavar="N", help="at least; default: 2000"
    )
    parser.add_argument("--first", type=int, default=0, metavar="N", help="number of a program")
    parser.add_argument("--jobs", type=positive, default=1, metavar="N", help="processes")


main = Command(__name__, __doc__, _options, _run)
