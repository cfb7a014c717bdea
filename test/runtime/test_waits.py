"""codegen/veu.py + runtime/threads.py: a wait that cannot end fails in time and says why."""

import dataclasses
import time

import numpy as np
import pytest
import small_models as sm

from rcompiler.errors import DeviceError
from rcompiler.runtime import control
from rcompiler.runtime.artifact import Program
from rcompiler.runtime.executable import Executable
from rcompiler.runtime.tables import ARENA, CONSTANTS, EXTERNAL, instructions

X = np.ones(sm.N, np.float32)
RUN = ("run", sm.TWICE, 0, sm.N, 1, [(EXTERNAL, 0), (EXTERNAL + 1, 0)])
LIMIT = 0.3
PATIENCE_S = 15  # less than without a limit of its own, and more than any machine needs


def deadlocked() -> Program:
    streams = (
        sm.stream_of(RUN, ("wait", 1, 1), RUN, ("signal", 0)),
        sm.stream_of(("wait", 0, 1), ("signal", 1)),
    )
    return Program("main_0", streams, ("left", "right"), (("conv1", "conv2"), ()))


def test_a_deadlock_ends_and_names_who_waits_for_whom():
    model = Executable(sm.artifact([deadlocked()]), 2, wait_limit_s=LIMIT)
    for _ in range(2):  # and again: the first failure leaves a model that can be called
        start = time.monotonic()
        with pytest.raises(DeviceError) as caught:
            model(X)
        assert LIMIT <= time.monotonic() - start < PATIENCE_S
        message = str(caught.value)
        assert "EU 0 at word 10 (after operator 'conv1', before operator 'conv2')" in message
        assert "signal 1 of event 'main_0: right', which came 0 times" in message
        assert "still to come from EU 1 at word 3" in message
        assert "EU 1 at word 0 waits for signal 1 of event 'main_0: left'" in message


def test_a_lost_signal_is_reported_and_the_next_call_is_right():
    program = dataclasses.replace(sm.two_steps(2), events=("scaled", "other"))
    model = Executable(sm.artifact([program]), 2, wait_limit_s=LIMIT)
    assert np.array_equal(model(X)[0], sm.expected(X))
    stream = model._launcher._processes.get().team._shared.loaded.schedule.streams[1]
    (place,) = [at for at, op, _ in instructions(stream) if op == control.SIGNAL]
    stream[place + 1] = 1  # EU 1 signals the other event instead
    with pytest.raises(DeviceError) as caught:
        model(X)
    assert "signal 2 of event 'main_0: scaled', which came 1 times (nobody" in str(caught.value)
    stream[place + 1] = 0
    for _ in range(5):
        assert np.array_equal(model(X)[0], sm.expected(X))


def test_an_eu_that_misses_a_barrier_is_reported():
    model = Executable(sm.artifact([sm.two_steps(2, "barrier")]), 2, wait_limit_s=LIMIT)
    stream = model._launcher._processes.get().team._shared.loaded.schedule.streams[1]
    (place,) = [at for at, op, _ in instructions(stream) if op == control.BARRIER_OP]
    stream[place] = control.END
    with pytest.raises(DeviceError, match="EU 0.*waits for 1 more EU.s. at a barrier"):
        model(X)


def test_after_a_barrier_that_failed_the_next_ones_are_waited_at():
    """EU 1 takes long before it comes: what EU 0 reads too early is wrong."""
    scale = [(EXTERNAL, 0), (CONSTANTS, 0), (ARENA, 0)]
    double, half = [(ARENA, 0), (EXTERNAL + 1, 0)], sm.N // 2
    slow = ("run", sm.SLOW, 0, half, 1, [(EXTERNAL, 0), (EXTERNAL + 1, 0)])
    streams = [
        sm.stream_of(*first, ("run", sm.SCALE, at, half, 1, scale), ("barrier",),
                     ("run", sm.TWICE, half - at, half, 1, double))
        for at, first in ((0, []), (half, [slow]))
    ]  # fmt: skip
    program = Program("p", tuple(streams), (), (("mul", "add"), ("slow", "mul", "add")))
    model = Executable(sm.artifact([program]), 2, wait_limit_s=LIMIT)
    stream = model._launcher._processes.get().team._shared.loaded.schedule.streams[1]
    (place,) = [at for at, op, _ in instructions(stream) if op == control.BARRIER_OP]
    stream[place] = control.END
    with pytest.raises(DeviceError, match="at a barrier"):
        model(X)
    stream[place] = control.BARRIER_OP
    for factor in (1, 2, 3):
        assert np.array_equal(model(factor * X)[0], sm.expected(factor * X))


def test_a_worker_that_never_comes_back_breaks_the_model():
    model = Executable(sm.artifact([sm.two_steps(2)]), 2, wait_limit_s=LIMIT)
    team = model._launcher._processes.get().team
    team.close()  # the workers are gone, as if their threads had died
    for _ in range(2):
        with pytest.raises(DeviceError, match="a worker never came back, so load the model again"):
            model(X)


def test_progress_of_others_is_not_a_hang():
    """EU 1 waits far longer than the limit in all, while EU 0 goes on and on.

    The limit is long against the turns that other programs take on a busy machine.
    """
    slow = ("run", sm.SLOW, 0, sm.N, 1, [(EXTERNAL, 0), (EXTERNAL + 1, 0)])
    many = [slow] * 60 + [RUN]
    streams = (sm.stream_of(*many, ("signal", 0)), sm.stream_of(("wait", 0, 1)))
    program = Program("p", streams, ("done",), (("op",) * len(many), ()))
    model = Executable(sm.artifact([program]), 2, wait_limit_s=0.1)
    model._launcher._processes.get().team._shared.control[control.SLICE] = 200_000
    assert np.array_equal(model(X)[0], 2 * X)


def test_sleeping_threads_wake_up():
    """Launches far apart: the workers are asleep in the kernel each time."""
    model = Executable(sm.artifact([sm.two_steps(3)]), 3)
    for _ in range(5):
        time.sleep(0.02)
        assert np.array_equal(model(X)[0], sm.expected(X))
