"""Worker processes that answer questions: bytes in, a status and bytes out.

A module of ours with a function `serve` is the program of a worker; it calls `serve_answers`. A
fatal error there ends the worker, not the caller. A worker is kept for the next question, since
starting one takes longer than most answers; an idle one ends by itself.
"""

from __future__ import annotations

import atexit
import os
import select
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from rcompiler.device.cgroups import usable_cpus

_FRAME = struct.Struct("<qq")
_IDLE_S = 60.0


def can_help() -> bool:
    """Whether a worker can be started, and has a core beside this process."""
    return bool(sys.executable) and usable_cpus() > 1


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


class Worker:
    """One process. Used by one thread at a time."""

    def __init__(self, module: str) -> None:
        """module: whose `serve` it runs."""
        self._module = module
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

    def ask(self, question: bytes, most_s: float | None = None) -> tuple[int, bytes]:
        """Status and answer. most_s: seconds that it may take. Raises WorkerDied."""
        frame = self._exchange(question, most_s)
        if frame is None and self._process.wait() == 0:  # it was idle too long, just now
            self.close()
            self._start()
            frame = self._exchange(question, most_s)
        if frame is None:
            raise WorkerDied(self._process.wait(), self._last_words())
        return frame

    def _exchange(self, question: bytes, most_s: float | None) -> tuple[int, bytes] | None:
        with self._limit(most_s) as late:
            try:
                _send(self._stdin, 0, question)
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
        self._stderr = tempfile.TemporaryFile()
        paths = [_home(__name__), _home(self._module), os.environ.get("PYTHONPATH")]
        self._process = subprocess.Popen(
            [sys.executable, "-c", f"from {self._module} import serve; serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            start_new_session=True,  # an interrupt at the terminal is for the caller
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        )
        assert self._process.stdin and self._process.stdout
        self._stdin, self._stdout = self._process.stdin, self._process.stdout


class Workers:
    """The idle workers of this process for one kind of question; a forked child begins with
    none.
    """

    def __init__(self, module: str) -> None:
        """module: whose `serve` they run."""
        self._module = module
        self._lock = threading.Lock()
        self._idle: list[Worker] = []
        os.register_at_fork(after_in_child=self._forget)
        atexit.register(self._close)

    def prepare(self) -> None:
        """Start one worker now, so that it is ready when the first question is."""
        if not sys.executable:
            return
        with self._lock:
            self._drop_dead()
            if not self._idle:
                self._idle.append(Worker(self._module))

    @contextmanager
    def borrow(self) -> Iterator[Worker]:
        """A worker, for the context alone."""
        with self._lock:
            self._drop_dead()
            worker = self._idle.pop() if self._idle else None
        worker = worker or Worker(self._module)
        try:
            yield worker
        except BaseException:
            worker.kill()  # it may be in the middle of something
            worker.close()
            raise
        with self._lock:
            self._idle.append(worker)

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
        for worker in [worker for worker in self._idle if not worker.alive()]:
            self._idle.remove(worker)
            worker.close()


def serve_answers(answer: Callable[[bytes], tuple[int, bytes]]) -> None:
    """Worker process: answer one question after the other, until the end of the input or when
    nothing came for a while.
    """
    source, sink = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever is printed must not get between the frames
    while (frame := _next(source)) is not None:
        status, reply = answer(frame[1])
        _send(sink, status, reply)


def _next(source: IO[bytes]) -> tuple[int, bytes] | None:
    ready, _, _ = select.select([source], [], [], _IDLE_S)
    return _receive(source) if ready else None


def _send(stream: IO[bytes], status: int, payload: bytes) -> None:
    stream.write(_FRAME.pack(status, len(payload)))
    stream.write(payload)
    stream.flush()


def _receive(stream: IO[bytes]) -> tuple[int, bytes] | None:
    header = stream.read(_FRAME.size)
    if len(header) < _FRAME.size:
        return None
    status, size = _FRAME.unpack(header)
    payload = stream.read(size)
    return (status, payload) if len(payload) == size else None
