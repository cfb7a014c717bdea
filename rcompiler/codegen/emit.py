"""LLVM IR text -> relocatable x86-64 object or code for a GPU, in worker processes.

Threads do not help: llvmlite holds one lock around every call into LLVM (measured: two threads take
as long as one). So modules are shared out to processes that run `serve`; they import llvmlite, but
not the MLIR bindings.

No mid-end is run by default: for kernels that are already vectorised, O1-O3 hoist loads out of the
register tile until it spills and lose up to half of the speed, and they cost most of the time.
Functions with the attribute "optimised-loops" work on one element at a time: LLVM makes vectors of
that (determinants of 64 x 64: 2.9 times as fast).
"""

import hashlib
import json
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from queue import Empty, SimpleQueue

import llvmlite
import llvmlite.binding as llvm

from rcompiler.errors import CompilerError
from rcompiler.runtime.memory import address_space_limit, too_little_space
from rcompiler.support.interpreter import interpreter
from rcompiler.support.lru_cache import LruCache
from rcompiler.support.workers import WorkerDied, Workers, serve_answers

TRIPLE = "x86_64-unknown-linux-gnu"
# Part of every cache key: raise it when a change here changes the machine code.
VERSION = "2"
LOOPS = "optimised-loops"  # attribute of functions, see above
# Another worker (0.15 s to start) when so many characters of IR wait (0.9 s of code generation):
# less does not pay on two cores, which two processes that write kernels share with it.
_WORTH_A_PROCESS = 2_400_000
_OPTIMISED = 4  # times as long (measured: 4.8 million characters for a GPU in 8 s)


@dataclass(frozen=True)
class Job:
    """One module to compile: LLVM IR text, LLVM's names of CPU and features, run O2 (for GPUs: O3)
    or not.
    """

    text: str
    cpu: str
    features: str
    optimize: bool
    assembly: bool = False  # the answer is assembly text instead of an object
    triple: str = TRIPLE

    @property
    def weight(self) -> int:
        """Characters that take as long without being optimised."""
        return len(self.text) * (_OPTIMISED if self.optimised else 1)

    @property
    def optimised(self) -> bool:
        """Whether the job, or a function of the module, asks for the mid-end."""
        return self.optimize or f'"{LOOPS}"' in self.text

    @cached_property
    def digest(self) -> str:
        """Of all that decides the code in this process, where there is one LLVM."""
        rest = json.dumps([self.cpu, self.features, self.optimize, self.assembly, self.triple])
        return hashlib.sha256(f"{rest}\n{self.text}".encode()).hexdigest()


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
    machine = llvm.Target.from_triple(job.triple).create_target_machine(
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
    module.triple = job.triple
    module.data_layout = str(machine.target_data)
    if job.optimised:
        tuning = llvm.create_pipeline_tuning_options(speed_level=2 if job.triple == TRIPLE else 3)
        tuning.loop_vectorization = tuning.slp_vectorization = True
        builder = llvm.create_pass_builder(machine, tuning)
        builder.getModulePassManager().run(module, builder)
    if job.assembly:
        return bytes(machine.emit_assembly(module).encode())
    return bytes(machine.emit_object(module))


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
            self._make(number, job, emit)
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


def serve() -> None:
    """Worker process: a `Job` as JSON for each question; the object, or the text of an error."""
    serve_answers(_answer)


def _answer(question: bytes) -> tuple[int, bytes]:
    try:
        return 0, emit(Job(**json.loads(question)))
    except CompilerError as error:
        return 1, str(error).encode()


def _ask(job: Job) -> bytes:
    """What `emit` does, in a worker process."""
    try:
        with _WORKERS.borrow() as worker:
            status, reply = worker.ask(json.dumps(asdict(job)).encode())
    except WorkerDied as died:
        if address_space_limit() is not None:
            raise too_little_space(f"code generation: LLVM ended{died.words}") from None
        raise CompilerError(
            f"code generation: LLVM ended with status {died.status} on a module of "
            f"{len(job.text)} characters for {job.cpu}{died.words}; this is a defect of the "
            "compiler, report it with the model"
        ) from None
    if status:
        raise CompilerError(reply.decode())
    return reply


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
    # Pointers to shared memory of NVIDIA GPUs in 32 bits. Together, measured by ptxas: a GEMM with
    # 8x8 accumulators a thread takes 128 registers for 166, with no address left in its loop.
    llvm.set_option("rcompiler", "--nvptx-short-ptr")


_WORKERS = Workers("rcompiler.codegen.emit")
_MADE: LruCache[bytes] = LruCache(32 << 20)  # bytes of code, by the digests of jobs
