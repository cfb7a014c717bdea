"""What the threads of a warp hold of the operands of mma.sync, read from shared memory.

A register of a thread has neighbouring steps of one position (PTX ISA, "Matrix fragments for
mma.m16n8k16"). ldmatrix gives it to them as it lies there where lines have steps, also of tf32,
two halves of which travel together, and of bytes, which always lie so; where lines have positions
its 8x8 blocks of halves are turned on the way (`.trans`), and elements of tf32 are read one by one.
"""

from __future__ import annotations

from rcompiler.kernelgen.simt.emitter import SHARED, SimtEmitter
from rcompiler.kernelgen.simt.evaluator import SimtEvaluator
from rcompiler.kernelgen.simt.operand import Operand
from rcompiler.kernelgen.simt.operand_ring import OperandRing
from rcompiler.kernelgen.simt.product import Product
from rcompiler.kernelgen.value import Val
from rcompiler.linalg.affine import Linear

ROWS, COLUMNS = 16, 8  # of one instruction
# Elements by the unit that multiplies them.
STORED = {"f16": "f16", "bf16": "bf16", "tf32": "f32", "i8": "i8"}


class Fragments:
    """What the threads of a warp hold of the operands of one instruction."""

    def __init__(
        self,
        evaluator: SimtEvaluator,
        emitter: SimtEmitter,
        product: Product,
        ring: OperandRing,
    ) -> None:
        self._evaluator, self._e = evaluator, emitter
        self._product, self._ring = product, ring

    def rows(
        self, lane: Linear, corner: Linear, count: int, first: int, start: Linear
    ) -> list[list[str]]:
        """Four registers of 16 rows each, from step `first` of the part at `start` on."""
        operand, split = self._product.operands[0], self._evaluator.split
        if not self._by_blocks(operand):
            return [
                self._words(0, lane, corner + i * ROWS, first, start, (0, 8)) for i in range(count)
            ]
        block, line = split(lane, 8)
        later, lower = split(block, 2)
        found = []
        for i in range(count):
            position = corner + i * ROWS + lower * 8
            found.append(self._blocks(0, position, Linear(first), later, line, start, 4))
        return found

    def columns(
        self, lane: Linear, corner: Linear, count: int, first: int, start: Linear
    ) -> list[list[str]]:
        """Two registers of 8 columns each, from step `first` of the part at `start` on."""
        operand, split = self._product.operands[1], self._evaluator.split
        if not self._by_blocks(operand):
            return [
                self._words(1, lane, corner + j * COLUMNS, first, start, (0,)) for j in range(count)
            ]
        block, line = split(lane, 8)
        right, later = split(block, 2)
        found: list[list[str]] = []
        for j in range(0, count - 1, 2):  # two at a time
            position = corner + j * COLUMNS + right * 8
            four = self._blocks(1, position, Linear(first), later, line, start, 4)
            found += [four[:2], four[2:]]
        if count % 2:
            position = corner + (count - 1) * COLUMNS
            found.append(self._blocks(1, position, Linear(first), later, line, start, 2))
        return found

    @staticmethod
    def _by_blocks(operand: Operand) -> bool:
        return operand.step_lines or operand.element != "f32"

    def _words(
        self,
        factor: int,
        lane: Linear,
        position: Linear,
        first: int,
        start: Linear,
        beyond: tuple[int, ...],
    ) -> list[str]:
        """Elements of tf32 at the steps of this lane, each at all positions `beyond` the first."""
        e, operand = self._e, self._product.operands[factor]
        pointer = self._ring.pointer(factor)
        quad, inside = self._evaluator.split(lane, 4)
        found = []
        for later in (0, 4):
            for more in beyond:
                place = start + operand.place(inside + (first + later), position + quad + more)
                value = e.load(pointer, operand.element, place, 0, readonly=False)
                bits = e.bitcast(value, "i32", dialect="llvm")
                found.append(self._rounded(operand, bits))
        return found

    def _blocks(
        self,
        factor: int,
        position: Linear,
        step: Linear,
        later: Linear,
        line: Linear,
        start: Linear,
        count: int,
    ) -> list[str]:
        """A register of each of `count` blocks of 8 lines of 16 bytes, a line of one of which each
        lane names: `line` of the block at `position` and, if `later`, behind the first steps.
        """
        e, operand = self._e, self._product.operands[factor]
        if operand.step_lines:
            place = operand.place(step + later * (16 // operand.item), position + line)
        else:
            place = operand.place(step + later * 8 + line, position)
        address = e.address(self._ring.pointer(factor), operand.element, start + place)
        result = f"!llvm.struct<({', '.join(['i32'] * count)})>"
        layout = "row" if operand.step_lines else "col"
        name = e.define(e.fresh("f"))
        e.line(
            f"{name} = nvvm.ldmatrix {address} {{num = {count} : i32, "
            f"layout = #nvvm.mma_layout<{layout}>, shape = #nvvm.ld_st_matrix_shape<m = 8, n = 8>, "
            f"eltType = #nvvm.ld_st_matrix_elt_type<b16>}} : ({SHARED}) -> {result}"
        )
        words = [Val(e.part(name, k, result), "i32") for k in range(count)]
        if operand.element != "f16":
            return [self._rounded(operand, word) for word in words]
        return [e.bitcast(word, "f16", 2, dialect="llvm").name for word in words]

    def _rounded(self, operand: Operand, word: Val) -> str:
        """What was copied as it lies in memory is rounded here, all else was when it was kept."""
        e = self._e
        if operand.element != "f32" or not operand.asynchronous:
            return word.name
        return e.tf32(e.bitcast(word, "f32", dialect="llvm")).name
