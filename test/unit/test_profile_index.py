"""The profile index: what is kept, what is found again, and files that are no index."""

import fcntl
import json
import os
import sqlite3
import subprocess
import sys
import warnings
from contextlib import suppress
from dataclasses import replace
from functools import partial

import pytest

from rcompiler.errors import ArtifactError
from rcompiler.profiler import storage
from rcompiler.profiler.index import IndexWarning, ProfileIndex, code_version, digest
from rcompiler.profiler.records import Measurement, ProgramTime

DATE = "2026-01-01T00:00:00+00:00"
PROGRAM = ProgramTime("schedule", "machine", "code", 2, 9000.0, 9500.0, 100, DATE)
OLD_TABLE = """CREATE TABLE measurement (
    operator TEXT NOT NULL, tiling TEXT NOT NULL, machine TEXT NOT NULL, code TEXT NOT NULL,
    ns REAL NOT NULL, spread REAL NOT NULL, rounds INTEGER NOT NULL, date TEXT NOT NULL,
    PRIMARY KEY (operator, tiling, machine, code)) WITHOUT ROWID"""
ONE = Measurement("op", "tile", "machine", "code", 1500.0, 0.01, 5, "2026-01-01T00:00:00+00:00")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "cache" / "index.sqlite"


def test_a_later_process_finds_what_was_recorded(path):
    first = ProfileIndex(path)
    first.record([ONE, replace(ONE, tiling="other", ns=7.5)])
    first.close()
    found = ProfileIndex(path).find("op", "machine", "code")
    assert found == {"tile": ONE, "other": replace(ONE, tiling="other", ns=7.5)}


@pytest.mark.parametrize(
    "other", [("x", "machine", "code"), ("op", "x", "code"), ("op", "machine", "x")]
)
def test_another_operator_machine_or_code_version_has_no_times(path, other):
    index = ProfileIndex(path)
    index.record([ONE])
    assert index.find(*other) == {}


def test_a_new_time_replaces_the_old_one(path):
    index = ProfileIndex(path)
    index.record([ONE])
    index.record([replace(ONE, ns=1.0)])
    assert index.find("op", "machine", "code")["tile"].ns == 1.0


def test_without_a_folder_it_lasts_as_long_as_the_object():
    index = ProfileIndex(None)
    index.record([ONE])
    assert index.find("op", "machine", "code") == {"tile": ONE}
    assert ProfileIndex(None).find("op", "machine", "code") == {}


def test_times_alone_and_beside_others_stand_beside_each_other(path):
    index = ProfileIndex(path)
    beside = replace(ONE, eus=2, ns=1800.0, tasks=4, registers=30, on_chip_bytes=640, workspace=64)
    index.record([ONE, beside])
    assert index.find("op", "machine", "code") == {"tile": ONE}
    assert index.find("op", "machine", "code", 2) == {"tile": beside}
    assert index.find("op", "machine", "code", 3) == {}


def test_a_program_has_a_time_by_schedule_machine_code_and_threads(path):
    index = ProfileIndex(path)
    index.record([PROGRAM, ONE])
    index.record([replace(PROGRAM, ns=8000.0)])
    assert index.program("schedule", "machine", "code", 2) == replace(PROGRAM, ns=8000.0)
    for key in (("x", "machine", "code", 2), ("schedule", "x", "code", 2),
                ("schedule", "machine", "x", 2), ("schedule", "machine", "code", 1)):  # fmt: skip
        assert index.program(*key) is None


def test_an_index_of_the_layout_before_is_converted_without_loss(path):
    path.parent.mkdir()
    with sqlite3.connect(path) as old:
        old.execute(OLD_TABLE)
        old.execute("PRAGMA application_id = 0x72635049")
        old.execute("PRAGMA user_version = 1")
        old.execute(
            "INSERT INTO measurement VALUES ('op', 'tile', 'machine', 'code', 1500.0, 0.01, 5, ?)",
            (DATE,),
        )
    old.close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        index = ProfileIndex(path)
        assert index.find("op", "machine", "code") == {"tile": ONE}
        index.record([PROGRAM])
        index.close()
        assert len(list(ProfileIndex(path).export())) == 2


def test_an_index_of_a_newer_version_is_left_alone(path):
    ProfileIndex(path).record([ONE])
    with sqlite3.connect(path) as other:
        other.execute("PRAGMA user_version = 99")
    other.close()
    before = path.read_bytes()
    with pytest.warns(IndexWarning, match=r"newer version.*not kept"):
        index = ProfileIndex(path)
    index.record([ONE])
    assert index.find("op", "machine", "code") == {"tile": ONE}
    assert path.read_bytes() == before


@pytest.mark.parametrize("kind", ["text", "cut", "overwritten", "foreign", "row"])
def test_a_damaged_or_foreign_file_is_put_aside_and_begun_anew(path, kind):
    index = ProfileIndex(path)
    index.record([replace(ONE, tiling=f"tile {k}") for k in range(500)])
    index.close()
    whole = path.read_bytes()
    if kind == "text":
        path.write_text("not a database, but long enough to have a header of one " * 10)
    elif kind == "cut":
        path.write_bytes(whole[: len(whole) // 2])
    elif kind == "overwritten":
        path.write_bytes(whole[:200] + bytes([0xFF]) * (len(whole) - 200))
    elif kind == "foreign":
        path.unlink()
        with sqlite3.connect(path) as other:
            other.execute("CREATE TABLE mine (x)")
        other.close()
    else:
        with sqlite3.connect(path) as other:
            other.execute("UPDATE kernel SET ns = -1 WHERE tiling = 'tile 7'")
        other.close()
    damaged = path.read_bytes()
    with pytest.warns(IndexWarning, match="begun anew"):
        index = ProfileIndex(path)
        index.find("op", "machine", "code")
        index.record([ONE])
    assert index.find("op", "machine", "code") == {"tile": ONE}
    assert path.with_suffix(".damaged").read_bytes()[:100] == damaged[:100]
    index.close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ProfileIndex(path).find("op", "machine", "code") == {"tile": ONE}


def damaged(path):
    """An index file that is none."""
    path.parent.mkdir()
    path.write_text("not a database, but long enough to have a header of one " * 10)


def test_only_one_of_two_processes_puts_a_damaged_file_aside(path, monkeypatch):
    """Between what the first one finds and what it does about it, the second one does it all."""
    damaged(path)
    anew = ProfileIndex._anew

    def overtaken(self, error):
        monkeypatch.setattr(ProfileIndex, "_anew", anew)
        other = ProfileIndex(path)
        other.record([ONE])
        other.close()
        return anew(self, error)

    monkeypatch.setattr(ProfileIndex, "_anew", overtaken)
    with pytest.warns(IndexWarning) as told:
        index = ProfileIndex(path)
    assert index.find("op", "machine", "code") == {"tile": ONE}
    assert path.with_suffix(".damaged").read_text().startswith("not a database")
    assert [str(w.message).rpartition("; ")[2] for w in told] == [
        "it is begun anew, and the old file is index.damaged",
        "another process has begun it anew",
    ]


def test_damage_that_both_find_while_they_use_it_loses_no_new_times(path):
    for_both = ProfileIndex(path), ProfileIndex(path)
    with sqlite3.connect(path) as other:  # a row that cannot be
        values = "'op', 'bad', 'machine', 'code', -1, 0, 5, '', 1, 0, 0, 0, 0"
        other.execute(f"INSERT INTO kernel VALUES ({values})")
    other.close()
    with pytest.warns(IndexWarning, match="begun"):
        for index in for_both:
            assert index.find("op", "machine", "code") in ({}, {"tile": ONE})
            index.record([ONE])
    assert for_both[0].find("op", "machine", "code") == {"tile": ONE}
    assert ProfileIndex(path).find("op", "machine", "code") == {"tile": ONE}


def test_nobody_opens_the_file_while_it_is_put_aside(path, monkeypatch):
    """Or what is opened could be moved away behind its back."""
    damaged(path)
    replace = os.replace

    def looking(source, target):
        handle = os.open(path.parent, os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        os.close(handle)
        looked.append(source)
        replace(source, target)

    looked = []
    monkeypatch.setattr("rcompiler.profiler.index.os.replace", looking)
    with pytest.warns(IndexWarning, match="begun anew"):
        ProfileIndex(path).close()
    assert looked == [path]


def test_file_systems_without_locks_keep_nobody_out(path, monkeypatch):
    def refuse(*_):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("rcompiler.support.private_folder.fcntl.flock", refuse)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        index = ProfileIndex(path)
        index.record([ONE])
    assert ProfileIndex(path).find("op", "machine", "code") == {"tile": ONE}


def test_a_folder_that_cannot_be_made_costs_a_warning(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.warns(IndexWarning, match="not kept"):
        index = ProfileIndex(tmp_path / "file" / "index.sqlite")
    index.record([ONE])
    assert index.find("op", "machine", "code") == {"tile": ONE}


def test_processes_that_record_at_once_lose_nothing(path):
    text = """
import sys
from pathlib import Path
from rcompiler.profiler import storage
from rcompiler.profiler.index import ProfileIndex
from rcompiler.profiler.records import Measurement
index = ProfileIndex(Path(sys.argv[1]))
for k in range(50):
    index.record([Measurement("op", f"{sys.argv[2]} {k}", "m", "c", 1.0, 0.0, 5, "")])
"""
    command = [sys.executable, "-W", "error", "-c", text, str(path)]
    running = [subprocess.Popen([*command, str(k)]) for k in range(3)]
    assert [process.wait(60) for process in running] == [0, 0, 0]
    assert len(ProfileIndex(path).find("op", "m", "c")) == 150


def test_an_index_that_another_process_makes_while_it_is_opened_is_no_foreign_file(
    path, monkeypatch
):
    class Beside(sqlite3.Connection):
        """Between two reads, another process makes the index, if it may."""

        def execute(self, sql, *values):
            if sql == "PRAGMA user_version" and not made:
                made.append(path)
                with suppress(sqlite3.OperationalError):  # it has to wait
                    monkeypatch.setattr(storage, "_PATIENCE_S", 0.0)
                    monkeypatch.setattr(storage.sqlite3, "connect", connect)
                    storage.opened(path).close()
            return super().execute(sql, *values)

    made, connect = [], sqlite3.connect
    path.parent.mkdir()
    monkeypatch.setattr(storage.sqlite3, "connect", partial(connect, factory=Beside))
    storage.opened(path).close()
    assert made
    assert ProfileIndex(path).find("op", "machine", "code") == {}


def test_export_and_import(path, tmp_path):
    index = ProfileIndex(path)
    index.record([PROGRAM, ONE, replace(ONE, machine="other"), replace(ONE, eus=8, registers=30)])
    lines = list(index.export())
    other = ProfileIndex(tmp_path / "other.sqlite")
    assert other.load([*lines, "\n"]) == 4
    assert list(other.export()) == lines
    assert [json.loads(line)["kind"] for line in lines] == [*3 * ["kernel"], "program"]


def test_an_import_may_count_as_measured_on_one_machine():
    index = ProfileIndex(None)
    index.record([ONE, PROGRAM])
    lines = list(index.export())
    other = ProfileIndex(None)
    assert other.load(lines, "here") == 2
    assert other.find("op", "here", "code") == {"tile": replace(ONE, machine="here")}
    assert other.program("schedule", "here", "code", 2) == replace(PROGRAM, machine="here")
    index.record([replace(ONE, machine="third")])
    with pytest.raises(ArtifactError, match="2 machines"):
        other.load(index.export(), "here")
    assert len(list(other.export())) == 2


def test_a_line_of_an_older_version_is_a_kernel_alone():
    index = ProfileIndex(None)
    old = {k: v for k, v in vars(ONE).items() if k in {"operator", "tiling", "machine", "code",
           "ns", "spread", "rounds", "date"}}  # fmt: skip
    assert index.load([json.dumps(old)]) == 1
    assert index.find("op", "machine", "code") == {"tile": ONE}


@pytest.mark.parametrize(
    "line",
    ["{", "[]", "3", '{"operator": "x"}', '{"ns": -1}', "NaN", '{"kind": "tile"}', '{"kind": []}'],
)  # fmt: skip
def test_import_refuses_what_is_no_measurement_and_keeps_nothing(path, line):
    index = ProfileIndex(path)
    index.record([ONE])
    good = next(index.export())
    fresh = ProfileIndex(None)
    with pytest.raises(ArtifactError, match="line 2"):
        fresh.load([good, line])
    assert list(fresh.export()) == []


@pytest.mark.parametrize(
    "change",
    [
        ("1500.0", "NaN"),
        ("1500.0", "-1"),
        ('"op"', "5"),
        (": 5", ": 0"),
        ('"eus": 1', '"eus": 0'),
        ('"registers": 0', '"registers": -1'),
        ('"registers": 0', '"registers": 0.5'),
    ],
)
def test_import_refuses_figures_that_cannot_be(change):
    index = ProfileIndex(None)
    index.record([ONE])
    line = next(index.export())
    assert line.replace(*change) != line
    with pytest.raises(ArtifactError):
        index.load([line.replace(*change)])


def dated(code, day, operator="op"):
    return replace(ONE, operator=operator, code=code, date=f"2026-01-{day:02}T00:00:00+00:00")


def test_other_code_versions_are_pruned(path):
    index = ProfileIndex(path)
    index.record([ONE, dated("old", 3), replace(ONE, code="old", machine="other")])
    index.record([PROGRAM, replace(PROGRAM, code="older")])
    assert index.prune("code") == 3
    assert {json.loads(line)["code"] for line in index.export()} == {"code"}
    assert index.find("op", "machine", "code") == {"tile": ONE}
    assert index.program("schedule", "machine", "code", 2) == PROGRAM
    assert index.prune("code") == 0


def test_a_version_that_was_used_since_then_stays_whole(path):
    index = ProfileIndex(path)
    index.record([dated("a", 2), dated("a", 20, "other"), dated("b", 9), dated("c", 1)])
    assert index.prune("c", "2026-01-10T00:00:00+00:00") == 1
    assert {json.loads(line)["code"] for line in index.export()} == {"a", "c"}


def test_pruning_makes_the_file_smaller(path):
    index = ProfileIndex(path)
    index.record(dated("old", 1, f"operator {k}") for k in range(2000))
    before = path.stat().st_size
    index.prune("code")
    assert path.stat().st_size < before / 4


def test_a_large_index_loses_its_oldest_versions_with_a_warning(path):
    index = ProfileIndex(path)
    now = code_version()
    for code, day, count in ((now, 1, 1000), ("b", 3, 1000), ("a", 2, 1000), ("c", 4, 900)):
        index.record(dated(code, day, f"operator {k}") for k in range(count))
    index.close()
    size = path.stat().st_size
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ProfileIndex(path, most=size).close()
    with pytest.warns(IndexWarning, match=r"2000 times .* oldest versions"):
        index = ProfileIndex(path, most=size - 4096)
    assert {json.loads(line)["code"] for line in index.export()} == {now, "c"}
    index.close()
    assert path.stat().st_size < 0.6 * size
    with pytest.warns(IndexWarning, match="900 times"):
        index = ProfileIndex(path, most=size // 8)
    assert {json.loads(line)["code"] for line in index.export()} == {now}
    index.close()
    with warnings.catch_warnings():  # nothing is left that could go
        warnings.simplefilter("error")
        assert len(list(ProfileIndex(path, most=size // 8).export())) == 1000


def test_versions_are_digests_of_what_decides_the_code(monkeypatch):
    import rcompiler.profiler.index as module

    before = code_version()
    code_version.cache_clear()
    monkeypatch.setattr(module, "toolchain", lambda: "another LLVM")
    assert code_version() != before
    code_version.cache_clear()
    assert digest("a") != digest("b")
