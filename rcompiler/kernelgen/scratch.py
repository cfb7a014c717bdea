"""Task-local rows: expensive values that a reduction and a later op both need are computed once.

softmax needs e^(x - max) for its sum and again for its quotient; a row of them stays on the task's
stack. Every row that is alive at one time has a slot of its own: a register tile of several rows
keeps several.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch_mlir import ir

from rcompiler.kernelgen.boxes import for_each
from rcompiler.kernelgen.buffer import Buffer
from rcompiler.kernelgen.reader import Reader
from rcompiler.kernelgen.value import Val
from rcompiler.linalg.affine import LANE, Linear
from rcompiler.linalg.element_types import item_bytes
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.values import element_of, shape_of

if TYPE_CHECKING:
    from rcompiler.kernelgen.emitter import Emitter

ROW_LIMIT = 32 * 1024  # bytes of one row
STACK_LIMIT = 48 * 1024  # bytes of all rows of a kernel; the ABI allows 64 KiB of stack


@dataclass
class _Slot:
    """Memory of one row of `op`; `owner` is the key of the row that it holds, `filled` where it was
    written so far.
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


class Scratch:
    """The rows of one kernel."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._choice: dict[ir.Operation, list[int]] = {}
        self._slots: list[_Slot] = []
        self._bytes = 0

    def columns(self, generic: Generic) -> list[int]:
        """Result dims of `generic` to keep in a row; [] if its values are better computed again."""
        if generic.op not in self._choice:
            self._choice[generic.op] = kept_columns(generic)
        return self._choice[generic.op]

    def read(
        self, generic: Generic, columns: list[int], at: list[Linear], lanes: int
    ) -> Val | None:
        """The value at `at` through its row, which is computed first if need be; None if there is
        no room for it.
        """
        e = self._reader.emitter
        rows = tuple(c for d, c in enumerate(at) if d not in columns)
        if any(c.coefficient(LANE) for c in rows):
            return None
        key = ("scratch", generic.op, rows)
        buffer = e.recall(key)
        if buffer is None:
            depth = max(e.depth_of(*(s for c in rows for s, _ in c.terms)), e.guard)
            depth = max(depth, self._reader.depth(generic.op))
            buffer = self._slot(generic, columns, key, depth)
            if buffer is None:
                return None
            e.at_depth(depth, lambda: self._fill(generic, columns, at, buffer))
            e.remember(key, buffer, depth)
        return self._reader.load(buffer, [at[d] for d in columns], lanes)

    def _slot(self, generic: Generic, columns: list[int], key: object, depth: int) -> Buffer | None:
        """Memory for a row: that of a row whose loop has ended, else new memory while there is
        some.
        """
        e, op = self._reader.emitter, generic.op
        path = e.path()
        for slot in self._slots:
            if slot.op == op and not e.is_known(slot.owner) and slot.is_free_at(depth, path):
                slot.owner = key
                slot.filled.append(path[: depth + 1])
                return slot.buffer
        shape = tuple(shape_of(op.result)[d] for d in columns)
        element = element_of(op.result)
        size = -(-math.prod(shape) * item_bytes(element) // 64) * 64
        if self._bytes + size > STACK_LIMIT:
            return None
        self._bytes += size
        pointer = stack_memory(e, math.prod(shape), element)
        self._slots.append(
            _Slot(op, Buffer(pointer, shape, element, False), key, [path[: depth + 1]])
        )
        return self._slots[-1].buffer

    def _fill(self, generic: Generic, columns: list[int], at: list[Linear], buffer: Buffer) -> None:
        e = self._reader.emitter

        def element(inner: list[Linear], lanes: int) -> None:
            where = list(at)
            for dim, coordinate in zip(columns, inner, strict=True):
                where[dim] = coordinate
            value = e.splat(self._reader.inline(generic, where, lanes)[0], lanes)
            e.store(value, buffer.pointer, buffer.offset(inner).without(LANE))

        with self._reader.prefetcher.row(buffer.bytes):
            for_each(e, buffer.shape, element)


def kept_columns(generic: Generic) -> list[int]:
    """Result dims of `generic` to keep in a row; [] if its values are better computed again."""
    result = generic.op.result
    users = [use.owner.operation for use in result.uses]
    costly = any(b.operation.name.startswith("math.") for b in generic.block.operations)
    if len(users) < 2 or not costly:
        return []
    columns: list[int] = []
    for user in users:
        if user.name == "linalg.generic" and (reducing := Generic(user)).reduction_dims:
            columns = _reduced_dims(reducing, result)
            break
    size = math.prod(shape_of(result)[d] for d in columns) * item_bytes(element_of(result))
    return columns if size <= ROW_LIMIT else []


def stack_memory(e: Emitter, count: int, element: str) -> str:
    """Pointer to new, uninitialised memory for `count` elements, reserved once per call."""
    stored = "i8" if element == "i1" else element
    size = e.index(Linear(count))
    text = f"llvm.alloca {size} x {stored} {{alignment = 64 : i64}} : (i64) -> !llvm.ptr"
    return e.pure(f"{text} // {e.fresh('s')[1:]}", [], "s")


def _reduced_dims(reducing: Generic, value: ir.Value) -> list[int]:
    """Dims of `value` that `reducing` reduces."""
    map_ = reducing.maps[reducing.inputs.index(value)]
    found = []
    for position, expression in enumerate(map_.results):
        expression = expression.maybe_downcast()
        if (
            isinstance(expression, ir.AffineDimExpr)
            and expression.position in reducing.reduction_dims
        ):
            found.append(position)
    return found
