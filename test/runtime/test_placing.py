"""codegen/placing.py: EUs that get no CPU are moved, and may run afterwards where before.

EU 1 is a thread that sleeps, in the place of one that wants to run and cannot: the kernel's clock
of both stands still. EU 0 is the thread that calls.
"""

import ctypes
import os
import threading
import time
from contextlib import contextmanager
from functools import cache

import numpy as np
import pytest
import small_models as sm

from rcompiler.codegen import veu
from rcompiler.codegen.cpu import Target, compile_objects
from rcompiler.codegen.link import link
from rcompiler.runtime import control as at
from rcompiler.runtime.artifact import Program
from rcompiler.runtime.image import LoadedImage
from rcompiler.runtime.loaded_schedule import LoadedSchedule
from rcompiler.runtime.thread_schedule import combine
from rcompiler.runtime.threads import Waiting, _Shared

CPUS = sorted(os.sched_getaffinity(0))
EXPOSED = ("fetch", "rescue", "spread", "settle", "claim", "unclaim", "enter", "leave")
WORKS_ELSEWHERE, WOKEN = 1 << 20, -1  # no set has room for the first
PATIENCE_S = 60.0
COUNTER = 1 << 12  # address of a counter that nobody reads

several_cpus = pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs")


@cache
def image():
    text = veu.module_text()
    for name in EXPOSED:
        assert f"llvm.func internal @veu_{name}(" in text
        text = text.replace(f"llvm.func internal @veu_{name}(", f"llvm.func @veu_{name}(")
    return link(compile_objects([text, sm.kernel_text()], Target.named("x86-64"), jobs=1))


class Team:
    """The control block of two EUs; no thread of it runs."""

    def __init__(self):
        streams = (sm.stream_of(("wait", 0, 1)), sm.stream_of(("signal", 0)))
        program = Program("main_0", streams, ("done",), ((), ()))
        self.code = LoadedImage(image())
        self.shared = _Shared(
            self.code, LoadedSchedule(self.code, sm.KERNELS, combine([program], 2)), Waiting()
        )
        self.unit = self.shared.units[1]
        self.taken = np.zeros(2 * at.TAKEN_WORDS, np.int64)
        self.never = np.zeros(1, np.int64)  # a counter that stays 0

    def call(self, name, *args, result=ctypes.c_bool):
        function = ctypes.CFUNCTYPE(result, *[ctypes.c_int64] * len(args))
        return function(self.code.function(f"veu_{name}"))(*args)

    def rescues(self):
        """Tried again, as the sleeper may not have fallen asleep yet."""
        end = time.monotonic() + PATIENCE_S
        while not (done := self.rescue()) and time.monotonic() < end:
            time.sleep(0.001)
        return done

    def rescue(self):
        return self.call("rescue", self.shared.control_address, self.never.ctypes.data, 1)

    def fetch(self):
        return self.call("fetch", self.unit.ctypes.data)

    def spread(self):
        self.call("spread", self.shared.control_address, COUNTER, self.taken.ctypes.data)
        return self.taken[at.TAKEN_WORDS] == 1

    def enter(self):
        self.call("enter", self.unit.ctypes.data)

    def leave(self):
        self.call("leave", self.unit.ctypes.data)

    def settle(self):
        self.call("settle", self.shared.control_address, self.taken.ctypes.data)


@contextmanager
def on(cpu):
    """The calling thread on one CPU."""
    os.sched_setaffinity(0, {cpu})
    try:
        yield
    finally:
        os.sched_setaffinity(0, CPUS)


@contextmanager
def sleeper(team):
    """EU 1: a thread of this process that sleeps; its number."""
    begun, over = threading.Event(), threading.Event()

    def sleep():
        team.unit[at.TID] = threading.get_native_id()
        begun.set()
        over.wait()

    thread = threading.Thread(target=sleep)
    thread.start()
    begun.wait()
    try:
        yield int(team.unit[at.TID])
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize("note", [WORKS_ELSEWHERE, WOKEN])
def test_an_eu_that_gets_no_cpu_is_moved_to_the_waiter(note):
    team = Team()
    team.unit[at.CPU] = note
    with sleeper(team) as thread, on(CPUS[0]):
        assert team.rescues()
        assert os.sched_getaffinity(thread) == set(CPUS)
    assert team.unit[at.FETCHED] > 0
    assert team.unit[at.MOVING] == 0


def test_an_eu_that_was_called_and_has_not_begun_is_moved():
    team = Team()
    team.shared.control[at.EPOCH] = 1
    team.shared.units[0, at.BEGUN] = 1
    with sleeper(team), on(CPUS[0]):
        assert team.rescues()


def test_an_eu_that_waits_stays_where_it_is():
    team = Team()
    with sleeper(team):
        assert not team.rescue()
    assert team.unit[at.FETCHED] == 0


def test_an_eu_that_runs_stays_where_it_is():
    """Thread 0 is whoever asks, to the kernel's clocks."""
    team = Team()
    team.unit[at.CPU] = WORKS_ELSEWHERE
    assert not team.rescue()
    assert team.unit[at.FETCHED] == 0


def test_a_thread_of_another_process_is_never_touched():
    team = Team()
    team.unit[at.CPU], team.unit[at.TID] = WORKS_ELSEWHERE, os.getppid()
    assert not team.rescue()
    assert team.unit[at.FETCHED] == 0


def test_a_waiter_that_got_what_it_waits_for_moves_nobody():
    team = Team()
    team.unit[at.CPU] = WORKS_ELSEWHERE
    team.never[0] = 1
    with sleeper(team):
        assert not team.rescue()
    assert team.unit[at.FETCHED] == 0


@several_cpus
def test_a_pinned_eu_is_not_moved():
    team = Team()
    team.unit[at.CPU] = WORKS_ELSEWHERE
    with sleeper(team) as thread, on(CPUS[0]):
        os.sched_setaffinity(thread, {CPUS[1]})
        assert not team.rescue()
        assert os.sched_getaffinity(thread) == {CPUS[1]}
    assert team.unit[at.MOVING] == 0


def test_only_one_moves_an_eu_at_a_time():
    team = Team()
    team.unit[at.MOVING] = 1
    with sleeper(team), on(CPUS[0]):
        assert not team.fetch()
        team.unit[at.MOVING] = 0
        assert team.fetch()


def test_the_thread_of_the_caller_is_moved_in_launches_only():
    team = Team()
    with sleeper(team) as thread, on(CPUS[0]):
        team.leave()
        assert not team.fetch()
        team.enter()
        assert team.unit[at.TID] == threading.get_native_id()
        team.unit[at.TID] = thread
        assert team.fetch()


def test_a_launch_ends_when_nobody_moves_the_thread_of_the_caller_any_more():
    """Or the mover would give back what the caller has changed meanwhile."""
    team = Team()
    team.unit[at.MOVING] = 1
    caller = threading.Thread(target=team.leave)
    caller.start()
    caller.join(0.05)
    assert caller.is_alive()
    team.unit[at.MOVING] = 0
    caller.join(PATIENCE_S)
    assert not caller.is_alive()
    assert team.unit[at.MOVING] == 1


def test_a_launch_leaves_the_thread_of_the_caller_claimed():
    team = Team()
    launch = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)
    worker = threading.Thread(target=team.call, args=("main", team.shared.control_address, 1, 1))
    team.shared.control[at.DONE] = 1  # as if the worker, which serves one launch, had said so
    worker.start()
    launch(team.code.function("veu_launch"))(team.shared.control_address, None)
    worker.join(PATIENCE_S)
    unit = team.shared.units[0]
    assert unit[[at.MOVING, at.TID]].tolist() == [1, threading.get_native_id()]


@several_cpus
def test_an_eu_is_woken_off_the_cpu_of_the_one_that_wakes_it():
    team = Team()
    team.unit[[at.SLEEPS_ON, at.SLEPT]] = COUNTER, 1 + CPUS[0]
    with sleeper(team) as thread, on(CPUS[0]):
        assert team.spread()
        assert os.sched_getaffinity(thread) == set(CPUS[1:])
        assert team.unit[[at.CPU, at.SLEEPS_ON, at.SLEPT]].tolist() == [WOKEN, 0, 0]
        assert team.unit[at.MOVING] == 1
        team.settle()
        assert os.sched_getaffinity(thread) == set(CPUS)
    assert team.unit[at.MOVING] == 0


@several_cpus
@pytest.mark.parametrize(
    ("counter", "slept", "fetched"),
    [(COUNTER + 64, 0, 0), (COUNTER, 1, 0), (COUNTER, 0, 1 << 62)],
    ids=["another counter", "another cpu", "moved a moment ago"],
)
def test_an_eu_is_woken_where_the_kernel_wants(counter, slept, fetched):
    team = Team()
    team.unit[[at.SLEEPS_ON, at.SLEPT, at.FETCHED]] = counter, 1 + CPUS[slept], fetched
    with sleeper(team) as thread, on(CPUS[0]):
        assert not team.spread()
        assert os.sched_getaffinity(thread) == set(CPUS)
        team.settle()
    assert team.unit[at.MOVING] == 0


def test_an_eu_with_one_cpu_is_woken_there():
    team = Team()
    team.unit[[at.SLEEPS_ON, at.SLEPT]] = COUNTER, 1 + CPUS[0]
    with sleeper(team) as thread, on(CPUS[0]):
        os.sched_setaffinity(thread, {CPUS[0]})
        assert not team.spread()
        team.settle()
        assert os.sched_getaffinity(thread) == {CPUS[0]}
    assert team.unit[at.MOVING] == 0
