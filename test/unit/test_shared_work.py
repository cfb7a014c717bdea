"""shared_work.py and workers.py: who does which piece, and what happens when a worker does not."""

import os
import threading
import time
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
PATIENCE_S = 120  # what takes longer hangs


@pytest.fixture
def workers(tmp_path, monkeypatch):
    (tmp_path / "shouting.py").write_text(_PROGRAM)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    return Workers("shouting")


class Pieces:
    """Shared work on words: upper case, with a mark for those that were done here."""

    def __init__(self, words, here_s=0.0):
        self.words, self.results, self._here_s = words, {}, here_s
        self.work = SharedWork(len(words), self._here, bytes.decode, self._done)
        self.questions = [word.encode() for word in words]

    def _here(self, number):
        time.sleep(self._here_s)
        if self.words[number] == "cannot":
            raise ValueError("cannot")
        return self.words[number].upper() + "!"

    def _done(self, number, result):
        assert number not in self.results
        self.results[number] = result

    def plain(self):
        return [self.results[k].rstrip("!") for k in range(len(self.words))]


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
    pieces = Pieces(list("abc"))
    pieces.work.finish()
    assert pieces.results == {0: "A!", 1: "B!", 2: "C!"}


def test_both_take_part_and_every_piece_is_done_once(workers):
    pieces = Pieces([f"w{k}" for k in range(100)], here_s=0.01)
    with pieces.work.begun(workers, pieces.questions):
        pieces.work.finish()
    assert pieces.plain() == expected(pieces.words)
    assert {result[-1] == "!" for result in pieces.results.values()} == {True, False}


def test_the_worker_works_while_this_process_does_something_else(workers):
    pieces = Pieces(list("abc"))
    with pieces.work.begun(workers, pieces.questions):
        end = time.monotonic() + PATIENCE_S
        while len(pieces.results) < 3 and time.monotonic() < end:
            time.sleep(0.01)
        assert pieces.results == {0: "A", 1: "B", 2: "C"}
        pieces.work.finish()


def test_what_a_dead_worker_leaves_is_done_here(workers):
    pieces = Pieces(["die", *"abcdef"])
    with pieces.work.begun(workers, pieces.questions):
        pieces.work.finish()
    assert pieces.plain() == expected(pieces.words) and pieces.results[0] == "DIE!"
    with workers.borrow() as worker:
        assert worker.ask(b"a") == (0, b"A")


def test_a_worker_that_does_not_answer_is_not_waited_for(workers, monkeypatch):
    monkeypatch.setattr(shared_work, "_PATIENCE_S", 0.2)
    pieces = Pieces(["sleep", "a"])
    threads = threading.active_count()
    with pieces.work.begun(workers, pieces.questions):
        pieces.work.finish()
    assert pieces.plain() == expected(pieces.words)
    assert pieces.results[0] == "SLEEP!" and threading.active_count() == threads


def test_an_error_is_that_of_this_process(workers):
    pieces, threads = Pieces(["a", "cannot", "b"]), threading.active_count()
    with (
        pytest.raises(ValueError, match="cannot"),
        pieces.work.begun(workers, pieces.questions),
    ):
        pieces.work.finish()
    assert threading.active_count() == threads


def test_without_a_process_this_one_does_all():
    class None_:
        @contextmanager
        def borrow(self):
            raise BlockingIOError("no more processes")
            yield

    pieces = Pieces(list("ab"))
    with pieces.work.begun(None_(), pieces.questions):
        pieces.work.finish()
    assert pieces.results == {0: "A!", 1: "B!"}


def test_the_last_answer_comes_when_nobody_waits_for_it_any_more(monkeypatch):
    pieces = Pieces(["a"])
    work = pieces.work
    work._take()  # the worker is at it

    def too_late():
        work._deliver(0, "A")
        return False

    monkeypatch.setattr(work, "_something_comes", too_late)
    work.finish()
    assert pieces.results == {0: "A"}
