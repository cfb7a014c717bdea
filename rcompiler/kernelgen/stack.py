"""Memory of a task on its stack."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch_mlir import ir

from rcompiler.kernelgen.buffer import Buffer
from rcompiler.kernelgen.emitter import Emitter
from rcompiler.linalg.affine import Linear
from rcompiler.linalg.element_types import item_bytes

STACK_LIMIT = 48 * 1024  # bytes of all slots of a kernel; the ABI allows 64 KiB of stack


@dataclass
class _Slot:
    """Memory of values of `op`, such as one row; `owner` is the key of those that it holds,
    `filled` where it was written so far.
    """

    op: ir.Operation
    buffer: Buffer
    owner: object
    filled: list[list[object]]

    def is_free_at(self, depth: int, path: list[object]) -> bool:
        """Whether a row that is written at `depth` of the open scopes `path` comes after all
        earlier ones: an open scope further in, which holds one of them, will come after it.
        """
        later = {id(scope) for scope in path[depth + 1 :]}
        return not any(id(scope) in later for other in self.filled for scope in other)


class StackSlots:
    """Memory of one kernel on the stack, for what is alive at one time."""

    def __init__(self, emitter: Emitter) -> None:
        self._e = emitter
        self._slots: list[_Slot] = []
        self._bytes = 0

    def take(
        self, op: ir.Operation, shape: tuple[int, ...], element: str, key: object, depth: int
    ) -> Buffer | None:
        """Memory for what is remembered under `key` and written at `depth`: that of values of `op`
        whose loop has ended, else new memory while there is some.
        """
        path = self._e.path()
        for slot in self._slots:
            same = slot.op == op and slot.buffer.shape == shape
            if same and not self._e.is_known(slot.owner) and slot.is_free_at(depth, path):
                slot.owner = key
                slot.filled.append(path[: depth + 1])
                return slot.buffer
        size = -(-math.prod(shape) * item_bytes(element) // 64) * 64
        if self._bytes + size > STACK_LIMIT:
            return None
        self._bytes += size
        pointer = stack_memory(self._e, math.prod(shape), element)
        buffer = Buffer(pointer, shape, element, False)
        self._slots.append(_Slot(op, buffer, key, [path[: depth + 1]]))
        return buffer


def stack_memory(e: Emitter, count: int, element: str) -> str:
    """Pointer to new, uninitialised memory for `count` elements, reserved once per call."""
    stored = "i8" if element == "i1" else element
    size = e.index(Linear(count))
    text = f"llvm.alloca {size} x {stored} {{alignment = 64 : i64}} : (i64) -> !llvm.ptr"
    return e.pure(f"{text} // {e.fresh('s')[1:]}", [], "s")
