"""The step that is pytest: which files of tests it is given, and what became of each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .lanes import Done, ended
from .tree import Tree

COMMAND = ("python", str(Path(__file__).with_name("recorded_pytest.py")))


@dataclass(frozen=True)
class Outcome:
    """done: the step, if it ran. counts: tests by outcome. seconds: of each file's tests,
    one after the other. complete: the files whose tests all passed, and none was skipped.
    """

    done: tuple[Done, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    complete: frozenset[str] = frozenset()

    def cpu_seconds(self) -> dict[str, float]:
        """About what each file's tests took of CPUs, which on a busy machine is less than the clock
        says: by the CPU seconds of all of it.
        """
        clock = sum(self.seconds.values())
        share = min(1.0, sum(done.cpu for done in self.done) / clock) if clock else 1.0
        return {file: seconds * share for file, seconds in self.seconds.items()}


def test_files(tree: Tree) -> list[str]:
    """All files that pytest takes tests from."""
    return sorted(
        path
        for path in tree.hashes
        if path.startswith("test/") and path.endswith(".py") and "/Inputs/" not in path
        if Path(path).name.startswith("test_") or Path(path).stem.endswith("_test")
    )


def chosen(tree: Tree, arguments: Sequence[str]) -> list[str] | None:
    """The units that arguments of pytest name, which are all files of tests if there are none:
    files, also for folders, and single tests. None: there are other arguments, so that pytest alone
    knows.
    """
    wanted: list[str] = []
    every = test_files(tree)
    for argument in arguments:
        file, single, _ = argument.partition("::")
        path = os.path.normpath(file)
        inside = [each for each in every if each == path or each.startswith(path + "/")]
        if argument.startswith("-") or not inside or (single and path not in inside):
            return None
        wanted += [argument] if single else inside
    return [*dict.fromkeys(wanted)] if arguments else every


def run(
    arguments: Sequence[str], home: Path, folder: Path, variables: Mapping[str, str]
) -> Outcome:
    """pytest on all cores. Its lines are printed as they come, and kept in pytest.log."""
    report, log = home / "pytest.json", home / "pytest.log"
    report.unlink(missing_ok=True)
    command = [*COMMAND, str(report), "-n", "auto", "-o", f"cache_dir={home / 'pytest'}"]
    begun = time.monotonic()
    process = subprocess.Popen(
        [*command, *arguments], cwd=folder, env=variables, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert process.stdout is not None
    with process.stdout, log.open("wb") as kept:
        while part := os.read(process.stdout.fileno(), 1 << 16):
            kept.write(part)
            sys.stdout.buffer.write(part)
            sys.stdout.buffer.flush()
    status, cpu = ended(process)
    done = Done("pytest", status, time.monotonic() - begun, cpu)
    try:
        found = json.loads(report.read_text())
    except (OSError, ValueError):  # it ended before its tests did
        return Outcome((done,))
    files = found["files"]
    return Outcome(
        (done,),
        found["counts"],
        {name: file["seconds"] for name, file in files.items()},
        frozenset(name for name, file in files.items() if file["complete"]),
    )
