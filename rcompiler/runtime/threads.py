"""The EU threads of one executable, and the post-mortem of a launch that failed.

Workers are Python daemon threads that enter compiled code once and stay there: no interpreter
lock, no Python between two inferences. EU 0 is the thread that calls. They are stopped and joined
before their memory goes: when the team is closed or collected, and at interpreter exit.
"""

import ctypes
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NoReturn

import numpy as np

from rcompiler.device.cgroups import usable_cpus
from rcompiler.errors import DeviceError
from rcompiler.runtime import control as at
from rcompiler.runtime.call_lock import CallLock, nested
from rcompiler.runtime.closing import CLOSED
from rcompiler.runtime.image import LoadedImage
from rcompiler.runtime.loaded_schedule import LoadedSchedule
from rcompiler.runtime.memory import address, arena
from rcompiler.runtime.post_mortem import PostMortem
from rcompiler.runtime.run_delay import RunDelay
from rcompiler.runtime.stamps import Stamps
from rcompiler.support.this_process import PerProcess

_WORD = 8
_PAGE = 4096
_JOIN_S = 5.0
_BUSY_FACTOR = 30
_DAY_S = 86400  # in ns and times the factor it is still far from 64 bits
_Worker = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
_Stop = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_Launch = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)


@dataclass(frozen=True)
class Waiting:
    """How threads wait.

    Attributes:
        spin: pauses before the first yield; None = 10000 when every thread can have a CPU, else
            50. A waiter whose CPU another EU needs stops earlier (see `codegen.waits`).
            Measured, 2 CPUs: ShuffleNet, whose threads wait for 10 us now and then, takes 1.65 ms
            with 500 and 1.46 ms with 2000 and more; the slowest tenth of the runs of ResNet-50
            takes 31 ms with 500 and 20 ms with 10000, as a thread that sleeps is late by more
            than it waited for. 4 threads of 2 CPUs meet in 3 us with 50, 6.6 us with 150 and
            13 us with 500.
        yields: `sched_yield` calls before sleeping; None = 0 when every thread can have a CPU,
            else 8. A yield gives the rest of a turn to whatever else is running: it is right
            among the threads of a team that share CPUs, and costs milliseconds beside others.
        slice_s: a sleeper looks around this often.
        limit_s: after so long without any progress a wait has failed; 30 times that while an EU
            is inside a kernel.

    Raises DeviceError when ``limit_s`` is no time above 0 and up to a day.
    """

    spin: int | None = None
    yields: int | None = None
    slice_s: float = 0.05
    limit_s: float = 20.0

    def __post_init__(self) -> None:
        limit = self.limit_s
        if not isinstance(limit, int | float) or isinstance(limit, bool) or not 0 < limit <= _DAY_S:
            raise DeviceError(f"wait_limit_s={limit!r}: give seconds above 0, at most {_DAY_S}")


class Team:
    """Threads that run one schedule, launch after launch. Not thread-safe: hold a lock.

    Attributes:
        start: runs once; takes the table of base addresses, or the address of one. What it returns
            goes to `failed` unless it is OK.
        stamps: of the last launch, if the team is timed.
        native_ids: of its workers, as the system calls them.
    """

    def __init__(
        self,
        code: LoadedImage,
        loaded: LoadedSchedule,
        waiting: Waiting,
        pin: bool | Sequence[int] = False,
        timed: bool = False,
    ) -> None:
        """Start the workers. pin: to a CPU each; if it is some CPUs, to these. timed: note when
        each RUN begins and ends.

        Raises:
            DeviceError: no memory or no threads.
        """
        self.threads = len(loaded.streams)
        self._limit_s = waiting.limit_s
        cpus = None if isinstance(pin, bool) else len({*pin})
        self._shared = _Shared(code, loaded, waiting, cpus)
        self.stamps = Stamps(loaded.schedule) if timed else None
        suffix = "_timed" if timed else ""
        # Foreign: bases -> OK, or what `failed` explains.
        self.start: Callable[[int | bytes], int] = partial(
            _Launch(code.function(f"veu_launch{suffix}")), self._shared.control_address
        )
        if self.stamps is not None:
            self._shared.units[: self.threads, [at.STAMPS, at.PLACES]] = self.stamps.addresses()
            self.start = partial(self.stamps.start, self.start)
        enter = _Worker(code.function(f"veu_worker{suffix}"))
        workers = _start(self._shared, code, enter, self.threads, pin)
        self.native_ids = [worker.native_id or 0 for worker in workers]
        # Runs at close, at collection, and at interpreter exit, whichever comes first.
        stop = _Stop(code.function("veu_stop"))
        self.close = weakref.finalize(self, _shut_down, self._shared, stop, workers)

    def load(self, loaded: LoadedSchedule, limit_s: float) -> None:
        """Let launches run another schedule for as many threads, which wait up to `limit_s`.

        Some microseconds: it changes a few words. Not for a team that is timed.
        """
        assert len(loaded.streams) == self.threads and self.stamps is None
        self._limit_s = limit_s
        self._shared.load(loaded, limit_s)

    def failed(self, result: int) -> NoReturn:
        """Say who waited for whom when `start` did not return OK. The next launch starts afresh,
        unless a worker did not come back.

        Raises:
            DeviceError: always.
        """
        message = self._post_mortem()
        if result == at.LOST:
            message = f"{message}; a worker never came back, so load the model again"
            self.start = partial(_refuse, message)
            raise DeviceError(message)
        self._shared.reset()
        raise DeviceError(f"{message}; this is a defect of the schedule: compile again")

    def _post_mortem(self) -> str:
        parts = []
        for eu in range(self.threads + 1):
            unit = self._shared.units[eu]
            if unit[at.FAILED]:
                parts.append(self._describe(eu, unit))
        return f"the schedule stopped: no EU made progress for {self._limit_s:g} s; " + "; ".join(
            parts
        )

    def _describe(self, eu: int, unit: np.ndarray) -> str:
        event, expected, actual = (int(unit[i]) for i in (at.EVENT, at.EXPECTED, at.ACTUAL))
        if event == at.ON_WORKERS:
            return f"EU 0 waits for {expected - actual} worker(s) to finish"
        found = self._shared.post_mortem()
        if event == at.ON_BARRIER:
            return found.at_barrier(eu, expected - actual)
        return found.at_event(eu, event, expected)


class _Process(CallLock):
    """The team of one process, and the lock of its launches."""

    def __init__(self) -> None:
        super().__init__()
        self.team: Team | None = None


class Launcher:
    """Runs inferences one after the other, whatever threads and processes they come from.

    A forked child has none of the threads: it makes its own at its first launch.
    """

    def __init__(self, make: Callable[[], Team]) -> None:
        """Start the threads of this process. Raises as `Team`."""
        self._make = make
        self._closed = False
        self._ended = True  # the threads of a team that was closed
        self._processes = PerProcess(_Process)
        process = self._processes.get()
        with process.lock:
            self._team(process)

    def run(self, bases: int | bytes, prepare: Callable[[Team], None] | None = None) -> None:
        """Run once.

        Args:
            bases: the table of base addresses, or the address of one.
            prepare: called with the team before it starts.

        Raises:
            DeviceError: closed, or the schedule stopped (see `Waiting.limit_s`).
            BusyError: this thread is in here already, see `call_lock`.
        """
        process = self._processes.get()
        with process.lock:
            if process.inside:
                raise nested()
            process.inside = True
            try:
                team = process.team or self._team(process)
                if prepare is not None:
                    prepare(team)
                result = team.start(bases)
                if result:
                    team.failed(result)
            finally:
                process.inside = False

    @property
    def closed(self) -> bool:
        """Whether it runs no more."""
        return self._closed

    def stamps(self) -> Stamps | None:
        """Of the last launch of this process, if the team is timed."""
        process = self._processes.get()
        with process.alone():
            return (process.team or self._team(process)).stamps

    def run_delay(self) -> RunDelay:
        """Of the threads of this process, and of the calling one."""
        process = self._processes.get()
        with process.alone():
            return RunDelay((process.team or self._team(process)).native_ids)

    def close(self) -> bool:
        """Stop the threads of this process. Idempotent.

        By a handler inside of a call: that comes to its end, and then the threads go.

        Returns:
            Whether all of them have ended: nobody uses the memory of the model any more.
        """
        process = self._processes.get()
        with process.lock:
            self._closed = True
            if process.inside:
                process.team, self._ended = None, False  # the call has it
            elif process.team is not None:
                self._ended = bool(process.team.close())
                process.team = None
            return self._ended

    def _team(self, process: _Process) -> Team:
        if self._closed:
            raise DeviceError(CLOSED)
        process.team = self._make()
        return process.team


def _refuse(message: str, bases: int | bytes) -> int:
    raise DeviceError(message)


class _Shared:
    """All memory that compiled code reads; the threads keep it alive.

    loaded: the schedule that launches run. code: keeps the code of the workers. cpus: that the
    threads have, None for all that this process may use.
    """

    def __init__(
        self,
        code: LoadedImage,
        loaded: LoadedSchedule,
        waiting: Waiting,
        cpus: int | None = None,
    ) -> None:
        self.code = code
        self.threads = len(loaded.streams)
        self.control = arena(at.WORDS * _WORD, "control block").view(np.int64)
        self.control_address = address(self.control)
        # One block more than threads: see veu_launch.
        units = arena((self.threads + 1) * at.UNIT_WORDS * _WORD, "EU blocks").view(np.int64)
        self.units = units.reshape(self.threads + 1, at.UNIT_WORDS)
        self.workspaces = arena(1, "workspaces of the EUs")
        self.control[at.WORKSPACES] = address(self.workspaces)
        self.control[at.THREADS] = self.threads
        alone = self.threads <= (usable_cpus() if cpus is None else cpus)
        spin, yields = (10000, 0) if alone else (50, 8)
        self.control[at.SPIN] = spin if waiting.spin is None else waiting.spin
        self.control[at.YIELDS] = yields if waiting.yields is None else waiting.yields
        self.control[at.SLICE] = int(min(waiting.slice_s, 0.9) * 1e9)
        self.control[at.UNITS] = self.units.__array_interface__["data"][0]
        self.load(loaded, waiting.limit_s)

    def load(self, loaded: LoadedSchedule, limit_s: float) -> None:
        """What the next launch runs, and how long its waits may be. No worker may run."""
        needed = max(1, self.threads * loaded.workspace)
        if self.workspaces.size < needed:
            self.workspaces = arena(needed, "workspaces of the EUs")
            self.control[at.WORKSPACES] = address(self.workspaces)
        self.loaded = loaded
        loaded.write(self.control)
        self.control[at.LIMIT] = int(limit_s * 1e9)
        self.control[at.BUSY_LIMIT] = int(limit_s * _BUSY_FACTOR * 1e9)

    def post_mortem(self) -> PostMortem:
        """Of the launch that stopped now."""
        positions = self.units[: self.threads, at.POSITION].tolist()
        return self.loaded.post_mortem(positions, int(self.control[at.EPOCH]) - 1)

    def reset(self) -> None:
        """After an aborted launch: all counters as if it had gone well. No worker may run."""
        self.loaded.reset(int(self.control[at.EPOCH]))
        self.control[at.BARRIER] = 0
        self.control[at.ABORT] = 0
        self.units[:, at.FAILED] = 0


def _start(
    shared: _Shared,
    code: LoadedImage,
    enter: Callable[..., None],
    threads: int,
    pin: bool | Sequence[int],
) -> list[threading.Thread]:
    cpus = sorted(os.sched_getaffinity(0)) if isinstance(pin, bool) else [*pin]

    def serve(eu: int) -> None:
        if pin is not False:
            os.sched_setaffinity(0, {cpus[eu % len(cpus)]})
        enter(shared.control_address, eu, 1)

    workers: list[threading.Thread] = []
    for eu in range(1, threads):
        worker = threading.Thread(target=serve, args=(eu,), name=f"rcompiler EU {eu}", daemon=True)
        try:
            worker.start()
        except RuntimeError:
            _shut_down(shared, _Stop(code.function("veu_stop")), workers)
            raise DeviceError(
                f"the system refuses thread {eu} of {threads}; ask for fewer EUs"
            ) from None
        workers.append(worker)
    return workers


def _shut_down(
    shared: _Shared, stop: Callable[[int], None], workers: list[threading.Thread]
) -> bool:
    """Whether all workers have ended."""
    # A worker that hangs in a kernel keeps `shared` alive through its own frame.
    stop(shared.control_address)
    for worker in workers:
        worker.join(_JOIN_S)
    return not any(worker.is_alive() for worker in workers)
