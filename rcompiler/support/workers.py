"""Worker processes that answer questions: bytes in, a status and bytes out.

A module of ours with a function `serve` is the program of a worker; it calls `serve_answers`. A
fatal error there ends the worker, not the caller. A worker is kept for the next question, since
starting one takes longer than most answers; an idle one ends by itself. While it works on an
answer it may tell of that, see `serve_telling`.
"""

from __future__ import annotations

import atexit
import os
import select
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, NamedTuple

from rcompiler.device.cgroups import usable_cpus
from rcompiler.support.interpreter import NoInterpreter, interpreter
from rcompiler.support.scratch import memory_file

_FRAME = struct.Struct("<qq")
_TOLD = -(1 << 63)  # status of a frame that is no answer yet
_IDLE_S = 60.0
_PIECE = 1 << 20  # bytes that are asked of a pipe at once
_AT_START = ("PYTHON", "LD_", "MALLOC_", "GLIBC_")  # how variables begin that are read then
# What is imported stays: to look for garbage in it takes a sixth of the time of importing.
_PROGRAM = "import gc; gc.disable(); from {} import serve; gc.freeze(); gc.enable(); serve()"

Tell = Callable[[bytes], None]


def can_help() -> bool:
    """Whether a worker can be started, and has a core beside this process."""
    return interpreter() is not None and usable_cpus() > 1


def _home(module: str) -> str | None:
    """The folder that a module was imported from, of whatever package; None: it was not yet."""
    file = getattr(sys.modules.get(module), "__file__", None)
    return file and str(Path(file).parents[module.count(".")])


class WorkerDied(Exception):
    """A worker ended before it answered. status: of the process; words: what it said last."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(f"status {status}{words}")
        self.status, self.words = status, words


class WorkerLate(WorkerDied):
    """A worker that had not answered in time, and was ended."""


class Surroundings(NamedTuple):
    """What a process has from the start, as that was then for the one that started it: variables
    that Python and the loader read, CPUs, user and group, and where modules are found.
    """

    variables: dict[str, str]
    cpus: frozenset[int]
    user: tuple[int, int]
    paths: tuple[str, ...]

    @staticmethod
    def now() -> Surroundings:
        """Of this process."""
        read = {name: text for name, text in os.environ.items() if name.startswith(_AT_START)}
        cpus, user = frozenset(os.sched_getaffinity(0)), (os.geteuid(), os.getegid())
        return Surroundings(read, cpus, user, tuple(filter(os.path.isabs, sys.path)))


class Worker:
    """One process. Used by one thread at a time."""

    def __init__(self, module: str, *, finds_all: bool = False) -> None:
        """module: whose `serve` it runs. finds_all: it imports from wherever this process does.

        Raises OSError where no process can be started; NoInterpreter where there is no Python to
        start it with.
        """
        self._module, self._finds_all = module, finds_all
        self._start()

    def alive(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        """End it, also while it answers another thread."""
        self._process.kill()

    def close(self) -> None:
        """Let it end, and wait for that."""
        try:
            self._stdin.close()
        except BrokenPipeError:
            pass
        self._stdout.close()
        self._stderr.close()
        self._process.wait()

    def abandon(self) -> None:
        """Close a forked child's copies of the pipes: the worker is its parent's."""
        self._process.returncode = 0  # nothing to wait for
        for stream in (self._stdin, self._stdout, self._stderr):
            stream.close()

    def ask(
        self, question: bytes, most_s: float | None = None, told: Tell | None = None
    ) -> tuple[int, bytes]:
        """Status and answer. most_s: seconds that it may take. told: gets what it tells before.

        Raises WorkerDied.
        """
        frame = self._exchange(question, most_s, told)
        if frame is None and self._process.wait() == 0:  # it was idle too long, just now
            self.close()
            self._start()
            frame = self._exchange(question, most_s, told)
        if frame is None:
            raise WorkerDied(self._process.wait(), self._last_words())
        return frame

    def _exchange(
        self, question: bytes, most_s: float | None, told: Tell | None
    ) -> tuple[int, bytes] | None:
        with self._limit(most_s) as late:
            try:
                _send(self._stdin, 0, question)
                frame = _receive(self._stdout)
                while frame is not None and frame[0] == _TOLD:
                    if told is not None:
                        told(frame[1])
                    frame = _receive(self._stdout)
            except BrokenPipeError:
                frame = None
        if frame is None and late.is_set():
            raise WorkerLate(self._process.wait(), f" (no answer in {most_s:g} s)")
        return frame

    @contextmanager
    def _limit(self, most_s: float | None) -> Iterator[threading.Event]:
        """Ends the process after so many seconds, and tells that it did."""
        late = threading.Event()

        def end() -> None:
            late.set()
            self.kill()

        timer = None if most_s is None else threading.Timer(most_s, end)
        if timer is not None:
            timer.daemon = True
            timer.start()
        try:
            yield late
        finally:
            if timer is not None:
                timer.cancel()

    def _last_words(self) -> str:
        self._stderr.seek(0)
        text = self._stderr.read().decode(errors="replace")
        lines = [line for line in text.splitlines() if line.strip()]
        found = [line for line in lines if "LLVM ERROR" in line] or lines[-1:]
        return f" ({found[0].strip()})" if found else ""

    def _start(self) -> None:
        program = interpreter()
        if program is None:
            raise NoInterpreter
        self._stderr = memory_file("rc-stderr")
        self.surroundings = Surroundings.now()
        paths = [_home(__name__), _home(self._module), os.environ.get("PYTHONPATH")]
        paths += self.surroundings.paths if self._finds_all else ()
        self._process = subprocess.Popen(
            [program, "-P", "-c", _PROGRAM.format(self._module)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            # A buffered stream has a lock, which a forked child could not close it with where a
            # thread of its parent waits for an answer.
            bufsize=0,
            start_new_session=True,  # an interrupt at the terminal is for the caller
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        )
        assert self._process.stdin and self._process.stdout
        self._stdin, self._stdout = self._process.stdin, self._process.stdout


class Workers:
    """The idle workers of this process for one kind of question; a forked child begins with
    none.
    """

    def __init__(self, module: str, *, as_here: bool = False) -> None:
        """module: whose `serve` they run. as_here: whoever is borrowed has the surroundings that
        this process has then, and imports from where it does.
        """
        self._module, self._as_here = module, as_here
        self._lock = threading.Lock()
        self._idle: list[Worker] = []
        os.register_at_fork(after_in_child=self._forget)
        atexit.register(self._close)

    def prepare(self) -> None:
        """Start one worker now, so that it is ready when the first question is."""
        if interpreter() is None:
            return
        with self._lock:
            self._drop_dead()
            if not self._idle:
                self._idle.append(self._new())

    @contextmanager
    def borrow(self) -> Iterator[Worker]:
        """A worker, for the context alone."""
        with self._lock:
            self._drop_dead()
            if self._as_here:
                self._drop_unlike(Surroundings.now())
            worker = self._idle.pop() if self._idle else None
        worker = worker or self._new()
        try:
            yield worker
        except BaseException:
            worker.kill()  # it may be in the middle of something
            worker.close()
            raise
        with self._lock:
            self._idle.append(worker)

    def _new(self) -> Worker:
        return Worker(self._module, finds_all=self._as_here)

    def _forget(self) -> None:
        """Know no workers; for a forked child, where a thread that is gone may hold the lock."""
        self._lock = threading.Lock()
        for worker in self._idle:
            worker.abandon()
        self._idle = []

    def _close(self) -> None:
        with self._lock:
            self._drop_dead()
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.close()

    def _drop_dead(self) -> None:
        self._drop([worker for worker in self._idle if not worker.alive()])

    def _drop_unlike(self, here: Surroundings) -> None:
        self._drop([worker for worker in self._idle if worker.surroundings != here])

    def _drop(self, workers: Iterable[Worker]) -> None:
        for worker in workers:
            self._idle.remove(worker)
            worker.close()


def serve_answers(answer: Callable[[bytes], tuple[int, bytes]]) -> None:
    """Worker process: answer one question after the other, until the end of the input or when
    nothing came for a while.
    """
    serve_telling(lambda question, tell: answer(question))


def serve_telling(
    answer: Callable[[bytes, Tell], tuple[int, bytes]], most_bytes: int | None = None
) -> None:
    """As `serve_answers`, of answers that take long: they are given a function that tells the
    caller how far they are. most_bytes: of memory; who has had more ends after the answer.
    """
    source, sink = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever is printed must not get between the frames
    while (frame := _next(source)) is not None:
        status, reply = answer(frame[1], partial(_send, sink, _TOLD))
        _send(sink, status, reply)
        if most_bytes is not None and _peak() > most_bytes:
            return


def _peak() -> int:
    """The most bytes of memory that this process has had. What getrusage says begins with the peak
    of the process that started it."""
    with open("/proc/self/status") as lines:
        found = next((line for line in lines if line.startswith("VmHWM:")), "VmHWM: 0")
    return int(found.split()[1]) << 10


def _next(source: IO[bytes]) -> tuple[int, bytes] | None:
    ready, _, _ = select.select([source], [], [], _IDLE_S)
    return _receive(source) if ready else None


def _send(stream: IO[bytes], status: int, payload: bytes) -> None:
    for data in (_FRAME.pack(status, len(payload)), payload):
        left = memoryview(data)
        while left:
            left = left[stream.write(left) :]
    stream.flush()


def _receive(stream: IO[bytes]) -> tuple[int, bytes] | None:
    header = _read(stream, _FRAME.size)
    if len(header) < _FRAME.size:
        return None
    status, size = _FRAME.unpack(header)
    payload = _read(stream, size)
    return (status, payload) if len(payload) == size else None


def _read(stream: IO[bytes], size: int) -> bytes:
    """So many bytes, or those up to the end."""
    found = bytearray()
    while len(found) < size and (part := stream.read(min(size - len(found), _PIECE))):
        found += part
    return bytes(found)
