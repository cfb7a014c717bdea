"""The records in the repository: of which commit they are, and that they add up."""

import subprocess

import pytest

from rcompiler.errors import CompilerError
from rcompiler.tools import _record, make_records

CHECKOUT = _record.SOURCES
RECORDS = sorted(make_records.RESULTS.glob("*.json"))


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


def test_a_record_stays_when_its_command_fails(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(make_records, "RESULTS", tmp_path)
    monkeypatch.setattr(make_records, "require_clean", lambda _: None)
    kind = make_records.Kind("r.json", ("backend_coverage", "--target=cpu:v9"))
    monkeypatch.setattr(make_records, "KINDS", {"broken": kind})
    (tmp_path / "r.json").write_text("old")
    assert make_records.main(["broken"]) == 1
    assert "ended with exit code 1; r.json stays" in capsys.readouterr().err
    assert (tmp_path / "r.json").read_text() == "old"


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
