"""Who waits for one of several things: in which order, how long, and what is said."""

import os
import threading
from contextlib import contextmanager

import pytest

from rcompiler.errors import BusyError, DeviceError
from rcompiler.runtime.line import Line

PATIENCE_S = 60.0


@contextmanager
def taken(line, limit_s=PATIENCE_S):
    number = line.take(limit_s)
    try:
        yield number
    finally:
        line.give(number)


class Caller:
    """A thread that takes a number, and gives it back when it is let."""

    def __init__(self, line, name):
        self.line, self.name = line, name
        self.has, self.let = threading.Event(), threading.Event()
        self.number = self.error = None
        self.thread = threading.Thread(target=self._run, name=name)
        self.thread.start()

    def _run(self):
        try:
            with taken(self.line) as self.number:
                self.has.set()
                assert self.let.wait(PATIENCE_S)
        except (BusyError, DeviceError) as error:
            self.error = error
            self.has.set()

    def end(self):
        self.let.set()
        self.thread.join()


def waiting(line, count):
    """Until so many threads wait."""
    state = line._states.get()
    done = threading.Event()
    while not done.wait(0.001):
        with state.lock:
            if len(state.waiting) == count:
                return


def test_who_came_first_is_served_first():
    line = Line(1, "thing")
    first = Caller(line, "first")
    assert first.has.wait(PATIENCE_S)
    others = []
    for number in range(3):
        others.append(Caller(line, f"{number}"))
        waiting(line, number + 1)
    order = []
    before = first
    for each in others:
        assert not each.has.is_set()
        before.end()
        assert each.has.wait(PATIENCE_S)
        order.append(each.number)
        before = each
    before.end()
    assert order == [0, 0, 0]


def test_each_number_has_one_holder():
    line, held, wrong = Line(3, "thing"), set(), []
    lock = threading.Lock()

    def work():
        for _ in range(200):
            with taken(line) as number:
                with lock:
                    if number in held:
                        wrong.append(number)
                    held.add(number)
                with lock:
                    held.remove(number)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not wrong and line._states.get().free == [*line._states.get().free]
    assert sorted(line._states.get().free) == [0, 1, 2]


def test_the_error_says_who_is_waited_for():
    now = [10.0]
    line = Line(1, "instance", clock=lambda: now[0])
    holder = Caller(line, "slow one")
    assert holder.has.wait(PATIENCE_S)
    other = Caller(line, "other")
    waiting(line, 1)
    now[0] = 13.5
    said = (
        r"1 instances: none was free for 0 s; they run calls of the threads 'slow one' for 3.5 s; "
        r"1 more calls wait, 1 of them before this one"
    )
    with pytest.raises(BusyError, match=said):
        line.take(0.0)
    holder.end()
    other.end()
    assert line.take(0.0) == 0


def test_so_many_may_wait():
    line = Line(1, "instance", most_waiting=1)
    holder = Caller(line, "holder")
    assert holder.has.wait(PATIENCE_S)
    other = Caller(line, "other")
    waiting(line, 1)
    with pytest.raises(BusyError, match="1 calls wait already, which is the most"):
        line.take(PATIENCE_S)
    holder.end()
    other.end()


def test_closing_refuses_who_waits():
    line = Line(1, "instance")
    holder = Caller(line, "holder")
    assert holder.has.wait(PATIENCE_S)
    other = Caller(line, "other")
    waiting(line, 1)
    line.close()
    assert other.has.wait(PATIENCE_S)
    assert isinstance(other.error, DeviceError) and "the pool is closed" in str(other.error)
    with pytest.raises(DeviceError, match="closed"):
        line.take(0.0)
    holder.end()
    other.end()


def test_an_interrupt_passes_on_what_was_handed_over(monkeypatch):
    line = Line(1, "instance")
    number = line.take(0.0)
    me = line._states.get()

    class Interrupted(threading.Event().__class__):
        def wait(self, timeout=None):
            line.give(number)  # which hands it to the one that waits
            raise KeyboardInterrupt

    monkeypatch.setattr("rcompiler.runtime.line.threading.Event", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        line.take(PATIENCE_S)
    assert me.free == [0] and not me.holders and not me.waiting


def test_a_forked_child_has_all_of_them():
    line = Line(1, "instance")
    with taken(line, 0.0):
        child = os.fork()
        if not child:
            try:
                with taken(line, 0.0) as number:
                    line.give(5)  # nobody's
                os._exit(0 if number == 0 else 1)
            finally:
                os._exit(2)
        assert os.waitpid(child, 0)[1] == 0
        with pytest.raises(BusyError):
            line.take(0.0)
