"""Which seeded faults are found by the checks that are named for them.

    python test/mutants                    all, one after the other: many minutes
    python test/mutants --only='^rammer'   those whose name matches
    python test/mutants --json=before.json; ...; python test/mutants --against=before.json
    python test/mutants --record           test/mutants/kills.json

Each is tried in a copy of the checkout: its check must pass without the fault, and fail with it.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rcompiler.tools._command import Command, Misused
from rcompiler.tools._console import doing, pattern, report, table

from .fault import Fault
from .tables import ALL
from .tree import Tree, Tried

RECORD = Path(__file__).with_name("kills.json")
Kill = dict[str, Any]  # name, killed, check, and the seconds if they were kept


def as_kill(fault: Fault, tried: Tried) -> Kill:
    """A line of a list."""
    return {
        "name": fault.name,
        "killed": tried.outcome == "killed",
        "check": fault.check,
        "seconds": round(tried.seconds, 1),
    }


def lost(before: Sequence[Kill], after: Sequence[Kill], only: Sequence[str]) -> list[str]:
    """A line for each fault that was killed before and is not now, of those named."""
    now = {kill["name"]: kill["killed"] for kill in after}
    return [
        f"{kill['name']}: was killed by {kill['check']}, "
        + ("and is not" if kill["name"] in now else "and is in no table any more")
        for kill in before
        if kill["killed"] and kill["name"] in only and not now.get(kill["name"])
    ]


def read(path: Path) -> list[Kill]:
    """A list that was written."""
    kills: list[Kill] = json.loads(path.read_text())
    return kills


def write(path: Path, kills: Sequence[Kill]) -> None:
    """With a line for each fault, so that a change of it can be read."""
    path.write_text("[\n" + ",\n".join(f" {json.dumps(kill)}" for kill in kills) + "\n]\n")


def _run(options: argparse.Namespace) -> int:
    """Exit code 1: a fault is not killed, or one that was killed is not."""
    chosen = [fault for fault in ALL if not options.only or options.only.search(fault.name)]
    if not chosen:
        raise Misused(f"no fault has a name that {options.only.pattern!r} matches")
    outcomes: dict[str, Tried] = {}
    with tempfile.TemporaryDirectory() as folder:
        tree = Tree.copied(Path(folder))
        for number, fault in enumerate(chosen, 1):
            doing(f"{number}/{len(chosen)} {fault.name}")
            outcomes[fault.name] = tree.tried(fault)
    kills = [as_kill(fault, outcomes[fault.name]) for fault in chosen]
    rows = [(k["name"], outcomes[k["name"]].outcome, k["seconds"], k["check"]) for k in kills]
    table(("fault", "outcome", "seconds", "check"), rows)
    if options.json:
        write(Path(options.json), kills)
    if options.record:
        write(RECORD, _recorded(kills))
    failures = [
        f"{name}: {_MEANING[tried.outcome]}: {_last_line(tried.output)}"
        for name, tried in outcomes.items()
        if tried.outcome != "killed"
    ]
    if options.against:
        before = read(Path(options.against))
        gone = {kill["name"] for kill in before} - {fault.name for fault in ALL}
        tried_now = [*outcomes, *(() if options.only else gone)]
        failures += lost(before, kills, tried_now)
    return report("mutants", failures)


_MEANING: Mapping[str, str] = {
    "survived": "its check passes",
    "otherwise": "its check fails, and does not say what it has to",
    "wrong without": "its check fails without it, too",
}


def _last_line(output: str) -> str:
    return next((line for line in reversed(output.splitlines()) if line.strip()), "")


def _recorded(kills: Sequence[Kill]) -> list[Kill]:
    """What the record holds with these: no seconds, and nothing of faults that are in no table."""
    known = {kill["name"]: kill for kill in (read(RECORD) if RECORD.exists() else [])}
    known |= {k["name"]: {n: v for n, v in k.items() if n != "seconds"} for k in kills}
    return [known[fault.name] for fault in ALL if fault.name in known]


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", type=pattern, metavar="PATTERN", help="faults whose name matches")
    parser.add_argument("--json", metavar="FILE", help="write the list of kills")
    parser.add_argument("--against", metavar="FILE", help="name those of its kills that are lost")
    parser.add_argument("--record", action="store_true", help=f"write test/mutants/{RECORD.name}")


main = Command("mutants", __doc__, _options, _run)
