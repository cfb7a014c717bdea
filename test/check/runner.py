"""Everything that must hold before a change is done.

    ./.ci/run                what has to run: steps and files of tests that passed with all that
                             they may read as it is now are not run again
    ./.ci/run test/unit      the same, with pytest limited to these files and folders; with other
                             arguments of pytest it runs as they say
    ./.ci/run --all          all of it, whatever has passed, and every turn (RC_TURNS=all)

PYTHON=... chooses the interpreter (3.11 or newer). RC_CHECK_CACHE=... names the folder of what is
kept between runs, which is build/ci otherwise: the environment, caches, and what has passed.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from . import report, suite
from .environment import Environment, installer
from .keys import Keys
from .lanes import Done, Lanes
from .passed import Passed
from .steps import STEPS
from .tree import Tree, read

PYTEST = "pytest"


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code: 0 all is well, 1 something failed, 2 wrong arguments, 130 interrupted."""
    options, arguments = _parser().parse_known_args(argv)
    tree = read()
    home = Path(os.environ.get("RC_CHECK_CACHE") or tree.root / "build" / "ci").resolve()
    home.mkdir(parents=True, exist_ok=True)
    os.chdir(tree.root)
    try:
        with _alone(home):
            return Check(tree, Environment(home), options).run(arguments)
    except subprocess.CalledProcessError as error:
        print(f"the environment cannot be made: {error}")
        print("0 passed, 1 failed", flush=True)
        return 1
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        return 130


class Check:
    """One run."""

    def __init__(self, tree: Tree, environment: Environment, options: argparse.Namespace) -> None:
        self._tree, self._environment, self._options = tree, environment, options
        self._passed = Passed(environment.home / "passed.json")
        self._unchanged: dict[str, str] = {}
        self._begun = time.monotonic()

    def run(self, arguments: Sequence[str]) -> int:
        """The steps, then pytest, then the end."""
        self._environment.make(self._tree, installer(self._tree))
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = usage.ru_utime + usage.ru_stime
        made = Done("environment", 0, time.monotonic() - self._begun, cpu)
        variables = self._environment.variables()
        if self._options.all:
            variables["RC_TURNS"] = "all"
        keys = Keys(self._tree, self._environment, variables)
        steps = {step.name: keys.of_step(step) for step in STEPS if self._is_asked_for(step.name)}
        wanted = self._without_unchanged(steps)
        lanes = Lanes(self._tree.root, self._environment.home, variables)
        done = [made, *lanes.run([step for step in STEPS if step.name in wanted])]
        self._keep({each.name: not each.status for each in done}, steps)
        outcome = None
        if self._is_asked_for(PYTEST):
            outcome = self._pytest(arguments, keys, variables)
        if outcome is not None:
            done.append(outcome.done)
        counts = outcome.counts if outcome else {}
        seconds = outcome.seconds if outcome else {}
        keys.keep()
        total = time.monotonic() - self._begun
        end = report.lines(done, self._unchanged, seconds, total)
        end += ["", *report.closing(done, counts, self._unchanged)]
        print(*end, sep="\n", flush=True)
        return int(any(each.status for each in done))

    def _is_asked_for(self, name: str) -> bool:
        return not self._options.only or name in self._options.only

    def _pytest(
        self, arguments: Sequence[str], keys: Keys, variables: dict[str, str]
    ) -> suite.Outcome | None:
        """None: no file has to run."""
        files = suite.chosen(self._tree, arguments)
        if files is None:
            return self._run_pytest(arguments, variables)
        units = {file: keys.of_tests(file) for file in files}
        wanted = self._without_unchanged(units)
        if not wanted:
            return None
        outcome = self._run_pytest(wanted, variables)
        self._keep({file: file in outcome.complete for file in wanted}, units)
        return outcome

    def _run_pytest(self, arguments: Sequence[str], variables: dict[str, str]) -> suite.Outcome:
        print(f"-- pytest: {' '.join(arguments)}", flush=True)
        return suite.run(arguments, self._environment.home, self._tree.root, variables)

    def _without_unchanged(self, units: dict[str, str | None]) -> list[str]:
        """Those that have to run."""
        wanted = []
        for unit, key in units.items():
            commit = self._passed.commit(unit, key) if key else None
            if commit is None or self._options.all:
                wanted.append(unit)
            else:
                self._unchanged[unit] = commit
        return wanted

    def _keep(self, ended: dict[str, bool], units: dict[str, str | None]) -> None:
        """Whether each unit passed. One whose files changed meanwhile passed with neither."""
        now = read(self._tree.root)
        if self._tree.commit is None or now.hashes != self._tree.hashes:
            return
        for unit, passed in ended.items():
            key = units.get(unit)
            if key and passed:
                self._passed.add(unit, key, self._tree.commit)
            elif key:
                self._passed.remove(unit, key)
        self._passed.write()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=".ci/run",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    names = [*(step.name for step in STEPS), PYTEST]
    parser.add_argument("--all", action="store_true", help="run all, and every turn")
    parser.add_argument(
        "--only",
        type=lambda text: _names(text, names),
        metavar="STEPS",
        help=f"some of the steps: {', '.join(names)}",
    )
    return parser


def _names(text: str, known: Sequence[str]) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in known:
            raise argparse.ArgumentTypeError(f"no step is called '{name}'")
    return names


@contextmanager
def _alone(home: Path) -> Iterator[None]:
    """One check at a time has the folder of what is kept."""
    with (home / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"waiting for another check that uses {home}", flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    sys.exit(main())
