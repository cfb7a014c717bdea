"""roller-tile-registers: S3 -> S3, the tiles of a task are made register tile by register tile.

Before:
    %t = linalg.generic {acc + x * w} ins(%a, %b) outs(%f) -> tensor<12x32xf32>
    %r = tensor.insert_slice %t into %out[%i, %j] [12, 32] [1, 1]
After, for register tiles of 6 x 16:
    %r = scf.for %c = %c0 to %c32 step %c16 iter_args(%o = %out) {
      %q = scf.for %d = %c0 to %c12 step %c6 iter_args(%p = %o) {
        ... slices of %x and %w ...
        %t = linalg.generic {acc + x * w} ins(%a, %b) outs(%f) -> tensor<6x16xf32>
        %s = tensor.insert_slice %t into %p[%i + %d, %j + %c] [6, 16] [1, 1]
        scf.yield %s
      }
      scf.yield %q
    }
`order` says which loop is outside; it goes, as the loops say it. What does not fill register tiles
is covered by smaller ones: along the vector dim by narrower vectors. The tile of a stage is made in
the same way, into a tensor of its own. Needs: bodies of one task (roller-tile-tasks).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch_mlir import ir, rewrite
from torch_mlir.dialects import tensor

from rcompiler.dialects import rtask
from rcompiler.linalg.affine import Linear
from rcompiler.passes import Pass, PassFailure
from rcompiler.passes.ir.patterns import walk
from rcompiler.passes.tiles.body import (
    UNTILED,
    Values,
    erase_unused,
    insertions_in,
    is_tiled,
    ops_in,
)
from rcompiler.passes.tiles.box import Box, insert, memory, sizes_of, type_of
from rcompiler.passes.tiles.fuse import Fuser
from rcompiler.passes.tiles.nest import Nest, periods
from rcompiler.passes.tiles.register_groups import forget_order, reduces, together
from rcompiler.passes.tiles.sources import Sources
from rcompiler.passes.tiles.tile_generic import PATTERNS


@dataclass(frozen=True)
class RollerTileRegisters(Pass):
    """Make loops over register tiles of the tiles of every rTask."""

    def run(self, module: ir.Operation) -> None:
        walk(module, {rtask.KernelOp: _tile_kernel})


def _tile_kernel(kernel: rtask.KernelOp, rewriter: rewrite.PatternRewriter) -> bool | None:
    """Loops in the body of a kernel; another walk, as its patterns share what they know of it."""
    if kernel.kind.value in UNTILED:
        return True
    op = kernel.operation
    if not is_tiled(op):
        raise PassFailure(op, "its body is that of a whole operator; run roller-tile-tasks")
    block, sources = op.regions[0].blocks[0], Sources()
    insertions = insertions_in(block)

    def tile_stage(stage: rtask.StageOp, rewriter: rewrite.PatternRewriter) -> None:
        with rewriter.ip, stage.location:
            _tile_stage(sources, stage.operation)
        forget_order(stage.operation)

    walk(op, {rtask.StageOp: tile_stage})
    groups = {group[-1].result: group for group in together(sources, insertions)}

    def tile_results(last: tensor.InsertSliceOp, rewriter: rewrite.PatternRewriter) -> bool | None:
        group = groups.get(last.result)
        if group is None:
            return True
        with rewriter.ip, last.location:
            made = _tile_results(sources, group, op)
        for old, new in zip(group, made, strict=True):
            rewriter.replace_op(old, [new])
        return None

    walk(op, {tensor.InsertSliceOp: tile_results})
    erase_unused(ops_in(block))
    forget_order(op)  # the loops say it now
    return None


def _tile_results(sources: Sources, ops: list[ir.Operation], kernel: ir.Operation) -> Values:
    indices = sources.indices
    tiles = [op.operands[0] for op in ops]
    where = sources.box_of(ops[0])

    def leaf(box: Box, outs: Values) -> Values:
        fuser = Fuser(sources, PATTERNS)
        made = [fuser.tile(tile, box) for tile in tiles]
        place = box.within(where)
        return [insert(t, o, place, indices) for t, o in zip(made, outs, strict=True)]

    sums = any(reduces(sources, tile) for tile in tiles)
    each = [periods(sources, tile, where.rank) for tile in tiles]
    apart = [math.lcm(*dims) for dims in zip(*each, strict=True)]
    nest = Nest.of(kernel, indices, where.offsets, sums=sums, periods=apart)
    whole = Box.dense([Linear()] * where.rank, where.sizes)
    outs = [op.operands[1] for op in ops]
    return nest.over(nest.tiling.nested(where.rank), whole, outs, leaf)


def _tile_stage(sources: Sources, op: ir.Operation) -> None:
    indices = sources.indices
    tile = op.operands[0]
    sizes = sizes_of(tile, indices.of)
    into = memory(sizes, type_of(tile).element_type, indices)

    def leaf(box: Box, outs: Values) -> Values:
        made = Fuser(sources, PATTERNS).tile(tile, box)
        return [insert(made, outs[0], box, indices)]

    zeros = [Linear()] * len(sizes)
    apart = periods(sources, tile, len(sizes))
    nest = Nest.of(op, indices, zeros, sums=reduces(sources, tile), periods=apart)
    whole = Box.dense(zeros, sizes)
    op.operands[0] = nest.over(nest.tiling.nested(len(sizes)), whole, [into], leaf)[0]
