"""The tensor maps of an rKernel: which it needs, and where they lie when it runs.

Each memory that operands lie in (the arena, the weights, each input and output) has a map of its
own for each of them, made when a model is loaded: a row of maps by the number of the memory. The
record of the rKernel, which `%boxes` points to, has the address of its first row, and the bytes of
a row.
"""

from __future__ import annotations

from collections.abc import Callable

from rcompiler.kernelgen.buffer import Buffer
from rcompiler.kernelgen.simt.emitter import GLOBAL, WHOLE, SimtEmitter
from rcompiler.kernelgen.value import Val
from rcompiler.runtime.gpu.driver import TensorTile
from rcompiler.runtime.gpu.tensor_maps import MAP_BYTES, TensorMapBox


class TensorMaps:
    """boxes: the rows so far, in their order."""

    def __init__(self, emitter: SimtEmitter, word: Callable[[int], str]) -> None:
        """word: the i64 at a place of the instruction, in which each operand has a pair (number of
        the memory, byte offset).
        """
        self._e, self._word = emitter, word
        self._arguments: dict[str, int] = {}
        self.boxes: list[TensorMapBox] = []

    def note(self, buffer: Buffer, argument: int) -> None:
        """Which operand a buffer is."""
        self._arguments[buffer.pointer] = argument

    def offset(self, buffer: Buffer) -> str:
        """The i64 byte offset of an operand in its memory."""
        return self._word(2 * self._arguments[buffer.pointer] + 1)

    def address(self, buffer: Buffer, tile: TensorTile) -> str:
        """Generic pointer to the map of boxes of the memory that an operand lies in."""
        e, argument = self._e, self._arguments[buffer.pointer]
        box = TensorMapBox(argument, tile)
        if box not in self.boxes:
            self.boxes.append(box)
        number = self.boxes.index(box)
        rows = e.pure(f"llvm.load %boxes {WHOLE} : {GLOBAL} -> {GLOBAL}", [], "p")
        behind = e.behind("%boxes", GLOBAL, "i64", 1)
        size = e.pure(f"llvm.load {behind} {WHOLE} : {GLOBAL} -> i64", [behind])
        memory = self._word(2 * argument)
        row, column = e.mul(Val(size, "i64"), number), e.mul(Val(memory, "i64"), MAP_BYTES)
        at = e.behind(rows, GLOBAL, "i8", e.add(row, column).name)
        return e.pure(f"llvm.addrspacecast {at} : {GLOBAL} to !llvm.ptr", [at], "p")
