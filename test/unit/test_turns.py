"""The part of many cases that a commit tests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

import turns


def test_commits_one_after_the_other_test_all(monkeypatch):
    monkeypatch.delenv("RC_TURNS", raising=False)
    hashes = [f"{n:08x}" + "0" * 32 for n in range(6, 10)]
    found = []
    for name in (*hashes, hashes[0] + "-dirty"):
        monkeypatch.setattr(turns, "commit", lambda folder, name=name: name)
        found.append(list(turns.in_turn(11, 4)))
    assert sorted(sum(found[:4], [])) == list(range(11))
    assert found[0] == found[4] == [2, 6, 10]
    assert turns.turn_of(iter("abcdefghijk"), 4) == ["c", "g", "k"]


def test_all_are_tested_where_it_is_asked_for_and_without_a_commit(monkeypatch):
    monkeypatch.setattr(turns, "commit", lambda folder: None)
    monkeypatch.delenv("RC_TURNS", raising=False)
    assert turns.in_turn(5, 4) == range(5)
    monkeypatch.setattr(turns, "commit", lambda folder: "0" * 40)
    assert turns.in_turn(5, 4) == range(0, 5, 4)
    monkeypatch.setenv("RC_TURNS", "all")
    assert turns.in_turn(5, 4) == range(5)
