"""Tiles of pads and concatenations: what of each part lies in the tile.

Before:
    %p = tensor.pad %y low[1] high[0] {0} : tensor<30xf32> to tensor<31xf32>
    %t = tensor.extract_slice %p[%i] [8] [1]
After:
    %s = tensor.extract_slice %y[max(%i - 1, 0)] [size] [1] : tensor<30xf32> to tensor<?xf32>
    %t = tensor.pad %s low[max(1 - %i, 0)] high[0] {0} : tensor<?xf32> to tensor<8xf32>
Those of operands, which are in memory already, stay whole in front: a tile is a slice of one.
"""

from __future__ import annotations

from torch_mlir import ir
from torch_mlir.dialects import tensor

from rcompiler.linalg.affine import Linear
from rcompiler.linalg.pieces import pad_value
from rcompiler.linalg.values import integer, integers
from rcompiler.linalg.views import MOVES
from rcompiler.passes.tiles.box import Box, tile_type, type_of
from rcompiler.passes.tiles.fuse import Fuser, comes_from_operands
from rcompiler.passes.tiles.indices import DYNAMIC, Indices

_MOVED = frozenset({*MOVES, "tensor.insert_slice"})


def is_joined_anew(op: ir.Operation) -> bool:
    """Whether an op pads or joins what is computed, for another op that computes: it is neither a
    slice of operands nor, by its parts, a result.
    """
    if op.name not in ("tensor.pad", "tensor.concat"):
        return False
    sources = [v for v in op.operands if isinstance(v.type, ir.RankedTensorType)]
    if all(comes_from_operands(v, _MOVED) for v in sources):
        return False
    users = (use.owner.operation for use in op.result.uses)
    return any(user.name in ("linalg.generic", "rtask.stage") for user in users)


def tile_pad(fuser: Fuser, op: ir.Operation, number: int, box: Box) -> ir.Value | None:
    """A pad of what of the source lies in the box."""
    source = op.operands[0]
    shape = list(type_of(source).shape)
    if comes_from_operands(source, _MOVED) or DYNAMIC in [*shape, *box.shape] or not box.is_dense:
        return None
    indices = fuser.indices
    spans, before, after = [], [], []
    for offset, size, low, extent in zip(
        box.offsets, box.sizes, integers(op, "static_low"), shape, strict=True
    ):
        start, end = (_clamped(p + -low, extent, indices) for p in (offset, offset + size))
        spans.append((start, end + start * -1))
        # up to the first element of the source, but not further than the tile reaches
        skipped = indices.largest([Linear(), offset * -1 + low])
        before.append(indices.lowest([skipped, size]))
        after.append(size + before[-1] * -1 + spans[-1][1] * -1)
    if any(size == Linear() for _, size in spans):
        return None
    inner = Box.dense([offset for offset, _ in spans], [size for _, size in spans])
    tile = fuser.tile(source, inner)
    return _padded(tile, before, after, tile_type(op.result, box.shape), pad_value(op), indices)


def _padded(
    tile: ir.Value,
    before: list[Linear],
    after: list[Linear],
    type_: ir.Type,
    fill: ir.Value,
    indices: Indices,
) -> ir.Value:
    (low, first), (high, last) = indices.mixed(before), indices.mixed(after)
    op = tensor.PadOp(type_, tile, first, last, low, high)
    block = op.regions[0].blocks.append(*[ir.IndexType.get()] * len(low))
    with ir.InsertionPoint(block):
        tensor.YieldOp(fill)
    return op.result


def tile_concat(fuser: Fuser, op: ir.Operation, number: int, box: Box) -> ir.Value | None:
    """A concatenation of what of each operand lies in the box."""
    axis = integer(op, "dim")
    shapes = [list(type_of(v).shape) for v in op.operands]
    if all(comes_from_operands(v, _MOVED) for v in op.operands) or not box.is_dense:
        return None
    if DYNAMIC in [*box.shape, *(n for shape in shapes for n in shape)]:
        return None
    indices, first, tiles = fuser.indices, 0, []
    for value, shape in zip(op.operands, shapes, strict=True):
        ends = box.offsets[axis], box.offsets[axis] + box.sizes[axis]
        start, end = (_clamped(p + -first, shape[axis], indices) for p in ends)
        first += shape[axis]
        size = end + start * -1
        if size != Linear():
            offsets, sizes = list(box.offsets), list(box.sizes)
            offsets[axis], sizes[axis] = start, size
            tiles.append(fuser.tile(value, Box.dense(offsets, sizes)))
    return _joined(tiles, axis, tile_type(op.result, box.shape))


def _joined(tiles: list[ir.Value], axis: int, type_: ir.RankedTensorType) -> ir.Value:
    if len(tiles) == 1:
        return tiles[0]
    shape = list(type_.shape)
    along = [type_of(v).shape[axis] for v in tiles]
    shape[axis] = DYNAMIC if DYNAMIC in along else sum(along)
    made = tensor.concat(tile_type(tiles[0], shape), axis, tiles)
    return made if made.type == type_ else tensor.CastOp(type_, made).result


def _clamped(position: Linear, extent: int, indices: Indices) -> Linear:
    """The nearest of 0 ... extent."""
    if position.is_constant:
        return Linear(min(max(position.constant, 0), extent))
    return indices.lowest([indices.largest([Linear(), position]), Linear(extent)])
