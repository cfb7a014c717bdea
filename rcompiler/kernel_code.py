"""The code of the rKernels of a schedule, made by two processes at the same time.

Writing and lowering a kernel is work of one thread: it is Python, and a context of MLIR is not for
two. The other process gets kernels as text, and gives back the texts that this one would have made.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING

from torch_mlir import ir

from rcompiler import dialects
from rcompiler.codegen.llvm_ir import llvm_ir
from rcompiler.errors import CompilerError
from rcompiler.passes._pipeline_text import runner
from rcompiler.shared_work import SharedWork
from rcompiler.workers import Workers, serve_answers

if TYPE_CHECKING:  # the other process needs no LLVM
    from rcompiler.codegen.cpu import Objects

# Of the ops of kernels: MLIR imports them at the first op, the other process before somebody waits.
_DIALECTS = ("arith", "linalg", "llvm", "math", "tensor")
_WORTH_A_PROCESS = 20  # kernels, of 5 to 100 ms each; a process takes 0.25 s to start


@dataclass(frozen=True)
class KernelCode:
    """An rKernel as a module of its own.

    functions: their texts in the llvm dialect, by name. llvm_ir: the module for LLVM.
    """

    functions: dict[str, str]
    llvm_ir: str


def prepare(module: ir.Module) -> None:
    """Start the other process now, if the ops of an S1 module will need enough kernels."""
    bodies = [
        inner.operation
        for function in module.body.operations
        for block in function.operation.regions[0].blocks
        for inner in block.operations
    ]
    # about one kernel for each op on tensors of other shapes
    if _worth_a_process(len({(op.name, *(v.type for v in op.operands)) for op in bodies})):
        with suppress(OSError):  # no process can be started: then this one makes all
            _WORKERS.prepare()


class KernelCodes:
    """The code of all rKernels of a module."""

    def __init__(self, module: ir.Module, pipeline: str, objects: Objects) -> None:
        """pipeline: what makes the code of a module with one rKernel. objects: get that code, with
        the number of the kernel.
        """
        ops = [view.operation for view in module.body.operations]
        self._kernels = [op for op in ops if op.name == "rtask.kernel"]
        self._generator = _Generator(pipeline, module.context)
        self._objects = objects
        self._texts: dict[int, dict[str, str]] = {}
        self._work = SharedWork(len(self._kernels), self._here, _read, self._done)

    def begun(self) -> AbstractContextManager[None]:
        """Inside of the context the other process makes code, if there is enough to make."""
        if not _worth_a_process(len(self._kernels)):
            return nullcontext()
        pipeline = self._generator.pipeline
        texts = [kernel.get_asm(assume_verified=True) for kernel in self._kernels]
        return self._work.begun(_WORKERS, [_question(pipeline, text) for text in texts])

    def finish(self) -> str:
        """Make what is left; all functions as text of the llvm dialect.

        Raises CompilerError where no code can be made of a kernel.
        """
        self._work.finish()
        functions: dict[str, str] = {}
        for _, texts in sorted(self._texts.items()):
            for name, text in texts.items():
                functions.setdefault(name, text)
        return "\n".join(["module {", *functions.values(), "}\n"])

    def _here(self, number: int) -> KernelCode:
        kernel = self._kernels[number]
        alone = ir.Module.create(ir.Location.unknown(kernel.context))
        with ir.InsertionPoint(alone.body):
            kernel.clone()
        return self._generator.code(alone)

    def _done(self, number: int, code: KernelCode) -> None:
        self._texts[number] = code.functions
        self._objects.add(number, code.llvm_ir)


class _Generator:
    """A pipeline from modules with one rKernel to code."""

    def __init__(self, pipeline: str, context: ir.Context) -> None:
        self.pipeline, self.context = pipeline, context

    @cached_property
    def _run(self) -> Callable[[ir.Module], None]:
        return runner(self.pipeline, self.context)

    def code(self, module: ir.Module) -> KernelCode:
        """Raises CompilerError."""
        self._run(module)
        functions: dict[str, str] = {}
        for view in module.body.operations:
            text = view.operation.get_asm(assume_verified=True)
            functions[ir.StringAttr(view.operation.attributes["sym_name"]).value] = text
        return KernelCode(functions, llvm_ir(module))


def _worth_a_process(kernels: int) -> bool:
    return kernels >= _WORTH_A_PROCESS and len(os.sched_getaffinity(0)) > 1


# -- the other process
def _question(pipeline: str, kernel: str) -> bytes:
    return json.dumps([pipeline, kernel]).encode()


def _read(answer: bytes) -> KernelCode:
    return KernelCode(**json.loads(answer))


def serve() -> None:
    """The other process: pipeline and kernel for each question; the code, or the text of an
    error.
    """
    for dialect in _DIALECTS:
        import_module(f"torch_mlir.dialects.{dialect}")
    with dialects.load(ir.Context()) as context, ir.Location.unknown():
        context.enable_multithreading(False)
        generators: dict[str, _Generator] = {}

        def answer(question: bytes) -> tuple[int, bytes]:
            pipeline, kernel = json.loads(question)
            generator = generators.setdefault(pipeline, _Generator(pipeline, context))
            try:
                code = generator.code(ir.Module.parse(kernel))
            except (CompilerError, ir.MLIRError) as error:
                return 1, str(error).encode()
            return 0, json.dumps(asdict(code)).encode()

        serve_answers(answer)


_WORKERS = Workers("rcompiler.kernel_code")
