"""What explored plans have taken, kept in the profile index: each run once, whatever happens."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import warnings

import pytest

from rcompiler.astra import Leaf, Measurements, Prefix, Variable
from rcompiler.astra.measurements import Known
from rcompiler.profiler import index as index_of_profiles
from rcompiler.profiler import trials
from rcompiler.profiler.index import ProfileIndex
from rcompiler.profiler.records import Measurement, table
from rcompiler.profiler.trials import KeptMeasurements


@pytest.fixture
def path(tmp_path):
    return tmp_path / "cache" / "index.sqlite"


def opened(path, machine="machine", **options) -> KeptMeasurements:
    return KeptMeasurements(ProfileIndex(path), machine, "code", **options)


def kept(path, *runs: float, key: str = "key", **options) -> None:
    times = opened(path, **options)
    times.add(key, runs)
    times.keep()


def settled(times: Measurements) -> tuple[dict[str, str], int]:
    """The plan of a small tree, and how many trials it took."""
    tree = Prefix(*(Leaf(Variable(name, ("x", "y", "z"), "s")) for name in "ab"))
    plan, trials, known = dict[str, str](), 0, Known(times, "e")
    tree.settle(plan, known)
    while not tree.done:
        tree.propose(plan)
        trials += 1
        ratio = 1.0 - 0.3 * (plan["a"] == "y") - 0.1 * (plan["b"] == "z")
        tree.observe(plan, {"s": (ratio, ratio)}, known)
        plan = {}
        tree.settle(plan, known)
    if isinstance(times, KeptMeasurements):
        times.keep()
    return plan, trials


def test_a_second_process_tries_nothing(path):
    assert settled(opened(path)) == ({"a": "y", "b": "z"}, 6)
    assert settled(opened(path)) == ({"a": "y", "b": "z"}, 0)
    assert settled(opened(path, "another machine"))[1] == 6


def test_one_run_is_not_believed_and_two_of_two_processes_are(path):
    kept(path, 1.0)
    assert opened(path).trusted("key") is None
    kept(path, 1.01)
    assert opened(path).trusted("key") == pytest.approx(1.005)


def test_a_run_that_is_recorded_twice_is_one(path):
    for _ in range(2):  # as by a process that does not know that it was written
        kept(path, 1.0, session="one")
    assert opened(path).trusted("key") is None
    lines = [*ProfileIndex(path).export()]
    ProfileIndex(path).load(lines)
    assert len(lines) == 1 and opened(path).trusted("key") is None
    other = ProfileIndex(path)
    other.load(lines, machine="other")  # a copy: it stays what it was here
    assert dict(opened(path).items()) == dict(opened(path, "other").items()) == {"key": (1.0,)}


def test_what_stopped_stays_dropped(path):
    first = opened(path)
    first.fail("key")
    first.keep()
    later = opened(path)
    later.add("key", [1.0, 1.0])
    assert later.failed("key")
    later.forget()
    later.keep()
    assert opened(path).failed("key")


def test_the_last_runs_of_a_trial_are_kept(path):
    times = opened(path)
    for number in range(100):
        times.add("key", [1.0 + number])
        if number % 7 == 0:
            times.keep()
    times.keep()
    assert dict(opened(path).items()) == {"key": (97.0, 98.0, 99.0, 100.0)}
    assert len([*ProfileIndex(path).export()]) == 4


def test_what_is_forgotten_is_gone_for_all(path):
    times = opened(path)
    times.add("key", [1.0, 1.0])
    times.keep()
    kept(path, 5.0, key="of another model")
    times.forget()
    times.add("key", [2.0])  # and measured anew
    times.keep()
    assert dict(opened(path).items()) == {"key": (2.0,), "of another model": (5.0,)}


def test_a_request_in_another_thread_waits_for_no_file(path):
    """The thread of a request has not opened the index, and another process may write to it."""
    times = opened(path)
    with sqlite3.connect(path) as busy:
        busy.execute("BEGIN IMMEDIATE")
        files: set[str] = set()
        threading.setprofile(lambda frame, event, argument: files.add(frame.f_code.co_filename))
        request = threading.Thread(target=times.add, args=("key", [1.0, 1.0]))
        request.start()
        threading.setprofile(None)
        request.join()
        assert trials.__file__ in files and index_of_profiles.__file__ not in files
    busy.close()
    times.keep()
    assert opened(path).trusted("key") == 1.0


def test_a_use_of_the_index_in_another_thread_is_no_damage(path):
    index, caught = ProfileIndex(path), []

    def use():
        try:
            index.trials("machine", "code")
        except sqlite3.ProgrammingError as error:
            caught.append(error)

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert caught and index.trials("machine", "code") == []
    assert not path.with_suffix(".damaged").exists()


@pytest.mark.parametrize(("layout", "later"), [(2, ("trial", "plan")), (3, ("plan",))])
def test_an_index_of_a_layout_before_is_converted_without_loss(path, layout, later):
    one = Measurement("op", "tile", "machine", "code", 1500.0, 0.01, 5, "2026-01-01")
    ProfileIndex(path).record([one])
    with sqlite3.connect(path) as old:
        for name in later:
            old.execute(f"DROP TABLE {name}")
        old.execute(f"PRAGMA user_version = {layout}")
    old.close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kept(path, 1.0, 1.0)
        assert ProfileIndex(path).find("op", "machine", "code") == {"tile": one}
        assert opened(path).trusted("key") == 1.0
        assert ProfileIndex(path).choose(PLACE, "{}", 1.0).plan == "{}"


PLACE = "space", "machine", "code"


def test_the_first_process_chooses_for_all(path):
    one, two = ProfileIndex(path), ProfileIndex(path)
    assert one.plan("space", "machine", "code") is None
    chosen = one.choose(PLACE, '{"k": "b"}', 0.9)
    assert (chosen.plan, chosen.ratio) == ('{"k": "b"}', 0.9)
    assert two.choose(PLACE, "{}", 0.8) == chosen
    assert two.plan(*PLACE) == chosen
    for other in (("x", "machine", "code"), ("space", "x", "code"), ("space", "machine", "x")):
        assert two.plan(*other) is None
    copy = ProfileIndex(None)
    assert copy.load(one.export()) == 1 and copy.plan(*PLACE) == chosen


_WRITER = """
import sys
from pathlib import Path
from rcompiler.profiler.index import ProfileIndex
from rcompiler.profiler.trials import KeptMeasurements
times = KeptMeasurements(ProfileIndex(Path(sys.argv[1])), "machine", "code", sys.argv[2])
for number in range(int(sys.argv[3])):
    times.add(f"{sys.argv[2]} {number}", [1.0 + number, 1.0 + number])
    times.keep()
    if number == 1:
        print("ready", flush=True)
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

    assert table(TrialRun).endswith(
        "PRIMARY KEY (trial, machine, code, session, number)) WITHOUT ROWID"
    )
