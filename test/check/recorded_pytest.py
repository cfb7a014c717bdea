"""pytest, and a file that says of each file of tests what came of it.

    python test/check/recorded_pytest.py REPORT ARGUMENTS...

The package under test is the installed one, as with the command `pytest`: the folder of this file
is what Python puts first, and it is taken away.
"""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest


class Recorder:
    """Counts on the controlling process, which hears of each test of each worker.

    What a file's `complete` says: all its tests ran to their end, and none failed or was skipped.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._expected: dict[str, set[str]] = defaultdict(set)
        self._ended: dict[str, set[str]] = defaultdict(set)
        self._bad: set[str] = set()
        self._seconds: dict[str, float] = defaultdict(float)
        self._tests: dict[str, str] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Without workers."""
        self._expect(item.nodeid for item in session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: list[str]) -> None:
        """With workers: all of them have the same."""
        self._expect(ids)

    def _expect(self, ids: Any) -> None:
        for name in ids:
            self._expected[_file(name)].add(name)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file that fails, or is skipped, while it is collected."""
        if report.outcome != "passed":
            self._bad.add(_file(report.nodeid))
            self._tests[report.nodeid] = _outcome(report.outcome)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        file = _file(report.nodeid)
        self._seconds[file] += report.duration
        fails_as_told = hasattr(report, "wasxfail") and report.outcome == "skipped"
        if report.outcome != "passed" and not fails_as_told:
            self._bad.add(file)
            if self._tests.get(report.nodeid) != "failed":
                self._tests[report.nodeid] = _outcome(report.outcome)
        elif report.when == "call":
            self._tests.setdefault(report.nodeid, "passed")
        if report.when == "teardown":
            self._ended[file].add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        files = {
            file: {
                "seconds": round(self._seconds[file], 2),
                "complete": file not in self._bad and self._expected[file] == self._ended[file],
            }
            for file in sorted({*self._expected, *self._bad})
        }
        counts = Counter(self._tests.values())
        self._path.write_text(json.dumps({"counts": counts, "files": files}, indent=1) + "\n")


def _file(nodeid: str) -> str:
    return nodeid.partition("::")[0]


def _outcome(outcome: str) -> str:
    return "failed" if outcome == "failed" else "skipped"


def main(arguments: list[str]) -> int:
    """The exit status of pytest."""
    return int(pytest.main(arguments[1:], plugins=[Recorder(Path(arguments[0]))]))


if __name__ == "__main__":
    del sys.path[0]
    sys.exit(main(sys.argv[1:]))
