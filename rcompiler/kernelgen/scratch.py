"""Task-local rows: expensive values that a reduction and a later op both need are computed once.

softmax needs e^(x - max) for its sum and again for its quotient; a row of them stays on the task's
stack. Every row that is alive at one time has a slot of its own: a register tile of several rows
keeps several.
"""

from __future__ import annotations

import math

from torch_mlir import ir

from rcompiler.kernelgen.boxes import for_each
from rcompiler.kernelgen.buffer import Buffer
from rcompiler.kernelgen.reader import Reader
from rcompiler.kernelgen.value import Val
from rcompiler.linalg.affine import Linear, lanes_differ
from rcompiler.linalg.element_types import item_bytes
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.values import element_of, shape_of

ROW_LIMIT = 32 * 1024  # bytes of one row


class Scratch:
    """The rows of one kernel."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._choice: dict[ir.Operation, list[int]] = {}

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
        e, op = self._reader.emitter, generic.op
        rows = tuple(c for d, c in enumerate(at) if d not in columns)
        if lanes_differ(rows):
            return None
        key = ("scratch", op, rows)
        buffer = e.recall(key)
        if buffer is None:
            depth = max(e.depth_of(*(s for c in rows for s, _ in c.terms)), e.guard)
            depth = max(depth, self._reader.depth(op))
            shape = tuple(shape_of(op.result)[d] for d in columns)
            buffer = self._reader.slots.take(op, shape, element_of(op.result), key, depth)
            if buffer is None:
                return None
            e.at_depth(depth, lambda: self._fill(generic, columns, at, buffer))
            e.remember(key, buffer, depth)
        return self._reader.load(buffer, [at[d] for d in columns], lanes)

    def _fill(self, generic: Generic, columns: list[int], at: list[Linear], buffer: Buffer) -> None:
        e = self._reader.emitter

        def element(inner: list[Linear], lanes: int) -> None:
            where = list(at)
            for dim, coordinate in zip(columns, inner, strict=True):
                where[dim] = coordinate
            value = e.splat(self._reader.inline(generic, where, lanes)[0], lanes)
            e.store(value, buffer.pointer, buffer.offset(inner).first)

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
