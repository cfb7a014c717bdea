"""A core of a CPU as the target of a kernel: one thread with vectors.

    func.func @k(
        %operands: !llvm.ptr, %first: i64, %count: i64, %stride: i64, %workspace: !llvm.ptr)

`operands` points to one pointer per region argument and then one per result; `workspace` is memory
of the core for the stages of a task.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch_mlir import ir

from rcompiler.errors import CompilerError
from rcompiler.kernelgen.buffer import Buffer
from rcompiler.kernelgen.emitter import Emitter
from rcompiler.kernelgen.evaluate import Evaluator
from rcompiler.kernelgen.slabs import Slabs
from rcompiler.kernelgen.slabs_abreast import write_abreast
from rcompiler.kernelgen.target import Meeting
from rcompiler.kernelgen.task import TaskEvaluator, TaskWriter
from rcompiler.kernelgen.tile import VectorTileWriter
from rcompiler.kernelgen.tile_shapes import with_shapes
from rcompiler.kernelgen.tiling import Range, Tiling
from rcompiler.linalg.affine import Linear
from rcompiler.linalg.values import element_of, shape_of

# Operands whose pointers are loaded at the start of a function. LLVM takes the square of their
# number for what lives from there to the end (800 parts of a concatenation: 5 of 6 s).
_AT_HAND = 32
OPTIMISED = "optimised-loops"  # LOOPS of codegen/llvm_job.py
SIGNATURE = "%operands: !llvm.ptr, %first: i64, %count: i64, %stride: i64, %workspace: !llvm.ptr"


@dataclass(frozen=True)
class CpuFeatures:
    """What code generation must know of a core: f32 lanes of a vector register, fused
    multiply-add, multiplication of vectors with powers of two (AVX-512), arithmetic on f16
    (AVX512_FP16), the element types ("i8", "bf16") that have a dot-product instruction, those that
    tile registers multiply, and bytes of a cache line and of the largest cache of a core's own; as
    `Emitter` has them.
    """

    lanes: int
    has_fma: bool
    has_scalef: bool = False
    has_f16: bool = False
    dots: frozenset[str] = frozenset()
    tiles: frozenset[str] = frozenset()
    line_bytes: int = 64
    private_bytes: int = 0


class CpuTarget:
    """A core, for the code of one kernel; see `Target`."""

    shares_products = False

    def __init__(self, features: CpuFeatures) -> None:
        self.evaluator = Evaluator(Emitter(**vars(features)), {})
        self.meeting = Meeting()

    def head(self, name: str, *, vectorise: bool) -> str:
        """As `Target.head`."""
        attributes = f'attributes {{llvm.passthrough = ["{OPTIMISED}"]}} ' if vectorise else ""
        return f"func.func @{name}({SIGNATURE}) {attributes}"

    def body(self, lines: list[str]) -> list[str]:
        """The lines, where tile registers multiply with their shapes."""
        return with_shapes(lines)

    def guarded(self, guards: Sequence[tuple[int, bool]], lines: list[str]) -> list[str]:
        """As `Target.guarded`: a look at each condition when the function is called."""
        looks = ["%guard_zero = arith.constant 0 : i8", "%guard = arith.constant true"]
        for number, (operand, holds) in enumerate(guards):
            before, after = f"%guard{number - 1}" if number else "%guard", f"%guard{number}"
            is_not = "ne" if holds else "eq"
            looks += [
                f"{after}_slot = llvm.getelementptr %operands[{operand}] : (!llvm.ptr) -> "
                "!llvm.ptr, !llvm.ptr",
                f"{after}_at = llvm.load {after}_slot : !llvm.ptr -> !llvm.ptr",
                f"{after}_byte = llvm.load {after}_at : !llvm.ptr -> i8",
                f"{after}_is = arith.cmpi {is_not}, {after}_byte, %guard_zero : i8",
                f"{after} = arith.andi {before}, {after}_is : i1",
            ]
        inner = ["  " + line for line in lines]
        return [*looks, f"scf.if %guard{len(guards) - 1} {{", *inner, "}"]

    def operand(self, index: int, value: ir.Value, *, readonly: bool, pinned: bool) -> Buffer:
        """As `Target.operand`."""
        if pinned:
            raise CompilerError("cores have no memory of their own to pin tensors in")
        e = self.evaluator.emitter
        if index < _AT_HAND:
            slot = e.behind("%operands", "!llvm.ptr", "!llvm.ptr", index)
            pointer = e.pure(f"llvm.load {slot} : !llvm.ptr -> !llvm.ptr", [slot], "p")
        else:
            pointer = e.pointer_later("%operands", index)
        return Buffer(pointer, shape_of(value), element_of(value), readonly)

    def task_number(self, number: Linear, tasks: int) -> Linear:
        """The number itself."""
        return number

    def in_order(self, write: Callable[[], None]) -> None:
        """The one thread does everything in order."""
        write()

    def write_slabs(self, slabs: Slabs, ranges: Sequence[Range]) -> None:
        """As `write_abreast`."""
        write_abreast(slabs, ranges)

    def task_writer(
        self, kernel: ir.Operation, outputs: Sequence[Buffer], operands: Sequence[Buffer]
    ) -> TaskWriter:
        """As `Target.task_writer`."""
        return TaskWriter(kernel, TaskEvaluator(self.evaluator.emitter, {}), outputs, operands)

    def tile_writer(self, name: str, tiling: Tiling) -> VectorTileWriter:
        """As `Target.tile_writer`; raises CompilerError as `VectorTileWriter` does."""
        return VectorTileWriter(name, tiling, self.evaluator)
