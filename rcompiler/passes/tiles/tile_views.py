"""Tiles of slices and reshapes: boxes of the tensors that they show."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch_mlir import ir
from torch_mlir.dialects import tensor

from rcompiler.linalg.affine import Linear
from rcompiler.linalg.views import groups_of
from rcompiler.passes.tiles.box import Box, tile_type, type_of
from rcompiler.passes.tiles.fuse import Fuser
from rcompiler.passes.tiles.indices import DYNAMIC, Indices

Span = tuple[Linear, Linear]  # offset and size along one dim


def tile_slice(fuser: Fuser, op: ir.Operation, number: int, box: Box) -> ir.Value | None:
    """A slice of a slice is one slice."""
    known = fuser.sources.slice_of(op)
    if known.kept is None:
        return None
    rank, own = known.box.rank, box
    if len(known.kept) < rank:
        inner = [Linear()] * rank, [Linear(1)] * rank, [1] * rank
        for position, d in enumerate(known.kept):
            inner[0][d], inner[1][d] = box.offsets[position], box.sizes[position]
            inner[2][d] = box.strides[position]
        own = Box(tuple(inner[0]), tuple(inner[1]), tuple(inner[2]))
    tile = fuser.tile(op.operands[0], own.within(known.box))
    return tile if own is box else _dropped(tile, box)


def _dropped(tile: ir.Value, box: Box) -> ir.Value | None:
    """A tile without the dims of size 1 that the box does not have."""
    shape = list(type_of(tile).shape)
    if DYNAMIC in shape:
        return None
    kind, zeros, ones = tile_type(tile, box.shape), [0] * len(shape), [1] * len(shape)
    return tensor.ExtractSliceOp(kind, tile, [], [], [], zeros, shape, ones).result


def tile_expand(fuser: Fuser, op: ir.Operation, number: int, box: Box) -> ir.Value | None:
    """Of a box that is one run of neighbours in the source: a reshape of that run."""
    shape = list(type_of(op.result).shape)
    if not box.is_dense or DYNAMIC in box.shape or DYNAMIC in shape:
        return None
    spans = []
    for group in groups_of(op):
        span = _run([box.offsets[d] for d in group], [box.sizes[d] for d in group],
                    [shape[d] for d in group])  # fmt: skip
        if span is None:
            return None
        spans.append(span)
    tile = fuser.tile(op.operands[0], Box.dense(*_offsets_and_sizes(spans)))
    kind = tile_type(op.result, box.shape)
    groups = op.attributes["reassociation"]
    return tensor.ExpandShapeOp(kind, tile, groups, [], box.shape).result


def _run(offsets: Sequence[Linear], sizes: Sequence[Linear], shape: Sequence[int]) -> Span | None:
    """The one run of row-major elements that a static box of a few dims is."""
    start, length = Linear(), 1
    whole = True  # all dims so far, from the innermost on
    for size, extent in reversed(list(zip(sizes, shape, strict=True))):
        if size.constant != 1 and not whole:
            return None
        whole = whole and size.constant == extent
        length *= size.constant
    for offset, extent in zip(offsets, shape, strict=True):
        start = start * extent + offset
    return start, Linear(length)


def tile_collapse(fuser: Fuser, op: ir.Operation, number: int, box: Box) -> ir.Value | None:
    """Of a run that is one box of the source: a reshape of that box."""
    source = list(type_of(op.operands[0]).shape)
    if not box.is_dense or DYNAMIC in box.shape or DYNAMIC in source:
        return None
    spans: list[Span] = []
    for offset, size, group in zip(box.offsets, box.sizes, groups_of(op), strict=True):
        found = _box_of_run(offset, size.constant, [source[d] for d in group], fuser.indices)
        if found is None:
            return None
        spans += found
    tile = fuser.tile(op.operands[0], Box.dense(*_offsets_and_sizes(spans)))
    kind = tile_type(op.result, box.shape)
    return tensor.CollapseShapeOp(kind, tile, op.attributes["reassociation"]).result


def _box_of_run(
    offset: Linear, size: int, shape: Sequence[int], indices: Indices
) -> list[Span] | None:
    """The box of some dims that a run of their row-major elements is; None if it is no box."""
    if len(shape) == 1:
        return [(offset, Linear(size))]
    inner = math.prod(shape[1:])
    if shape[0] == 1:
        rest = _box_of_run(offset, size, shape[1:], indices)
        return None if rest is None else [(Linear(), Linear(1)), *rest]
    if inner == 0:
        return None
    parts = offset.split(inner, indices.ranges)
    if parts is None:
        if size != 1:
            return None
        parts = indices.quotient(offset, inner)
    whole, rest_of = parts
    if size % inner == 0 and rest_of == Linear():
        return [(whole, Linear(size // inner)), *((Linear(), Linear(n)) for n in shape[1:])]
    last = indices.highest(rest_of + (size - 1))
    if last is None or last >= inner:
        return None
    rest = _box_of_run(rest_of, size, shape[1:], indices)
    return None if rest is None else [(whole, Linear(1)), *rest]


def _offsets_and_sizes(spans: Sequence[Span]) -> tuple[list[Linear], list[Linear]]:
    return [offset for offset, _ in spans], [size for _, size in spans]
