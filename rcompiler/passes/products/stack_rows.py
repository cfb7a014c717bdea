"""Tensors of one shape joined along an axis, without a copy where they are slices of one tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch_mlir import ir

from rcompiler.linalg.values import defining, integers, shape_of
from rcompiler.linalg.views import RESHAPES
from rcompiler.passes.ir.tensor_ir import concat, extract_slice, reshape


def stack_rows(values: Sequence[ir.Value], axis: int) -> ir.Value:
    """At the insertion point: [.., n, ..] each to [.., n * count, ..]."""
    shape = list(shape_of(values[0]))
    shape[axis] *= len(values)
    side_by_side = all(size == 1 for size in shape[:axis])
    found = _one_piece([_chunk(value) for value in values]) if side_by_side else None
    return concat(values, axis) if found is None else reshape(found, shape)


@dataclass(frozen=True)
class _Chunk:
    """`size` of the outermost dim of `source`, from `start` on, of all there is along the others:
    so many elements side by side.
    """

    source: ir.Value
    start: int
    size: int


def _chunk(value: ir.Value) -> _Chunk | None:
    op = defining(value)
    while op is not None and op.name in RESHAPES:
        op = defining(op.operands[0])
    if op is None or op.name != "tensor.extract_slice" or len(op.operands) > 1:
        return None
    source = op.operands[0]
    starts, sizes, steps = (integers(op, f"static_{n}") for n in ("offsets", "sizes", "strides"))
    if not sizes or set(steps) != {1} or sizes[1:] != tuple(shape_of(source))[1:]:
        return None
    return _Chunk(source, starts[0], sizes[0])


def _one_piece(chunks: Sequence[_Chunk | None]) -> ir.Value | None:
    """The slice that is all of them in a row, if they lie side by side in one tensor."""
    first = chunks[0]
    if first is None:
        return None
    position = first.start
    for chunk in chunks:
        if chunk is None or chunk.source != first.source or chunk.start != position:
            return None
        position += chunk.size
    shape = list(shape_of(first.source))
    if (first.start, position) == (0, shape[0]):
        return first.source
    start = [first.start] + [0] * (len(shape) - 1)
    return extract_slice(
        first.source, start, [position - first.start, *shape[1:]], [1] * len(shape)
    )
