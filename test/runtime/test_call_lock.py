"""Handlers and finalisers that call the model while their own thread is inside a call of it."""

import gc
import signal
import threading
from contextlib import contextmanager

import numpy as np
import pytest

from rcompiler.errors import BusyError, DeviceError
from rcompiler.runtime.call_lock import CallLock
from rcompiler.runtime.executable import Executable
from rcompiler.runtime.turns import Turns
from test.runtime import small_models as sm

X = np.arange(sm.N, dtype=np.float32)


@contextmanager
def handling(handler):
    """What a signal calls, which Python then does at once, in the main thread."""
    before = signal.signal(signal.SIGUSR1, lambda *_: handler())
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)


def interrupted(model: Executable, once: bool = True) -> None:
    """Let a signal come while the model runs: just after the launch, in the thread that calls."""
    team = model._launcher._processes.get().team
    start = team.start

    def launch(bases):
        result = start(bases)
        if once:
            team.start = start
        signal.raise_signal(signal.SIGUSR1)
        return result

    team.start = launch


def test_a_signal_handler_is_refused_and_the_call_goes_on():
    model = Executable(sm.artifact([sm.two_steps(2)]), 2)
    right = model(X)[0]
    told = []

    def handler():
        with pytest.raises(BusyError, match="signal handler or a finaliser.*load the model once"):
            model(X)
        told.append(True)

    interrupted(model)
    with handling(handler):
        assert np.array_equal(model(X)[0], right)
    assert told == [True]
    assert np.array_equal(model(X)[0], right)  # and nothing is held any more


def test_an_error_of_the_handler_leaves_the_model_usable():
    model = Executable(sm.artifact([sm.two_steps(2)]), 2)
    right = model(X)[0]
    interrupted(model)
    with handling(lambda: model(X)), pytest.raises(BusyError):
        model(X)
    other = []
    thread = threading.Thread(target=lambda: other.append(model(X)[0]))
    thread.start()
    thread.join(30)
    assert np.array_equal(other[0], right)


def test_a_finaliser_is_refused():
    model = Executable(sm.artifact([sm.two_steps(1)]), 1)
    right = model(X)[0]
    told = []

    class Dropped:
        def __del__(self):
            try:
                model(X)
            except BusyError as error:
                told.append(error)

    team = model._launcher._processes.get().team
    start = team.start

    def launch(bases):
        Dropped()
        return start(bases)

    team.start = launch
    assert np.array_equal(model(X)[0], right)
    assert len(told) == 1


def test_a_handler_of_a_model_that_shares_threads_is_refused():
    """Else the call around it would run the other model's schedule on its own addresses."""
    artifact = sm.artifact([sm.two_steps(2)])
    turns = Turns(artifact.arena_bytes, 20.0)
    model, other = (Executable(artifact, 2, turns=turns) for _ in range(2))
    right = model(X)[0]
    told = []

    def handler():
        with pytest.raises(BusyError):
            other(X)
        told.append(True)

    prepare = model._launcher._prepare

    def prepared(team):
        prepare(team)
        signal.raise_signal(signal.SIGUSR1)

    model._launcher._prepare = prepared
    with handling(handler):
        assert np.array_equal(model(X)[0], right)
    assert told == [True]
    assert np.array_equal(other(X)[0], right)


def test_a_handler_may_close_the_model():
    """As one of SIGTERM does: the call comes to its end, and the next one is refused."""
    model = Executable(sm.artifact([sm.two_steps(2)]), 2)
    right = model(X)[0]
    _, _, (_, _, workers), _ = model._launcher._processes.get().team.close.peek()
    interrupted(model, once=False)
    with handling(model.close):
        assert np.array_equal(model(X)[0], right)
    assert model.closed
    with pytest.raises(DeviceError, match="closed"):
        model(X)
    model.close()
    gc.collect()  # what this test has put around the launch keeps the team
    assert workers and not any(worker.is_alive() for worker in workers)


def test_another_thread_waits():
    lock, order = CallLock(), []
    entered = threading.Event()

    def other():
        entered.set()
        with lock.alone():
            order.append("other")

    with lock.alone():
        thread = threading.Thread(target=other)
        thread.start()
        entered.wait(30)
        order.append("first")
    thread.join(30)
    assert order == ["first", "other"]
