"""Stages in the body of one task: where it keeps the tile of each, and what that is made of."""

from __future__ import annotations

import math
from collections.abc import Iterator

from torch_mlir import ir

from rcompiler.linalg.element_types import item_bytes
from rcompiler.linalg.values import STAGE, element_of, integer, integers

ALIGNMENT = 64  # bytes
# Bytes; rows at a multiple of this share few sets of a cache of 64 sets. A choice for every device:
# where a tile lies in the workspace is written in the rKernel, whatever it is compiled for.
_FEW_SETS = 1024


def kept_shape(tile: tuple[int, ...], element: str) -> tuple[int, ...]:
    """A tile as it lies in memory: one line more per row where rows would share few sets."""
    *rows, row = tile or (1,)
    item = item_bytes(element)
    if math.prod(rows) > 1 and row * item % _FEW_SETS == 0:
        row += ALIGNMENT // item
    return (*rows, row)[: len(tile)]


def stages_inside(block: ir.Block) -> Iterator[ir.Operation]:
    """The stages in the body of one task, also in its loops and branches."""
    for view in block.operations:
        op = view.operation
        if op.name == STAGE:
            yield op
        elif op.name.startswith("scf."):
            for region in op.regions:
                for inner in region.blocks:
                    yield from stages_inside(inner)


def kept_bytes(op: ir.Operation) -> tuple[int, int]:
    """The bytes of the workspace, from one up to another, of what a stage in the body of a task
    keeps.
    """
    element = element_of(op.result)
    size = math.prod(kept_shape(integers(op, "kept"), element)) * item_bytes(element)
    start = integer(op, "offset")
    return start, start + -(-size // ALIGNMENT) * ALIGNMENT


def sources_of(op: ir.Operation) -> set[ir.Operation]:
    """The stages that a stage is computed from."""
    found: set[ir.Operation] = set()
    pending, seen = [op], set[ir.Operation]()
    while pending:
        for owner in _defining(pending.pop()) - seen:
            seen.add(owner)
            (found.add if owner.name == STAGE else pending.append)(owner)
    return found


def _defining(op: ir.Operation) -> set[ir.Operation]:
    """The ops that an op, and what is inside of it, takes values from."""
    found = {v.owner.operation for v in op.operands if not isinstance(v.owner, ir.Block)}
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                found |= _defining(inner.operation)
    return found
