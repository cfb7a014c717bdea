"""Compile a fixed set, and compare what it made with the record, or write the record."""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from measurements._case_pool import Outcome, Report, Verdict, run_cases

from rcompiler.errors import CompilerError
from rcompiler.tools._command import Command
from rcompiler.tools._console import doing, pattern, positive

from .cases import cases
from .from_text import unlike
from .hashes import compiled, differing, hashes, write_texts

RECORD = Path(__file__).parent / "record.json"
# Whose versions decide what is made; pinned is the first alone.
_PACKAGES = ("torch-mlir", "llvmlite", "numpy", "onnx")
Hashes = Mapping[str, str]


def job(name: str, report: Report) -> Verdict:
    """One case, in this process."""
    try:
        return Verdict("made", facts=hashes(compiled(cases()[name])))
    except CompilerError as error:
        return Verdict("refused", str(error))


def job_from_text(name: str, report: Report) -> Verdict:
    """As `job`, and what the printed texts give again."""
    case = cases()[name]
    try:
        made = compiled(case)
        report("from text")
        wrong = unlike(case, made)
    except CompilerError as error:
        return Verdict("refused", str(error))
    if wrong:
        return Verdict("unlike", f"its text gives another {', '.join(wrong)}")
    return Verdict("made", facts=hashes(made))


def _run(options: argparse.Namespace) -> int:
    """Exit code 1: something differs from the record, or fails."""
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {"versions": {}, "cases": {}}
    every = cases()
    chosen = [name for name in every if not options.only or options.only.search(name)]
    if not chosen:
        raise CompilerError(f"--only={options.only.pattern}: no case has such a name")
    if options.texts:
        for name in chosen:
            write_texts(compiled(every[name]), options.texts / name.replace(" ", "_"))
        return 0
    work = job_from_text if options.from_text else job
    begun, made = time.monotonic(), dict[str, Outcome]()
    for outcome in run_cases(chosen, work, options.workers, options.timeout):
        made[outcome.case] = outcome
        doing(f"{len(made)}/{len(chosen)} {outcome.case}")
    failed = {name: o.reason for name, o in made.items() if o.status != "made"}
    for name, reason in sorted(failed.items()):
        print(f"{name}: {reason[-300:]}")
    found = {name: o.facts for name, o in sorted(made.items()) if name not in failed}
    seconds = time.monotonic() - begun
    if options.record:
        known = {name: each for name, each in record["cases"].items() if name in every}
        write(RECORD, {**known, **found})
        print(f"{len(found)} cases recorded, {seconds:.0f} s")
        return 1 if failed else 0
    changes = compare(record, found)
    print(f"{len(found)} cases, {len(changes)} differ from the record, {seconds:.0f} s")
    return 1 if failed or changes else 0


def compare(record: Mapping[str, Mapping[str, Hashes]], found: Mapping[str, Hashes]) -> list[str]:
    """The cases that are not as in the record; each is printed with the stages that differ."""
    versions = _versions()
    others = {p: v for p, v in record["versions"].items() if versions.get(p) != v}
    for package, version in others.items():
        print(f"{package} {versions[package]}, in the record {version}: differences may be its own")
    llvm = "llvmlite" not in others
    changes, first = [], Counter[str]()
    for name, each in found.items():
        if name not in record["cases"]:
            print(f"{name}: not in the record")
        elif stages := differing(record["cases"][name], each, llvm):
            print(f"{name}: {', '.join(stages)}")
            first[stages[0]] += 1
        else:
            continue
        changes.append(name)
    for stage, count in first.most_common():
        print(f"{count} differ from stage {stage} on")
    if changes:
        print(
            "a refactoring changes none of them: look at them with --texts=FOLDER here and in the "
            "commit before; a commit that changes code says so, and which, and brings the record "
            "that --record writes"
        )
    return changes


def write(path: Path, found: Mapping[str, Hashes]) -> None:
    """A record with a line for each case, so that a change of it can be read."""
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(found[name])}" for name in sorted(found))
    versions = json.dumps(_versions())
    path.write_text(f'{{"versions": {versions},\n "cases": {{\n{lines}\n }}}}\n')


def _versions() -> dict[str, str]:
    return {package: metadata.version(package) for package in _PACKAGES}


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", type=pattern, metavar="PATTERN", help="cases whose name matches")
    parser.add_argument("--record", action="store_true", help="write the record of what is made")
    parser.add_argument(
        "--texts", type=Path, metavar="FOLDER", help="write the texts of stages instead"
    )
    parser.add_argument(
        "--from-text",
        action="store_true",
        help="print S1 and S4, too: what is made of the texts alone is the same",
    )
    parser.add_argument("--workers", type=positive, default=2, metavar="N", help="default: 2")
    parser.add_argument("--timeout", type=positive, default=1800, metavar="S", help="of a case")


main = Command("replay", __doc__, _options, _run)
