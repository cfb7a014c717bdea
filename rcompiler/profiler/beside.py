"""Other EUs that are busy with a kernel while its time on one EU is taken.

What all EUs share, the last cache and the memory behind it, is then shared as in a schedule; the
clock of cores that are all busy counts, too. Every EU is a thread on a CPU of its own and has
operands and a workspace of its own: none finds in a cache what another one has fetched, as the
tasks of one operator read different rows, panels or channels.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from rcompiler.errors import DeviceError
from rcompiler.profiler.code import KernelRunner, Loaded
from rcompiler.profiler.operands import Operands

_SHARE = 0.9  # of the time of a reading: so long has every EU to have its CPU at least
_LOOK_S = 20e-6


class Others:
    """Threads that run what they are told to, over and over, until they are told to stop."""

    def __init__(self, loaded: Loaded, sets: Sequence[Sequence[Operands]]) -> None:
        """sets: operands of each of them. They wait on the CPUs after the first one."""
        self._cpus = sorted(os.sched_getaffinity(0))
        self._eus = [
            _Other(loaded, own, self._cpus[k % len(self._cpus)]) for k, own in enumerate(sets, 1)
        ]

    @contextmanager
    def here(self) -> Iterator[None]:
        """The calling thread has the first CPU, and the others live.

        Raises DeviceError where the system refuses threads.
        """
        cpus = os.sched_getaffinity(0)
        try:
            for other in self._eus:
                other.start()
            with suppress(OSError):  # then it is where the system puts it
                os.sched_setaffinity(0, self._cpus[:1])
            yield
        finally:
            for other in self._eus:
                other.close()
            with suppress(OSError):
                os.sched_setaffinity(0, cpus)

    @contextmanager
    def running(self, name: str) -> Iterator[Callable[[float], bool]]:
        """They run a kernel. Gives what is told the ns of a CPU that the calling thread has had
        since it was asked before, and says whether that thread and all of them had their CPUs all
        the while: else it was alone for a part of it.
        """
        for other in self._eus:
            other.begin(name)
        for other in self._eus:
            other.until_busy()
        seen = self._clocks()

        def all_ran(ns: float) -> bool:
            now = self._clocks()
            wall, *spent = (b - a for a, b in zip(seen, now, strict=True))
            seen[:] = now
            return min(ns, *spent) >= _SHARE * wall

        try:
            yield all_ran
        finally:
            for other in self._eus:
                other.stop()
            for other in self._eus:
                other.until_idle()

    def _clocks(self) -> list[int]:
        """Of the wall, and of each of them; ns."""
        return [time.perf_counter_ns(), *(other.spent() for other in self._eus)]


class _Other:
    """One of them."""

    def __init__(self, loaded: Loaded, sets: Sequence[Operands], cpu: int) -> None:
        self._unit = KernelRunner(loaded, sets)
        self._cpu = cpu
        self._orders: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._idle = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="busy EU", daemon=True)

    def start(self) -> None:
        try:
            self._thread.start()
        except RuntimeError:
            raise DeviceError(
                "the system refuses a thread to measure kernels beside; compile for fewer EUs"
            ) from None

    def close(self) -> None:
        self._orders.put(None)
        if self._thread.ident is not None:
            self._thread.join()

    def begin(self, name: str) -> None:
        self._idle.clear()
        self._unit.allow()
        self._orders.put(name)

    def until_busy(self) -> None:
        while not self._unit.done and not self._idle.is_set():
            time.sleep(_LOOK_S)

    def stop(self) -> None:
        self._unit.stop()

    def until_idle(self) -> None:
        self._idle.wait()

    def spent(self) -> int:
        """ns of a CPU that the thread has had."""
        assert self._thread.ident is not None
        return time.clock_gettime_ns(time.pthread_getcpuclockid(self._thread.ident))

    def _serve(self) -> None:
        with suppress(OSError):
            os.sched_setaffinity(0, {self._cpu})
        while (name := self._orders.get()) is not None:
            try:
                self._unit.run_until_stopped(name)
            finally:
                self._idle.set()
