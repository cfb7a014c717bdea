"""shared_work.py and workers.py: who does which piece, and what happens when a worker does not."""

import os
import threading
import time
from ast import literal_eval
from contextlib import contextmanager

import pytest

from rcompiler.driver import shared_work
from rcompiler.driver.shared_work import SharedWork
from rcompiler.support.workers import WorkerDied, WorkerLate, Workers

_PROGRAM = """
import os, sys, time
from rcompiler.support.workers import serve_answers

def answer(question):
    word = question.decode()
    if word == "die":
        sys.stderr.write("last words\\n")
        sys.stderr.flush()
        os._exit(3)
    if word == "sleep":
        time.sleep(60)
    if word == "pid":
        return 0, str(os.getpid()).encode()
    print("not for the caller")
    return word == "cannot", word.upper().encode()

def serve():
    serve_answers(answer)
"""
_TELLING = """
import os, sys
from rcompiler.support.workers import serve_telling

def answer(question, tell):
    for part in question.split():
        tell(part)
    return 0, str([os.getpid(), os.environ.get("PYTHONHASHSEED"), os.getcwd()]).encode()

def serve():
    serve_telling(answer, int(os.environ.get("MOST", 1 << 40)))
"""
PATIENCE_S = 120  # what takes longer hangs


@pytest.fixture
def workers(tmp_path, monkeypatch):
    (tmp_path / "shouting.py").write_text(_PROGRAM)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    return Workers("shouting")


class Pieces:
    """Shared work on words: upper case, with a mark for those that were done here."""

    def __init__(self, workers, words, here_s=0.0):
        self.words, self.results, self._here_s = words, {}, here_s
        self.work = SharedWork(workers, bytes.decode, self._done)

    @contextmanager
    def begun(self):
        with self.work.begun():
            for word in self.words:
                self.work.add(word, word.encode())
            self.work.start()
            yield

    def finish(self):
        self.work.finish(self.words, self._here)

    def _here(self, word):
        time.sleep(self._here_s)
        if word == "cannot":
            raise ValueError("cannot")
        return word.upper() + "!"

    def _done(self, word, result):
        assert word not in self.results
        self.results[word] = result

    def plain(self):
        return [self.results[word].rstrip("!") for word in self.words]


def expected(words):
    return [word.upper() for word in words]


def test_a_worker_answers_is_kept_and_says_when_it_dies(workers):
    with workers.borrow() as worker:
        pid = worker.ask(b"pid")
        assert worker.ask(b"a") == (0, b"A") and worker.ask(b"cannot") == (1, b"CANNOT")
    with workers.borrow() as worker:
        assert worker.ask(b"pid") == pid
        with pytest.raises(WorkerDied, match=r"status 3 \(last words\)"):
            worker.ask(b"die")
    with workers.borrow() as worker:
        assert worker.ask(b"pid") != pid


def test_a_worker_that_is_late_is_ended(workers):
    with workers.borrow() as worker:
        assert worker.ask(b"a", most_s=60.0) == (0, b"A")
        with pytest.raises(WorkerLate, match=r"status -9 \(no answer in 0.2 s\)"):
            worker.ask(b"sleep", most_s=0.2)
        assert not worker.alive()


def test_alone_this_process_does_every_piece_once():
    pieces = Pieces(None, list("abc"))
    pieces.finish()
    assert pieces.results == {"a": "A!", "b": "B!", "c": "C!"}


def test_both_take_part_and_every_piece_is_done_once(workers):
    pieces = Pieces(workers, [f"w{k}" for k in range(100)], here_s=0.01)
    with pieces.begun():
        pieces.finish()
    assert pieces.plain() == expected(pieces.words)
    assert {result[-1] == "!" for result in pieces.results.values()} == {True, False}


def waited_for(pieces, count):
    end = time.monotonic() + PATIENCE_S
    while len(pieces.results) < count and time.monotonic() < end:
        time.sleep(0.01)


def test_the_worker_works_while_this_process_does_something_else(workers):
    pieces = Pieces(workers, list("abc"))
    with pieces.begun():
        waited_for(pieces, 3)
        assert pieces.results == {"a": "A", "b": "B", "c": "C"}
        pieces.work.add("d", b"d")
        waited_for(pieces, 4)
        assert pieces.results["d"] == "D"
        pieces.finish()


def test_what_nobody_needs_is_left(workers):
    pieces = Pieces(workers, ["sleep", *"ab"])
    with pieces.begun():
        pieces.work.finish(["b"], str.upper)
        pieces.work.finish(["b", "c"], str.title)
    assert pieces.results == {"b": "B", "c": "C"}


def test_a_piece_that_is_found_is_not_done(workers):
    pieces = Pieces(workers, list("ab"))
    with pieces.work.begun():
        pieces.work.found("a", "known")
        pieces.finish()
    assert pieces.results == {"a": "known", "b": "B!"}


def test_what_a_dead_worker_leaves_is_done_here(workers):
    pieces = Pieces(workers, ["die", *"abcdef"])
    with pieces.begun():
        pieces.finish()
    assert pieces.plain() == expected(pieces.words) and pieces.results["die"] == "DIE!"
    with workers.borrow() as worker:
        assert worker.ask(b"a") == (0, b"A")


def test_a_worker_that_does_not_answer_is_not_waited_for(workers, monkeypatch):
    monkeypatch.setattr(shared_work, "_PATIENCE_S", 0.2)
    pieces = Pieces(workers, ["sleep", "a"])
    threads = threading.active_count()
    with pieces.begun():
        pieces.finish()
    assert pieces.plain() == expected(pieces.words)
    assert pieces.results["sleep"] == "SLEEP!" and threading.active_count() == threads


def test_an_error_is_that_of_this_process(workers):
    pieces, threads = Pieces(workers, ["a", "cannot", "b"]), threading.active_count()
    with pytest.raises(ValueError, match="cannot"), pieces.begun():
        pieces.finish()
    assert threading.active_count() == threads


def test_without_a_process_this_one_does_all():
    class None_:
        @contextmanager
        def borrow(self):
            raise BlockingIOError("no more processes")
            yield

    pieces = Pieces(None_(), list("ab"))
    with pieces.begun():
        pieces.finish()
    assert pieces.results == {"a": "A!", "b": "B!"}


def test_an_answer_that_comes_too_late_is_dropped(monkeypatch):
    monkeypatch.setattr(shared_work, "_PATIENCE_S", 0.0)
    pieces = Pieces(None, ["a"])
    pieces.work.add("a", b"a")
    pieces.work._next()  # the worker is at it
    pieces.finish()
    pieces.work._deliver("a", "A")
    assert pieces.results == {"a": "A!"}


@pytest.fixture
def telling(tmp_path, monkeypatch):
    (tmp_path / "telling.py").write_text(_TELLING)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    return Workers("telling", as_here=True)


def asked(workers, question=b"", told=None):
    with workers.borrow() as worker:
        status, answer = worker.ask(question, told=told)
    assert status == 0
    return literal_eval(answer.decode())


def test_a_worker_tells_how_far_it_is(telling):
    told = []
    first = asked(telling, b"one two", told.append)
    assert told == [b"one", b"two"]
    assert asked(telling, b"three") == first  # nobody listens


def test_who_does_not_want_to_hear_more_gets_another_worker(telling):
    """It may be anywhere in its work."""

    def stop(part):
        raise KeyboardInterrupt

    first = asked(telling)
    with pytest.raises(KeyboardInterrupt):
        asked(telling, b"one two", stop)
    assert asked(telling)[0] != first[0]


def test_a_worker_is_kept_while_nothing_changes_that_it_began_with(telling, tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    first = asked(telling)
    monkeypatch.setenv("OTHER", "so")
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert asked(telling) == first  # the folder is that of the start
    monkeypatch.setenv("PYTHONHASHSEED", "3")
    second = asked(telling)
    assert second[0] != first[0] and second[1:] == ["3", str(tmp_path / "elsewhere")]
    monkeypatch.syspath_prepend(tmp_path / "elsewhere")
    third = asked(telling)
    assert third[0] != second[0] and asked(telling) == third
    cpus = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cpus)})
    try:
        assert (asked(telling)[0] != third[0]) == (len(cpus) > 1)
    finally:
        os.sched_setaffinity(0, cpus)


def test_a_worker_that_had_more_memory_than_is_kept_ends_with_the_answer(telling, monkeypatch):
    monkeypatch.setenv("MOST", "1")
    assert asked(telling)[0] != asked(telling)[0]


def test_memory_of_the_process_that_starts_a_worker_does_not_count(telling, monkeypatch):
    """As it does for getrusage."""
    held = b"x" * (300 << 20)
    monkeypatch.setenv("MOST", str(200 << 20))
    assert asked(telling)[0] == asked(telling)[0]
    del held


def test_a_worker_imports_nothing_from_the_folder_that_it_starts_in(telling, tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "struct.py").write_text("raise SystemExit(3)")
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert asked(telling)[2] == str(tmp_path / "elsewhere")
