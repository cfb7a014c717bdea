"""LLVM IR text -> relocatable x86-64 object, in this process or in worker processes.

Threads do not help: llvmlite holds one lock around every call into LLVM (measured: two threads take
as long as one). So several modules are shared out to processes that run `serve`; they import only
llvmlite, not the MLIR bindings, and a fatal error inside LLVM ends the worker, not the caller.

No mid-end is run by default: for kernels that are already vectorised, O1-O3 hoist loads out of the
register tile until it spills and lose up to half of the speed, and they cost most of the time.
"""

import json
import os
import struct
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO

import llvmlite
import llvmlite.binding as llvm

from rcompiler.errors import CompilerError

TRIPLE = "x86_64-unknown-linux-gnu"
# Part of every cache key: raise it when a change here changes the machine code.
VERSION = "2"
_FRAME = struct.Struct("<qq")


@dataclass(frozen=True)
class Job:
    """One module to compile: LLVM IR text, LLVM's names of CPU and features, run O2 or not."""

    text: str
    cpu: str
    features: str
    optimize: bool


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
    return bytes(machine.emit_object(module))


def emit_all(jobs: Sequence[Job], processes: int) -> list[bytes]:
    """Compile the modules in `processes` worker processes; results in the order of `jobs`."""
    if processes <= 1 or len(jobs) <= 1 or not sys.executable:
        return [emit(job) for job in jobs]
    # The longest first, so that no worker is left with a big module at the end.
    todo: SimpleQueue[int] = SimpleQueue()
    for index in sorted(range(len(jobs)), key=lambda i: (-len(jobs[i].text), i)):
        todo.put(index)
    results: list[bytes] = [b""] * len(jobs)

    def drain(_: int) -> None:
        with _Worker() as worker:
            while True:
                try:
                    index = todo.get_nowait()
                except Empty:
                    return
                results[index] = worker.run(jobs[index])

    workers = min(processes, len(jobs))
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(drain, range(workers)))
    return results


def serve() -> None:
    """Worker process: one frame (status or sizes, bytes) in and out per module, until the end."""
    source, sink = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever LLVM prints must not get between the frames
    while (frame := _receive(source)) is not None:
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
    # Loop strength reduction may give every address of a register tile a register of its own, and then
    # spills addresses and accumulators alike (measured: a 14x14 convolution at a quarter of its speed).
    # Our loops need no help: addresses are a base in the loop plus constants. llvmlite offers the switch
    # for the whole process only.
    llvm.set_option("rcompiler", "-disable-lsr")


class _Worker:
    def __enter__(self) -> "_Worker":
        package_home = str(Path(__file__).parents[2])
        paths = [package_home, *filter(None, [os.environ.get("PYTHONPATH")])]
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from rcompiler.codegen.emit import serve; serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        )
        assert self._process.stdin and self._process.stdout
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._stdin.close()
        except BrokenPipeError:
            pass
        self._stdout.close()
        self._process.wait()

    def run(self, job: Job) -> bytes:
        try:
            _send(self._stdin, 0, json.dumps(asdict(job)).encode())
            frame = _receive(self._stdout)
        except BrokenPipeError:
            frame = None
        if frame is None:
            raise CompilerError(
                f"code generation: LLVM ended with status {self._process.wait()} on a module of "
                f"{len(job.text)} characters for {job.cpu}; its own message is on standard error; "
                "report it with the model"
            )
        status, reply = frame
        if status:
            raise CompilerError(reply.decode())
        return reply


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
