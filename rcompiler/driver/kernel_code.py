"""The code of the rKernels of a schedule, made by two processes at the same time.

Writing and lowering a kernel is work of one thread: it is Python, and a context of MLIR is not for
two. The other process gets kernels as text, and gives back the texts that this one would have made.
What this process had made of the same text is not made again: the plans of a model, its buckets and
its layers have most kernels in common.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib import import_module

from torch_mlir import ir

from rcompiler import dialects
from rcompiler.codegen.llvm_ir import llvm_ir
from rcompiler.driver.shared_work import SharedWork
from rcompiler.errors import CompilerError
from rcompiler.passes import Pass
from rcompiler.passes._pipeline_text import runner
from rcompiler.passes.ir.module_device import ATTRIBUTE, attribute_of
from rcompiler.support.lru_cache import LruCache
from rcompiler.support.workers import Workers, can_help, serve_answers

# Of the ops of kernels: MLIR imports them at the first op, the other process before somebody waits.
_DIALECTS = ("arith", "linalg", "llvm", "math", "tensor")
_WORTH_A_PROCESS = 20  # kernels, of 5 to 100 ms each; a process takes 0.25 s to start
_OPS = 10  # in the body of such a kernel
_LONG = 100  # ops of an S1 module that take as long as one more kernel until there are any


@dataclass(frozen=True)
class KernelCode:
    """An rKernel as a module of its own; a gpu.module for a GPU.

    stages: by their names, the texts of the functions (and global variables), by name. attributes:
    those of the gpu.module at the first stage, as text. llvm_ir: the module for LLVM.
    """

    stages: dict[str, dict[str, str]]
    attributes: dict[str, str]
    llvm_ir: str

    @property
    def size(self) -> int:
        """Characters."""
        texts = [text for stage in self.stages.values() for text in stage.values()]
        return sum(map(len, [*texts, *self.attributes.values(), self.llvm_ir]))


Stage = tuple[str, Pass | str]  # its name, and the pass that leads to it, or its text


def gathered(codes: Iterable[KernelCode], stage: str) -> dict[str, str]:
    """The functions of all rKernels at a stage, by name."""
    functions: dict[str, str] = {}
    for code in codes:
        for name, text in code.stages[stage].items():
            functions.setdefault(name, text)
    return functions


def prepare(module: ir.Module) -> None:
    """Start the other process now, if the ops of an S1 module will need enough kernels."""
    bodies = [
        inner.operation
        for function in module.body.operations
        for block in function.operation.regions[0].blocks
        for inner in block.operations
    ]
    # about one kernel for each op on tensors of other shapes; one for many where there are many
    kinds = len({(op.name, *(v.type for v in op.operands)) for op in bodies})
    if _worth_a_process(max(kinds, len(bodies) // _LONG)):
        with suppress(OSError):  # no process can be started: then this one makes all
            _WORKERS.prepare()


class KernelCodes:
    """The code of all rKernels of a module."""

    def __init__(
        self, module: ir.Module, stages: Sequence[Stage], done: Callable[[int, KernelCode], None]
    ) -> None:
        """stages: what makes the code of a module with one rKernel, which is for the device that
        this one is for. done: gets that code, with the number of the kernel, in any order, from one
        thread at a time.
        """
        self._device = attribute_of(module.operation)
        self._device_text = str(self._device)
        ops = [view.operation for view in module.body.operations]
        self._kernels = [op for op in ops if op.name == "rtask.kernel"]
        self._generator = _Generator(stages, module.context)
        self._codes: dict[int, KernelCode] = {}
        self._questions: dict[int, bytes] = {}
        self._tell = done
        self._work = SharedWork(len(self._kernels), self._here, _read, self._done)

    def begun(self) -> AbstractContextManager[None]:
        """Inside of the context the other process makes code, if there is enough to make."""
        if not self._enough(range(len(self._kernels))):
            return nullcontext()
        for number in range(len(self._kernels)):
            if (code := _MADE.get(self._key(number))) is not None:
                self._work.found(number, code)
        left = [number for number in range(len(self._kernels)) if number not in self._codes]
        if not self._enough(left):
            return nullcontext()
        return self._work.begun(_WORKERS, list(map(self._question, range(len(self._kernels)))))

    def _enough(self, numbers: Sequence[int]) -> bool:
        """Whether these kernels are worth the other process."""
        blocks = (self._kernels[number].regions[0].blocks[0] for number in numbers)
        ops = sum(len(block.operations) for block in blocks)
        return _worth_a_process(max(len(numbers), ops // _OPS))

    def finish(self) -> list[KernelCode]:
        """Make what is left; the code of all, in their order.

        Raises CompilerError where no code can be made of a kernel.
        """
        self._work.finish()
        return [code for _, code in sorted(self._codes.items())]

    def _question(self, number: int) -> bytes:
        """All that decides the code of a kernel, as the other process is asked for it."""
        if number not in self._questions:
            text = self._kernels[number].get_asm(assume_verified=True)
            self._questions[number] = _question(self._generator.stages, self._device_text, text)
        return self._questions[number]

    def _key(self, number: int) -> str:
        return hashlib.sha256(self._question(number)).hexdigest()

    def _here(self, number: int) -> KernelCode:
        if (code := _MADE.get(self._key(number))) is not None:
            return code
        kernel = self._kernels[number]
        alone = ir.Module.create(ir.Location.unknown(kernel.context))
        with ir.InsertionPoint(alone.body):
            kernel.clone()
        return self._generator.code(alone, self._device)

    def _done(self, number: int, code: KernelCode) -> None:
        self._codes[number] = code
        _MADE.put(self._key(number), code, code.size)
        self._tell(number, code)


class _Generator:
    """Pipelines from modules with one rKernel to code."""

    def __init__(self, stages: Sequence[Stage], context: ir.Context) -> None:
        self.stages, self.context = tuple(stages), context

    @cached_property
    def _steps(self) -> list[tuple[str, Callable[[ir.Module], None]]]:
        return [
            (stage, runner(step if isinstance(step, str) else [step], self.context))
            for stage, step in self.stages
        ]

    def code(self, module: ir.Module, device: ir.Attribute) -> KernelCode:
        """device: what the module is for. Raises CompilerError."""
        module.operation.attributes[ATTRIBUTE] = device
        stages: dict[str, dict[str, str]] = {}
        attributes: dict[str, str] = {}
        for stage, run in self._steps:
            run(module)
            holder = _holder(module)
            if holder.name == "gpu.module" and not stages:
                attributes = {name: str(value) for name, value in holder.attributes.items()}
            stages[stage] = dict(map(_named_text, holder.regions[0].blocks[0].operations))
        return KernelCode(stages, attributes, llvm_ir(holder))


def _holder(module: ir.Module) -> ir.Operation:
    """What has the functions."""
    first = module.body.operations[0].operation
    return first if first.name == "gpu.module" else module.operation


def _named_text(view: ir.OpView) -> tuple[str, str]:
    op = view.operation
    return ir.StringAttr(op.attributes["sym_name"]).value, op.get_asm(assume_verified=True)


def _worth_a_process(kernels: int) -> bool:
    return kernels >= _WORTH_A_PROCESS and can_help()


# -- the other process
def _question(stages: Sequence[Stage], device: str, kernel: str) -> bytes:
    return json.dumps([[(name, str(step)) for name, step in stages], device, kernel]).encode()


def _read(answer: bytes) -> KernelCode:
    return KernelCode(**json.loads(answer))


def serve() -> None:
    """The other process: stages, the device and a kernel for each question; the code, or the text
    of an error.
    """
    for dialect in _DIALECTS:
        import_module(f"torch_mlir.dialects.{dialect}")
    with dialects.load(ir.Context()) as context, ir.Location.unknown():
        context.enable_multithreading(False)
        generators: dict[str, _Generator] = {}

        def answer(question: bytes) -> tuple[int, bytes]:
            stages, device, kernel = json.loads(question)
            generator = generators.setdefault(str(stages), _Generator(stages, context))
            try:
                code = generator.code(ir.Module.parse(kernel), ir.Attribute.parse(device))
            except (CompilerError, ir.MLIRError) as error:
                return 1, str(error).encode()
            return 0, json.dumps(asdict(code)).encode()

        serve_answers(answer)


_WORKERS = Workers("rcompiler.driver.kernel_code")
_MADE: LruCache[KernelCode] = LruCache(64 << 20)  # characters, by the digests of questions
