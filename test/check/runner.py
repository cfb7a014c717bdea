"""Everything that must hold before a change is done.

    ./.ci/run                   what has to run: steps and files of tests that passed with all that
                                they may read as it is now are not run again
    ./.ci/run test/unit         the same, with pytest limited to these files and folders; with other
                                arguments of pytest it runs as they say
    ./.ci/run --all             all of it, whatever has passed, and every turn (RC_TURNS=all)
    ./.ci/run --changed [BASE]  minutes: style, types, lit, and the tests nearest to what differs
                                from a commit, by default the last one, or the one before it where
                                nothing does
    python test/check --judge   which seeded faults (test/mutants) --changed would find
    python test/check --record  the seconds that files of tests took here, for all: seconds.json

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
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from . import report, suite
from .changed import SMOKE, Chooser, judge
from .durations import Durations
from .environment import Environment, installer
from .facts import FactsOf
from .keys import Keys
from .lanes import Done, Lanes
from .passed import Passed
from .reach import Reacher
from .steps import STEPS
from .tree import Tree, changed_since, read

PYTEST = "pytest"
PACKAGE = "package"
BUDGET_S = 200.0  # of tests, one after the other, in --changed: 100 s on two cores
LEAST_FOUND = 37  # seeded faults that --changed has to find


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code: 0 all is well, 1 something failed, 2 wrong arguments, 130 interrupted."""
    options, arguments = _parser().parse_known_args(argv)
    tree = read()
    home = Path(os.environ.get("RC_CHECK_CACHE") or tree.root / "build" / "ci").resolve()
    home.mkdir(parents=True, exist_ok=True)
    try:
        if options.judge:
            return _judge(tree, home)
        if options.record:
            return _record(tree, home)
        with _alone(home):
            return Check(tree, Environment(home), options).run(arguments)
    except Misused as error:
        print(f".ci/run: {error}", file=sys.stderr, flush=True)
        return 2
    except subprocess.CalledProcessError as error:
        print(f"the environment cannot be made: {error}")
        print("0 passed, 1 failed", flush=True)
        return 1
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        return 130


class Misused(Exception):
    """Arguments that do not go together; the message says which."""


class Check:
    """One run."""

    def __init__(self, tree: Tree, environment: Environment, options: argparse.Namespace) -> None:
        self._tree, self._environment, self._options = tree, environment, options
        self._passed = Passed(environment.home / "passed.json")
        self._durations = Durations(environment.home)
        self._unchanged: dict[str, str] = {}
        self._begun = time.monotonic()

    def run(self, arguments: Sequence[str]) -> int:
        """The steps, then pytest, then the end."""
        changed = self._changed(arguments)
        variables = self._environment.variables()
        if self._options.all:
            variables["RC_TURNS"] = "all"
        done = [self._make_environment()]
        keys = Keys(self._tree, self._environment, variables)
        done += self._run_steps(keys, variables)
        outcome = suite.Outcome()
        broken = any(each.status for each in done if each.name == PACKAGE)
        if self._is_asked_for(PYTEST) and not broken:
            if changed is not None:
                arguments = self._nearest(changed, keys)
            outcome = self._pytest(arguments, keys, variables)
            done += outcome.done
        keys.keep()
        total = time.monotonic() - self._begun
        end = report.lines(done, self._unchanged, outcome.seconds, total)
        end += ["", *report.closing(done, outcome.counts, self._unchanged)]
        print(*end, sep="\n", flush=True)
        return int(any(each.status for each in done))

    def _make_environment(self) -> Done:
        self._environment.make(self._tree, installer(self._tree))
        self._environment.trim()
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = usage.ru_utime + usage.ru_stime
        return Done("environment", 0, time.monotonic() - self._begun, cpu)

    def _run_steps(self, keys: Keys, variables: Mapping[str, str]) -> list[Done]:
        """The package first, where it has to be installed, and the steps that have to run."""
        units = {step.name: keys.of_step(step) for step in STEPS if self._is_asked_for(step.name)}
        wanted = self._without_unchanged(units)
        package = self._environment.package(self._tree)
        steps = [*([package] if package else []), *(s for s in STEPS if s.name in wanted)]
        done = Lanes(self._tree.root, self._environment.home, variables).run(steps)
        passed = {each.name: not each.status for each in done}
        if passed.get(PACKAGE):
            self._environment.has_package(self._tree)
        self._keep(passed, units)
        return done

    def _changed(self, arguments: Sequence[str]) -> set[str] | None:
        """The files that --changed is about; None: it is not asked for."""
        base = self._options.changed
        if base is None:
            return None
        if self._options.all or arguments:
            raise Misused("--changed chooses what runs: it takes a commit, and no --all or tests")
        found = changed_since(base or "HEAD", self._tree.root)
        if not base and found is not None and not found:
            found = changed_since("HEAD~1", self._tree.root)
        if found is None:
            raise Misused(f"--changed: git knows no commit '{base or 'HEAD~1'}' here")
        return found

    def _nearest(self, changed: set[str], keys: Keys) -> list[str]:
        chooser = Chooser(self._tree, keys.reacher, self._durations.seconds)
        choice = chooser.choose(changed, BUDGET_S)
        counts = Counter(choice.chosen.values())
        print(
            f"-- {len(changed)} files differ; tests by why they are near:",
            ", ".join(f"{why} {count}" for why, count in counts.items()),
        )
        if choice.left_out:
            print(f"-- left out, as they take too long: {' '.join(choice.left_out)}")
        return [*choice.chosen]

    def _is_asked_for(self, name: str) -> bool:
        if self._options.only:
            return name in self._options.only
        quick = {PYTEST, *(step.name for step in STEPS if step.quick)}
        return self._options.changed is None or name in quick

    def _pytest(
        self, arguments: Sequence[str], keys: Keys, variables: Mapping[str, str]
    ) -> suite.Outcome:
        """It does not run where no file has to."""
        files = suite.chosen(self._tree, arguments)
        if files is None:  # as the arguments say, and what passes is no whole file
            units = {}
            wanted = [*arguments]
        else:
            units = {unit: keys.of_tests(_file(unit)) for unit in files}
            wanted = self._without_unchanged(units)
        if not wanted:
            return suite.Outcome()
        print(f"-- pytest: {' '.join(wanted)}", flush=True)
        outcome = suite.run(wanted, self._environment.home, self._tree.root, variables)
        whole = {file for file in wanted if file in units and file == _file(file)}
        self._keep({file: file in outcome.complete for file in whole}, units)
        cpu = outcome.cpu_seconds()
        self._durations.add({file: cpu[file] for file in whole & outcome.complete})
        return outcome

    def _without_unchanged(self, units: dict[str, str | None]) -> list[str]:
        """Those that have to run."""
        wanted = []
        for unit, key in units.items():
            commit = self._passed.commit(_file(unit), key) if key else None
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


def _file(unit: str) -> str:
    """The file of tests that a single test is in."""
    return unit.partition("::")[0]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=".ci/run",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    names = [*(step.name for step in STEPS), PYTEST]
    parser.add_argument(
        "--changed",
        nargs="?",
        const="",
        metavar="BASE",
        help="some minutes: what is nearest to what differs from a commit",
    )
    parser.add_argument("--judge", action="store_true", help="judge --changed by seeded faults")
    parser.add_argument("--record", action="store_true", help="write seconds.json")
    parser.add_argument("--all", action="store_true", help="run all, and every turn")
    parser.add_argument(
        "--only",
        type=lambda text: _names(text, names),
        metavar="STEPS",
        help=f"some of the steps: {', '.join(names)}",
    )
    return parser


def _judge(tree: Tree, home: Path) -> int:
    """Exit code 1: the tests nearest to a change find fewer seeded faults than they have to."""
    reacher = Reacher(tree, FactsOf(tree, home / "facts.json"))
    rows = judge(tree, Chooser(tree, reacher, Durations(home).seconds), BUDGET_S)
    for name, check, reason in rows:
        print(f"{reason or 'MISSED':8} {name}: {check}")
    found = sum(bool(reason) for _, _, reason in rows)
    print(f"{found} of {len(rows)} faults are found, of which {LEAST_FOUND} have to be")
    return int(found < LEAST_FOUND)


def _record(tree: Tree, home: Path) -> int:
    files = suite.test_files(tree)
    known = Durations(home).record([*files, *SMOKE])
    print(f"the seconds of {known} of {len(files)} files of tests are recorded")
    return 0


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
