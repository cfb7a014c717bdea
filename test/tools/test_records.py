"""The records in the repository: of which commit they are, and that they add up."""

import json
import subprocess
from pathlib import Path

import pytest
from measurements import make_records
from measurements._case_pool import Outcome
from measurements._coverage_table import kept_as_inputs

from rcompiler.errors import CompilerError
from rcompiler.tools import _record

CHECKOUT = Path(__file__).parents[2]  # the package may be installed elsewhere, without records
RESULTS = CHECKOUT / "tools" / "bench" / "results"
RECORDS = sorted(RESULTS.glob("*.json"))


def git(folder, *command):
    subprocess.run(
        ["git", "-C", folder, "-c", "user.name=t", "-c", "user.email=t@t", *command],
        check=True, capture_output=True,
    )  # fmt: skip


@pytest.fixture
def checkout(tmp_path):
    """A repository with one source, one figure and one test."""
    for path in ("rcompiler/a.py", "tools/bench/results/r.json", "test/t.py"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("1\n")
    (tmp_path / "rcompiler" / "tools").symlink_to("../tools")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "one")
    return tmp_path


def test_sources_of_a_clean_checkout_are_those_of_its_commit(checkout):
    commit = _record.commit(checkout)
    assert _record.sources_here(checkout) == _record.sources_at(checkout, commit) is not None


@pytest.mark.parametrize("path", ["rcompiler/a.py", "rcompiler/tools"])
def test_changed_sources_are_those_of_no_commit(checkout, path):
    commit = _record.commit(checkout)
    (checkout / path).unlink()
    (checkout / path).write_text("2\n")
    assert _record.sources_here(checkout) != _record.sources_at(checkout, commit)
    with pytest.raises(CompilerError, match="differ from commit .* commit the changes first"):
        make_records.require_clean(checkout)


def test_figures_and_tests_are_no_sources(checkout):
    before = _record.sources_here(checkout)
    (checkout / "tools/bench/results/r.json").write_text("2\n")
    (checkout / "test/t.py").write_text("2\n")
    assert _record.sources_here(checkout) == before


def test_no_checkout_has_no_sources_and_is_refused(tmp_path):
    assert _record.sources_here(tmp_path) is None
    with pytest.raises(CompilerError, match="in no git checkout"):
        make_records.require_clean(tmp_path)


@pytest.fixture
def results(tmp_path, monkeypatch):
    """A folder for records in the place of the real one, in a tree that counts as clean."""
    monkeypatch.setattr(make_records, "RESULTS", tmp_path)
    monkeypatch.setattr(make_records, "require_clean", lambda _: None)
    good = make_records.Kind("good.json", ("backend_coverage", "--only=test_abs_cpu"))
    bad = make_records.Kind("bad.json", ("backend_coverage", "--target=cpu:v9"))
    monkeypatch.setattr(make_records, "KINDS", {"good": good, "bad": bad})
    return tmp_path


def test_a_record_stays_when_its_command_fails(results, capsys):
    (results / "bad.json").write_text("old")
    assert make_records.main(["good,bad"]) == 1
    assert "ended with exit code 1; its record stays" in capsys.readouterr().err
    assert (results / "bad.json").read_text() == "old"
    assert json.loads((results / "good.json").read_text())["counts"]["pass"] == 1


def test_sources_that_change_meanwhile_make_no_record(results, monkeypatch, capsys):
    seen = iter("12")
    monkeypatch.setattr(make_records, "sources_here", lambda _: next(seen))
    assert make_records.main(["good"]) == 1
    assert "sources changed while 'good' was measured" in capsys.readouterr().err
    assert not list(results.iterdir())


def test_latency_needs_the_name_of_the_machine(monkeypatch, capsys):
    monkeypatch.setattr(make_records, "require_clean", lambda _: None)
    assert make_records.main(["latency"]) == 1
    assert "say --machine=NAME" in capsys.readouterr().err


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_a_record_names_a_commit_and_was_made_of_its_sources(path):
    record = _record.read_record(path)
    commit = record["commit"]
    assert len(commit) == 40 and not commit.endswith("-dirty")
    there = _record.sources_at(CHECKOUT, commit)
    if there is not None and "sources" in record:
        assert record["sources"] == there


def test_the_conformance_record_adds_up():
    record = json.loads((RESULTS / "onnx-backend-coverage.json").read_text())
    outcomes = [Outcome(**case) for case in record["cases"]]
    assert record["sources"]
    assert record["passed"] == kept_as_inputs(outcomes)
    for status, count in record["counts"].items():
        assert count == sum(outcome.status == status for outcome in outcomes)
