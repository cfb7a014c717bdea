"""EUs that are busy while a kernel is timed: threads that run it until they are told to stop."""

import os
import time

import pytest

from rcompiler.errors import DeviceError
from rcompiler.profiler import beside
from rcompiler.profiler.beside import Others


class Unit:
    """Instead of compiled code: counts until it is stopped."""

    made: list["Unit"] = []

    def __init__(self, loaded, sets):
        self.loaded, self.sets = loaded, sets
        self.done, self.names, self.cpus, self._stopped = 0, [], None, False
        Unit.made.append(self)

    def run_until_stopped(self, name):
        self.names.append(name)
        self.cpus = os.sched_getaffinity(0)
        while not self._stopped:
            self.done += 1

    def allow(self):
        self.done, self._stopped = 0, False

    def stop(self):
        self._stopped = True


@pytest.fixture
def units(monkeypatch):
    monkeypatch.setattr(Unit, "made", [])
    monkeypatch.setattr(beside, "KernelRunner", Unit)
    return Unit.made


def test_all_of_them_run_the_kernel_with_operands_of_their_own(units):
    others = Others("code", [["a"], ["b"]])
    cpus = sorted(os.sched_getaffinity(0))
    with others.here():
        assert os.sched_getaffinity(0) == {cpus[0]}
        for name in ("first", "second"):
            with others.running(name):
                assert all(unit.done > 0 and unit.names[-1] == name for unit in units)
            before = [unit.done for unit in units]
            time.sleep(0.01)
            assert [unit.done for unit in units] == before  # they stand still
    assert os.sched_getaffinity(0) == set(cpus)
    assert [(u.loaded, u.sets) for u in units] == [("code", ["a"]), ("code", ["b"])]
    assert [u.cpus for u in units] == [{cpus[k % len(cpus)]} for k in (1, 2)]


@pytest.mark.parametrize(
    ("mine", "theirs", "counts"), [(100, 95, True), (100, 80, False), (80, 100, False)]
)
def test_a_reading_counts_if_all_had_their_processors(units, monkeypatch, mine, theirs, counts):
    """In 100 ns of the wall: else the reading was alone for a part of it."""
    others = Others("code", [["a"], ["b"]])
    clocks = [0, 0, 0]
    monkeypatch.setattr(others, "_clocks", lambda: list(clocks))
    with others.here(), others.running("kernel") as all_ran:
        clocks[:] = 1000, 5, 7
        all_ran(0.0)  # it begins here
        clocks[:] = 1100, 105, 7 + theirs
        assert all_ran(mine) == counts


def test_the_clocks_are_those_of_the_wall_and_of_the_threads(units):
    others = Others("code", [["a"]])
    with others.here(), others.running("kernel"):
        before = others._clocks()
        time.sleep(0.05)
        wall, spent = (b - a for a, b in zip(before, others._clocks(), strict=True))
        assert wall >= 5e7 and 0 < spent <= 1.1 * wall


def test_they_end_when_the_measurement_fails(units):
    others = Others("code", [["a"]])
    with pytest.raises(KeyError), others.here(), others.running("kernel"):
        raise KeyError
    assert not any(other._thread.is_alive() for other in others._eus)


def test_threads_that_are_refused_are_an_error_that_ends_the_others(units, monkeypatch):
    others = Others("code", [["a"], ["b"]])

    def refuse():
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(others._eus[1]._thread, "start", refuse)
    with pytest.raises(DeviceError, match="fewer EUs"), others.here():
        pass
    assert not others._eus[0]._thread.is_alive()
