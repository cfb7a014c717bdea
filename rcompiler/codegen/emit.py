"""LLVM IR text -> relocatable x86-64 object, in worker processes.

Threads do not help: llvmlite holds one lock around every call into LLVM (measured: two threads take
as long as one). So modules are shared out to processes that run `serve`; they import only llvmlite,
not the MLIR bindings, and a fatal error inside LLVM ends the worker, not the caller. A worker is
kept for the next compilation, since starting one takes longer than most modules; an idle one ends
by itself.

No mid-end is run by default: for kernels that are already vectorised, O1-O3 hoist loads out of the
register tile until it spills and lose up to half of the speed, and they cost most of the time.
"""

import atexit
import json
import os
import select
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from typing import IO

import llvmlite
import llvmlite.binding as llvm

from rcompiler.errors import CompilerError

TRIPLE = "x86_64-unknown-linux-gnu"
# Part of every cache key: raise it when a change here changes the machine code.
VERSION = "2"
_FRAME = struct.Struct("<qq")
_IDLE_S = 30.0
# One more worker (0.15 s to start) for so many characters of IR (0.3 s of code generation).
_WORTH_A_PROCESS = 800_000


@dataclass(frozen=True)
class Job:
    """One module to compile: LLVM IR text, LLVM's names of CPU and features, run O2 or not."""

    text: str
    cpu: str
    features: str
    optimize: bool
    assembly: bool = False  # the answer is assembly text instead of an object


def toolchain() -> str:
    """The versions that decide the machine code, for cache keys and provenance."""
    release = ".".join(map(str, llvm.llvm_version_info))
    return f"llvmlite {llvmlite.__version__}, LLVM {release}, emit {VERSION}"


def emit(job: Job) -> bytes:
    """Compile one module in this process.

    Raises:
        CompilerError: LLVM rejects the text.
    """
    _initialize()
    machine = llvm.Target.from_triple(TRIPLE).create_target_machine(
        cpu=job.cpu, features=job.features, opt=3, reloc="pic", codemodel="small"
    )
    try:
        # A context of its own: named types and metadata of other modules cannot leak in.
        module = llvm.parse_assembly(job.text, context=llvm.create_context())
        module.verify()
    except RuntimeError as error:
        raise CompilerError(
            f"code generation: LLVM {llvm.llvm_version_info[0]} rejects the translated module: "
            f"{error}; this is a defect of the compiler, report it with the model"
        ) from None
    module.triple = TRIPLE
    module.data_layout = str(machine.target_data)
    if job.optimize:
        tuning = llvm.create_pipeline_tuning_options(speed_level=2)
        tuning.loop_vectorization = tuning.slp_vectorization = True
        builder = llvm.create_pass_builder(machine, tuning)
        builder.getModulePassManager().run(module, builder)
    if job.assembly:
        return bytes(machine.emit_assembly(module).encode())
    return bytes(machine.emit_object(module))


def emit_all(jobs: Iterable[Job], processes: int) -> list[bytes]:
    """Compile the modules in up to `processes` worker processes, 0: in this one; results in order.

    A module is on its way as soon as `jobs` yields it, so that making the modules and compiling
    them overlap. Another process starts only when there is enough text for it.
    """
    if processes < 1 or not sys.executable:
        return [emit(job) for job in jobs]
    todo: SimpleQueue[tuple[int, Job] | None] = SimpleQueue()
    results: dict[int, bytes] = {}

    def drain() -> None:
        with _WORKERS.borrow() as worker:
            while (item := todo.get()) is not None:
                results[item[0]] = worker.run(item[1])

    drains: list[Future[None]] = []
    with ThreadPoolExecutor(processes) as pool:
        try:
            total = 0
            for number, job in enumerate(jobs):
                todo.put((number, job))
                total += len(job.text)
                if len(drains) < min(processes, 1 + total // _WORTH_A_PROCESS):
                    drains.append(pool.submit(drain))
                if any(done.done() for done in drains):
                    break  # a worker failed: it ends before its queue does
        finally:
            for _ in drains:
                todo.put(None)
    for done in drains:
        done.result()
    return [results[number] for number in range(len(results))]


def prepare() -> None:
    """Start one worker now, so that it is ready when the first module is."""
    if sys.executable:
        _WORKERS.prepare()


def serve() -> None:
    """Worker process: one frame (status or sizes, bytes) in and out per module, until the end."""
    source, sink = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever LLVM prints must not get between the frames
    while (frame := _next(source)) is not None:
        try:
            reply, status = emit(Job(**json.loads(frame[1]))), 0
        except CompilerError as error:
            reply, status = str(error).encode(), 1
        _send(sink, status, reply)


@cache
def _initialize() -> None:
    # Cheap; LLVM initialises itself since llvmlite 0.45.
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    # Loop strength reduction may give every address of a register tile a register of its own, and
    # then spills addresses and accumulators alike (measured: a 14x14 convolution at a quarter of
    # its speed). Our loops need no help: addresses are a base in the loop plus constants. llvmlite
    # offers the switch for the whole process only.
    llvm.set_option("rcompiler", "-disable-lsr")


def _next(source: IO[bytes]) -> tuple[int, bytes] | None:
    """The next frame; None at the end of the input, or when nothing came for a while."""
    ready, _, _ = select.select([source], [], [], _IDLE_S)
    return _receive(source) if ready else None


class _Worker:
    """One process. Used by one thread at a time."""

    def __init__(self) -> None:
        self._start()

    def alive(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> None:
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

    def run(self, job: Job) -> bytes:
        payload = json.dumps(asdict(job)).encode()
        frame = self._exchange(payload)
        if frame is None and self._process.wait() == 0:  # it was idle too long, just now
            self.close()
            self._start()
            frame = self._exchange(payload)
        if frame is None:
            raise CompilerError(
                f"code generation: LLVM ended with status {self._process.wait()} on a module of "
                f"{len(job.text)} characters for {job.cpu}{self._last_words()}; this is a defect "
                "of the compiler, report it with the model"
            )
        status, reply = frame
        if status:
            raise CompilerError(reply.decode())
        return reply

    def _exchange(self, payload: bytes) -> tuple[int, bytes] | None:
        try:
            _send(self._stdin, 0, payload)
            return _receive(self._stdout)
        except BrokenPipeError:
            return None

    def _last_words(self) -> str:
        self._stderr.seek(0)
        lines = self._stderr.read().decode(errors="replace").splitlines()
        found = [line for line in lines if "LLVM ERROR" in line] or lines[-1:]
        return f" ({found[0].strip()})" if found else ""

    def _start(self) -> None:
        self._stderr = tempfile.TemporaryFile()
        package_home = str(Path(__file__).parents[2])
        paths = [package_home, *filter(None, [os.environ.get("PYTHONPATH")])]
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from rcompiler.codegen.emit import serve; serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            start_new_session=True,  # an interrupt at the terminal is for the caller
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        )
        assert self._process.stdin and self._process.stdout
        self._stdin, self._stdout = self._process.stdin, self._process.stdout


class _Workers:
    """Idle workers of this process; a forked child begins with none."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []

    def forget(self) -> None:
        """Know no workers; for a forked child, where a thread that is gone may hold the lock."""
        self._lock = threading.Lock()
        for worker in self._idle:
            worker.abandon()
        self._idle = []

    def prepare(self) -> None:
        with self._lock:
            self._drop_dead()
            if not self._idle:
                self._idle.append(_Worker())

    @contextmanager
    def borrow(self) -> Iterator[_Worker]:
        with self._lock:
            self._drop_dead()
            worker = self._idle.pop() if self._idle else None
        worker = worker or _Worker()
        try:
            yield worker
        except BaseException:
            worker.kill()  # it may be in the middle of something
            worker.close()
            raise
        with self._lock:
            self._idle.append(worker)

    def close(self) -> None:
        with self._lock:
            self._drop_dead()
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.close()

    def _drop_dead(self) -> None:
        for worker in [worker for worker in self._idle if not worker.alive()]:
            self._idle.remove(worker)
            worker.close()


_WORKERS = _Workers()
os.register_at_fork(after_in_child=_WORKERS.forget)
atexit.register(_WORKERS.close)


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
