"""What explored plans have taken, kept in the profile index: each run once, whatever happens."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
import warnings

import pytest

from rcompiler.astra import Leaf, Measurements, Prefix, Variable
from rcompiler.profiler.index import ProfileIndex
from rcompiler.profiler.records import Measurement, table
from rcompiler.profiler.trials import KeptMeasurements


@pytest.fixture
def path(tmp_path):
    return tmp_path / "cache" / "index.sqlite"


def opened(path, machine="machine", **options) -> KeptMeasurements:
    return KeptMeasurements(ProfileIndex(path), machine, "code", **options)


def settled(times: Measurements) -> tuple[dict[str, str], int]:
    """The plan of a small tree, and how many trials it took."""
    tree = Prefix(*(Leaf(Variable(name, ("x", "y", "z"), "s")) for name in "ab"))
    plan, trials = dict[str, str](), 0
    tree.settle(plan, times, "e")
    while not tree.done:
        tree.propose(plan)
        trials += 1
        ns = 10.0 + 3 * (plan["a"] != "y") + (plan["b"] != "z")
        tree.observe(plan, {"s": (ns, ns)}, times, "e")
        plan = {}
        tree.settle(plan, times, "e")
    return plan, trials


def test_a_second_process_tries_nothing(path):
    assert settled(opened(path)) == ({"a": "y", "b": "z"}, 6)
    assert settled(opened(path)) == ({"a": "y", "b": "z"}, 0)
    assert settled(opened(path, "another machine"))[1] == 6


def test_one_run_is_not_believed_and_two_of_two_processes_are(path):
    opened(path).add("key", [100.0])
    assert opened(path).trusted("key") is None
    opened(path).add("key", [101.0])
    assert opened(path).trusted("key") == 100.5


def test_a_run_that_is_recorded_twice_is_one(path):
    for _ in range(2):  # as by a process that does not know that it was written
        opened(path, session="one").add("key", [100.0])
    assert opened(path).trusted("key") is None
    lines = [*ProfileIndex(path).export()]
    ProfileIndex(path).load(lines)
    assert len(lines) == 1 and opened(path).trusted("key") is None


def test_what_stopped_stays_dropped(path):
    opened(path).fail("key")
    later = opened(path)
    later.add("key", [1.0, 1.0])
    assert later.failed("key") and opened(path).failed("key")


def test_an_index_of_the_layout_before_is_converted_without_loss(path):
    one = Measurement("op", "tile", "machine", "code", 1500.0, 0.01, 5, "2026-01-01")
    ProfileIndex(path).record([one])
    with sqlite3.connect(path) as old:
        old.execute("DROP TABLE trial")
        old.execute("PRAGMA user_version = 2")
    old.close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        opened(path).add("key", [1.0, 1.0])
        assert ProfileIndex(path).find("op", "machine", "code") == {"tile": one}
        assert opened(path).trusted("key") == 1.0


_WRITER = """
import sys
from pathlib import Path
from rcompiler.profiler.index import ProfileIndex
from rcompiler.profiler.trials import KeptMeasurements
times = KeptMeasurements(ProfileIndex(Path(sys.argv[1])), "machine", "code", sys.argv[2])
print("ready", flush=True)
for number in range(int(sys.argv[3])):
    times.add(f"{sys.argv[2]} {number}", [100.0 + number, 100.0 + number])
"""


def writer(path, session: str, count: int) -> subprocess.Popen:
    command = [sys.executable, "-W", "error", "-c", _WRITER, str(path), session, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def test_two_processes_at_once_lose_nothing(path):
    running = [writer(path, session, 100) for session in "ab"]
    assert [process.wait(60) for process in running] == [0, 0]
    found = dict(opened(path).items())
    assert len(found) == 200 and all(len(runs) == 2 for runs in found.values())


def test_killed_at_random_moments(path):
    """50 times: the index is never damaged, and both runs of a trial are there, or none."""
    rng, seen = random.Random(0), 0
    ProfileIndex(path).close()
    for number in range(50):
        process = writer(path, f"session {number}", 1 << 30)
        assert process.stdout.readline() == b"ready\n"
        time.sleep(rng.uniform(0, 0.03))
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = dict(opened(path).items())
        assert all(len(runs) == 2 and runs[0] == runs[1] for runs in found.values())
        assert len(found) >= seen
        seen = len(found)
    assert seen > 50
    [check] = sqlite3.connect(path).execute("PRAGMA integrity_check").fetchone()
    assert check == "ok"


def test_the_table_of_trials_has_one_row_for_each_run():
    from rcompiler.profiler.records import TrialRun

    assert table(TrialRun).endswith("PRIMARY KEY (trial, session, number)) WITHOUT ROWID")
