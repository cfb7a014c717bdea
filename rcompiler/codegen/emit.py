"""LLVM IR text -> relocatable x86-64 object or code for a GPU, in worker processes.

Threads do not help: llvmlite holds one lock around every call into LLVM (measured: two threads take
as long as one). So modules are shared out to processes that run `llvm_worker`. This process imports
no llvmlite, which takes 37 MB, but where no worker can be started.
"""

import json
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from queue import Empty, SimpleQueue
from types import ModuleType

from rcompiler.codegen.llvm_job import HOST_CPU, Job
from rcompiler.errors import CompilerError
from rcompiler.runtime.memory import address_space_limit, too_little_space
from rcompiler.support.installed import version
from rcompiler.support.interpreter import interpreter
from rcompiler.support.lru_cache import LruCache
from rcompiler.support.workers import WorkerDied, Workers

# Part of every cache key: raise it when a change here changes the machine code.
VERSION = "2"
# Another worker (0.15 s to start) when so many characters of IR wait (0.9 s of code generation):
# less does not pay on two cores, which two processes that write kernels share with it.
_WORTH_A_PROCESS = 2_400_000


@cache
def toolchain() -> str:
    """The versions that decide the machine code, for cache keys: a release of llvmlite carries one
    LLVM.
    """
    return f"llvmlite {version('llvmlite')}, emit {VERSION}"


@cache
def host_cpu() -> tuple[str, Mapping[str, bool]]:
    """LLVM's name of the CPU of this machine, and whether it has each feature that LLVM knows.

    Raises:
        CompilerError: LLVM ends its process.
    """
    if not interpreter():
        return _here().host_cpu()
    try:
        with _WORKERS.borrow() as worker:
            _, reply = worker.ask(HOST_CPU)
    except WorkerDied as died:
        raise _ended(died, "when it was asked for the CPU of this machine") from None
    name, features = json.loads(reply)
    return name, features


class Emission:
    """Modules that are compiled as they come, in up to `processes` worker processes; 0: in this
    one.

    Another process starts only when enough text waits for one. What this process had compiled
    before is not compiled again. A context manager: whatever was not compiled when it is left never
    is.
    """

    def __init__(self, processes: int) -> None:
        self._processes = processes if interpreter() else 0
        self._pool = ThreadPoolExecutor(max(1, processes))
        self._todo: SimpleQueue[tuple[int, Job] | None] = SimpleQueue()
        self._drains: list[Future[None]] = []
        self._lock = threading.Lock()
        self._waiting = 0  # characters
        self._results: dict[int, bytes | CompilerError] = {}

    def __enter__(self) -> "Emission":
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(Empty):
            while True:
                self._todo.get_nowait()
        self._end()

    def submit(self, number: int, job: Job) -> None:
        """Compile a module; with no worker processes it is done now. By one thread at a time."""
        if (code := _MADE.get(job.digest)) is not None:
            self._results[number] = code
            return
        if self._processes < 1:
            self._make(number, job, _here().emit)
            return
        self._todo.put((number, job))
        with self._lock:
            self._waiting += job.weight
        enough = _WORTH_A_PROCESS * len(self._drains)
        if len(self._drains) < self._processes and self._waiting >= enough:
            self._drains.append(self._pool.submit(self._drain))

    def results(self, numbers: Iterable[int] | None = None) -> dict[int, bytes]:
        """The objects of these modules, by default of all; nothing can be submitted afterwards.

        Raises:
            CompilerError: LLVM rejects one of them, or ends its process.
        """
        self._end()
        for drain in self._drains:
            drain.result()
        found = {}
        for number in sorted(self._results) if numbers is None else numbers:
            result = self._results[number]
            if isinstance(result, CompilerError):
                raise result
            found[number] = result
        return found

    def _drain(self) -> None:
        while (item := self._todo.get()) is not None:
            number, job = item
            self._make(number, job, _ask)
            with self._lock:
                self._waiting -= job.weight

    def _make(self, number: int, job: Job, make: Callable[[Job], bytes]) -> None:
        """Who asks for a result is told of an error: it may be of a kernel that nobody runs."""
        try:
            self._results[number] = code = make(job)
        except CompilerError as error:
            self._results[number] = error
        else:
            _MADE.put(job.digest, code, len(code))

    def _end(self) -> None:
        for _ in self._drains:
            self._todo.put(None)
        self._pool.shutdown()


def prepare() -> None:
    """Start one worker now, so that it is ready when the first module is."""
    _WORKERS.prepare()


def _ask(job: Job) -> bytes:
    """What `emit` does, in a worker process."""
    try:
        with _WORKERS.borrow() as worker:
            status, reply = worker.ask(json.dumps(asdict(job)).encode())
    except WorkerDied as died:
        what = f"on a module of {len(job.text)} characters for {job.cpu}"
        raise _ended(died, what) from None
    if status:
        raise CompilerError(reply.decode())
    return reply


def _ended(died: WorkerDied, when: str) -> Exception:
    """The error of a worker that ended. when: what it did then."""
    if address_space_limit() is not None:
        return too_little_space(f"code generation: LLVM ended{died.words}")
    return CompilerError(
        f"code generation: LLVM ended with status {died.status} {when}{died.words}; this is a "
        "defect of the compiler, report it with the model"
    )


def _here() -> ModuleType:
    """LLVM in this process."""
    from rcompiler.codegen import llvm_worker

    return llvm_worker


_WORKERS = Workers("rcompiler.codegen.llvm_worker")
_MADE: LruCache[bytes] = LruCache(32 << 20)  # bytes of code, by the digests of jobs
