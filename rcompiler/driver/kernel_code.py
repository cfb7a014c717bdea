"""The code of rKernels, made by two processes at the same time while others are still constructed.

Tiling, writing and lowering a kernel is work of one thread: it is Python, and a context of MLIR is
not for two. The other process gets kernels as text, as soon as they are likely to be scheduled, and
gives back the texts that this one would have made. What this process had made of the same text is
not made again: the plans of a model, its buckets and its layers have most kernels in common.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib import import_module

from torch_mlir import ir

from rcompiler import dialects
from rcompiler.codegen.llvm_ir import llvm_ir
from rcompiler.driver.collector import COLLECTOR
from rcompiler.driver.shared_work import SharedWork
from rcompiler.errors import CompilerError
from rcompiler.linalg.values import string
from rcompiler.passes import Element, Pass
from rcompiler.passes._pipeline_text import read, runner
from rcompiler.passes.ir.clone import copy_module
from rcompiler.passes.ir.module_device import ATTRIBUTE
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

    kernel: the rtask.kernel that the code is of, as text: its body is that of one rTask on CPUs.
    stages: by their names, the texts of the functions (and global variables), by name. attributes:
    those of the gpu.module at the first stage, as text. llvm_ir: the module for LLVM.
    """

    kernel: str
    stages: dict[str, dict[str, str]]
    attributes: dict[str, str]
    llvm_ir: str

    @property
    def size(self) -> int:
        """Characters."""
        texts = [text for stage in self.stages.values() for text in stage.values()]
        return sum(map(len, [self.kernel, *texts, *self.attributes.values(), self.llvm_ir]))


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
    if max(kinds, len(bodies) // _LONG) >= _WORTH_A_PROCESS and can_help():
        with suppress(OSError):  # no process can be started: then this one makes all
            _WORKERS.prepare()


class KernelCodes:
    """The code of the rKernels of a model by their names, which say what they compute and how."""

    def __init__(
        self,
        device: ir.Attribute,
        stages: Sequence[Stage],
        done: Callable[[str, KernelCode], None],
        *,
        tile: Sequence[Element] = (),
    ) -> None:
        """device: what the kernels are for. tile: the passes that lead to the `kernel` of a code.
        stages: what makes the code of a module with one rKernel then. done: gets each code with the
        name of its kernel, in any order, from one thread at a time; also of kernels that are not
        scheduled in the end.
        """
        self._device, self._device_text = device, str(device)
        self._generator = _Generator(tile, stages, device.context)
        self._codes: dict[str, KernelCode] = {}
        self._questions: dict[str, bytes] = {}
        self._made_here: dict[str, ir.Module] = {}
        self._kernels = self._ops = 0  # that the other process may make, and in their bodies
        self._is_helped = can_help()
        codes, questions = self._codes, self._questions

        def keep(name: str, code: KernelCode) -> None:
            codes[name] = code
            _MADE.put(hashlib.sha256(questions[name]).hexdigest(), code, code.size)
            done(name, code)

        # not a method: the IR that this object has would stay until a collector looks for cycles
        self._work: SharedWork[KernelCode] = SharedWork(_WORKERS, _read, keep)

    def begun(self) -> AbstractContextManager[None]:
        """Inside of the context the other process makes code, if there is enough to make."""
        return self._work.begun()

    def expect(self, kernel: ir.Operation) -> None:
        """The other process may make the code of an rtask.kernel from now on."""
        name = string(kernel, "sym_name")
        if not self._is_helped or name in self._codes:
            return
        if (code := _MADE.get(self._key(kernel))) is not None:
            self._work.found(name, code)
            return
        self._work.add(name, self._question(kernel))
        self._kernels += 1
        self._ops += len(kernel.regions[0].blocks[0].operations)
        if max(self._kernels, self._ops // _OPS) >= _WORTH_A_PROCESS:
            self._work.start()

    def finish(self, kernels: Mapping[str, ir.Operation]) -> list[KernelCode]:
        """Make what is left; the code of these kernels, by their names, in their order.

        Raises CompilerError where no code can be made of a kernel.
        """
        self._work.finish(list(kernels), lambda name: self._here(kernels[name]))
        return [self._codes[name] for name in kernels]

    def put(self, kernels: Mapping[str, ir.Operation]) -> None:
        """Let the kernels whose code was made take the places of these, which they were made of."""
        texts = [self._codes[name].kernel for name in kernels if name not in self._made_here]
        parsed = ir.Module.parse("\n".join(texts), self._device.context)
        others = iter(list(parsed.body.operations))
        for name, op in kernels.items():
            own = self._made_here.pop(name, None)
            made = next(others) if own is None else own.body.operations[0]
            made.operation.move_before(op)
            op.erase()

    def _question(self, kernel: ir.Operation) -> bytes:
        """All that decides the code of a kernel, as the other process is asked for it."""
        name = string(kernel, "sym_name")
        if name not in self._questions:
            # in a scope of its own: else all values of the module are numbered for each kernel
            text = kernel.get_asm(use_local_scope=True, assume_verified=True)
            self._questions[name] = self._generator.question(self._device_text, text)
        return self._questions[name]

    def _key(self, kernel: ir.Operation) -> str:
        return hashlib.sha256(self._question(kernel)).hexdigest()

    def _here(self, kernel: ir.Operation) -> KernelCode:
        if (code := _MADE.get(self._key(kernel))) is not None:
            return code
        alone = ir.Module.create(ir.Location.unknown(kernel.context))
        with ir.InsertionPoint(alone.body):
            kernel.clone()
        return self._generator.code(alone, self._device, self._keep)

    def _keep(self, tiled: ir.Module) -> None:
        """A kernel that was made in this process need not be parsed."""
        self._made_here[string(tiled.body.operations[0].operation, "sym_name")] = copy_module(tiled)


class _Generator:
    """Pipelines from modules with one rKernel to code."""

    def __init__(
        self, tile: Sequence[Element], stages: Sequence[Stage], context: ir.Context
    ) -> None:
        self._tile, self._stages, self._context = tuple(tile), tuple(stages), context

    def question(self, device: str, kernel: str) -> bytes:
        """What the other process makes the same code of."""
        stages = [(name, str(step)) for name, step in self._stages]
        tile = ",".join(map(str, self._tile))
        return json.dumps([tile, stages, device, kernel]).encode()

    @cached_property
    def _tiled(self) -> Callable[[ir.Module], None]:
        return runner(self._tile, self._context, verify=False)

    @cached_property
    def _steps(self) -> list[tuple[str, Callable[[ir.Module], None]]]:
        return [
            (stage, runner(step if isinstance(step, str) else [step], self._context))
            for stage, step in self._stages
        ]

    def code(
        self,
        module: ir.Module,
        device: ir.Attribute,
        keep: Callable[[ir.Module], None] = lambda tiled: None,
    ) -> KernelCode:
        """device: what the module is for. keep: gets it when its body is tiled. Raises
        CompilerError.
        """
        module.operation.attributes[ATTRIBUTE] = device
        if self._tile:
            self._tiled(module)
            keep(module)
        _, kernel = _named_text(module.body.operations[0])
        stages: dict[str, dict[str, str]] = {}
        attributes: dict[str, str] = {}
        for stage, run in self._steps:
            run(module)
            holder = _holder(module)
            if holder.name == "gpu.module" and not stages:
                attributes = {name: str(value) for name, value in holder.attributes.items()}
            stages[stage] = dict(map(_named_text, holder.regions[0].blocks[0].operations))
        return KernelCode(kernel, stages, attributes, llvm_ir(holder))


def _holder(module: ir.Module) -> ir.Operation:
    """What has the functions."""
    first = module.body.operations[0].operation
    return first if first.name == "gpu.module" else module.operation


def _named_text(view: ir.OpView) -> tuple[str, str]:
    return string(view.operation, "sym_name"), view.operation.get_asm(assume_verified=True)


# -- the other process
def _read(answer: bytes) -> KernelCode:
    return KernelCode(**json.loads(answer))


def serve() -> None:
    """The other process: passes, stages, the device and a kernel for each question; the code, or
    the text of an error.
    """
    for dialect in _DIALECTS:
        import_module(f"torch_mlir.dialects.{dialect}")
    with COLLECTOR.seldom(), dialects.load(ir.Context()) as context, ir.Location.unknown():
        context.enable_multithreading(False)
        generators: dict[str, _Generator] = {}

        def answer(question: bytes) -> tuple[int, bytes]:
            tile, stages, device, kernel = json.loads(question)
            key = f"{tile} {stages}"
            if key not in generators:
                generators[key] = _Generator(read(tile), stages, context)
            try:
                module, made_for = ir.Module.parse(kernel), ir.Attribute.parse(device)
                code = generators[key].code(module, made_for)
            except (CompilerError, ir.MLIRError) as error:
                return 1, str(error).encode()
            return 0, json.dumps(asdict(code)).encode()

        serve_answers(answer)


_WORKERS = Workers("rcompiler.driver.kernel_code")
_MADE: LruCache[KernelCode] = LruCache(64 << 20)  # characters, by the digests of questions
