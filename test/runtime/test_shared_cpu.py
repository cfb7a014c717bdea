"""codegen/waits.py: a waiter whose CPU another EU needs sleeps at once; any other one spins.

The CPU that a thread runs on is what a function in the place of `sched_getcpu` says; the notes of
the other EU are written by the test, which also gives the signal.
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
from rcompiler.runtime import control
from rcompiler.runtime.artifact import Program
from rcompiler.runtime.executable import Executable
from rcompiler.runtime.image import LoadedImage
from rcompiler.runtime.loaded_schedule import LoadedSchedule
from rcompiler.runtime.thread_schedule import combine
from rcompiler.runtime.threads import Waiting, _Shared

MINE, OTHER = 3, 4
ENDLESS = 1 << 62
PATIENCE_S = 60.0
ASKED = "llvm.func @sched_getcpu() -> i32\n"
SAID = """llvm.func internal @sched_getcpu() -> i32 {{
  %cpu = llvm.mlir.constant({} : i32) : i32
  llvm.return %cpu : i32
}}
"""


@cache
def image(cpu):
    text = veu.module_text()
    assert ASKED in text
    texts = [text.replace(ASKED, SAID.format(cpu)), sm.kernel_text()]
    return link(compile_objects(texts, Target.named("x86-64"), jobs=1))


class Waiter:
    """EU 0 of two, in a thread of its own: it waits for one signal. EU 1 is the test."""

    def __init__(self, cpu=MINE):
        streams = (sm.stream_of(("wait", 0, 1)), sm.stream_of(("signal", 0)))
        program = Program("main_0", streams, ("done",), ((), ()))
        code = LoadedImage(image(cpu))
        waiting = Waiting(spin=ENDLESS, yields=0, slice_s=0.001)
        self.shared = _Shared(
            code, LoadedSchedule(code, sm.KERNELS, combine([program], 2)), waiting
        )
        function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
        main = function(code.function("veu_main"))
        self._thread = threading.Thread(target=main, args=(self.shared.control_address, 0, 1))

    def works_on(self, cpu):
        """Note that EU 1 does."""
        self.shared.units[1, control.CPU] = cpu + 1

    @contextmanager
    def running(self):
        self._thread.start()
        try:
            yield
        finally:
            self.shared.loaded.events[0] = 1
            self._thread.join(PATIENCE_S)

    @property
    def waits(self):
        return self.ended or self.shared.units[0, control.CPU] == 0

    @property
    def asleep(self):
        return self.shared.loaded.events[1] == 1

    @property
    def ended(self):
        return not self._thread.is_alive()


def becomes(condition):
    end = time.monotonic() + PATIENCE_S
    while not condition() and time.monotonic() < end:
        time.sleep(0.001)
    return condition()


def test_a_waiter_in_the_way_of_another_eu_sleeps():
    waiter = Waiter()
    waiter.works_on(MINE)
    with waiter.running():
        assert becomes(lambda: waiter.asleep)
    assert waiter.ended


def test_a_waiter_in_the_way_of_an_eu_that_was_woken_sleeps():
    waiter = Waiter()
    waiter.shared.units[1, [control.CPU, control.SLEPT]] = -1, MINE + 1
    with waiter.running():
        assert becomes(lambda: waiter.asleep)
    assert waiter.ended


def test_a_waiter_notices_later_that_it_is_in_the_way():
    waiter = Waiter()
    waiter.works_on(OTHER)
    with waiter.running():
        assert becomes(lambda: waiter.waits)
        waiter.works_on(MINE)
        assert becomes(lambda: waiter.asleep)
    assert waiter.ended


@pytest.mark.parametrize(("mine", "other"), [(MINE, OTHER), (MINE, -1), (-1, -1), (0, -1)])
def test_a_waiter_spins_while_nobody_needs_its_cpu(mine, other):
    """EU 1 works on another CPU, or waits itself (-1); or no CPU is known (-1)."""
    waiter = Waiter(mine)
    waiter.works_on(other)
    with waiter.running():
        assert becomes(lambda: waiter.waits)
        time.sleep(0.02)
        assert not waiter.asleep
    assert waiter.ended


def test_an_eu_says_where_it_works_and_that_it_is_done():
    model = Executable(sm.artifact([sm.two_steps(2)]), 2)
    model(np.ones(sm.N, np.float32))
    units = model._launcher._processes.get().team._shared.units
    assert 0 < units[0, control.CPU] <= os.cpu_count()  # the caller's, which goes on
    assert units[1, control.CPU] == 0


@pytest.mark.parametrize("sync", ["event", "barrier"])
@pytest.mark.parametrize("eus", [2, 3])
def test_threads_that_share_a_cpu_finish(sync, eus):
    """Spinning without end, but for the look at the CPU."""
    x = np.ones(sm.N, np.float32)
    known = {thread.ident for thread in threading.enumerate()}
    model = Executable(sm.artifact([sm.two_steps(eus, sync)]), eus)
    shared = model._launcher._processes.get().team._shared
    shared.control[[control.SPIN, control.YIELDS]] = ENDLESS, 0
    workers = [t.native_id for t in threading.enumerate() if t.ident not in known]
    assert len(workers) == eus - 1
    before = os.sched_getaffinity(0)
    try:
        for thread in (0, *workers):
            os.sched_setaffinity(thread, {min(before)})
        for _ in range(200):
            assert np.array_equal(model(x)[0], sm.expected(x))
    finally:
        os.sched_setaffinity(0, before)
        model.close()
