"""roller-tile-threads: S3 -> S3, and S4 -> S4, the threads of a block share in the tiles of a task.

Before:
    %t = linalg.generic {exp} ins(%s) outs(%e) -> tensor<4x64xf32>
    %r = tensor.insert_slice %t into %out[%i, 0] [4, 64] [1, 1]
After, for register tiles of 2 x 32 and lanes = 32:
    %r = scf.forall (%a, %b, %l) in (2, 2, 32) shared_outs(%o = %out) -> (tensor<64x64xf32>) {
      %y = affine.apply affine_map<(d0, d1) -> (d0 + d1 * 2)>(%i, %a)
      %x = affine.apply affine_map<(d0, d1) -> (d0 * 32 + d1)>(%b, %l)
      ... a slice of %x ...
      %t = linalg.generic {exp} ins(%s) outs(%e) -> tensor<2x1xf32>
      scf.forall.in_parallel {
        tensor.parallel_insert_slice %t into %o[%y, %x] [2, 1] [1, 1]
      }
    } {mapping = [#gpu.thread<linear_dim_2>, #gpu.thread<linear_dim_1>, #gpu.thread<linear_dim_0>],
       rtask.in_flight = 16 : i64}
A point of the forall is what one thread makes of one register tile. The last dim is the lane in a
group of threads, of which a block has as many as the kernel's `lanes` go into it; the other dims
are counted in row-major order, and groups take them in turn. Sizes are known: what is left along a
dim is a forall of its own, and lanes without an element do nothing. `rtask.in_flight`: how many
elements a thread has read before it stores the first.

Lanes that share in a sum (`rtask.lanes` of the reduction: a warp) come all of them, also those
without an element of the tile, and all have the sum:

    %r = scf.forall (%i, %l) in (8, 32) shared_outs(%o = %out) -> (tensor<8x32xf32>) {
      %x = tensor.extract_slice %in[%i, 0] [1, 32] [1, 1]
      %m = linalg.generic {"parallel", "reduction"} ins(%x) ... {rtask.lanes = 32}  // the row's
      %t = linalg.generic {...} ins(column %l of %x, %m) ... -> tensor<1x1xf32>
      ... each lane puts its own element
    }
    %r = scf.forall (%i, %l) in (8, 1) ... {  // a sum for each row: one lane puts it
A sum that depends on %l is another one in each lane: the warp makes them one after the other.

The tile of a stage (rtask.stage) is made by foralls of its own, into memory that all threads share;
they meet between those who write there and those who read or write it next:

    gpu.barrier             // some may still read what the task before has kept
    %m = bufferization.alloc_tensor() {memory_space = #gpu.address_space<workgroup>}
    %f = scf.forall ... shared_outs(%o = %m) { ... }
    %k = "rtask.stage"(%f) {offset = 0, kept = ...}   // its bytes in the workspace
    gpu.barrier
    %r = scf.forall ... shared_outs(%o = %out) { ... a slice of %k ... }

`register_tile` and `order` say nothing any more behind it: `order` goes. Bodies of whole operators
are left alone. Needs: a device, for the threads of a block.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir, rewrite
from torch_mlir.dialects import tensor

from rcompiler.dialects import rtask
from rcompiler.dialects.task_body import SHARED, THREADS
from rcompiler.linalg.affine import Linear
from rcompiler.linalg.thread_groups import group_lanes
from rcompiler.passes import Pass, PassFailure
from rcompiler.passes.ir.module_device import attached
from rcompiler.passes.ir.patterns import walk
from rcompiler.passes.tiles.barriers import Barriers
from rcompiler.passes.tiles.body import (
    UNTILED,
    Values,
    erase_unused,
    insertions_in,
    is_tiled,
    ops_in,
)
from rcompiler.passes.tiles.box import Box, memory, sizes_of, type_of
from rcompiler.passes.tiles.fuse import Fuser
from rcompiler.passes.tiles.register_groups import forget_order, reduces, together
from rcompiler.passes.tiles.sources import Sources
from rcompiler.passes.tiles.thread_nest import ThreadNest
from rcompiler.passes.tiles.tile_generic import PATTERNS
from rcompiler.roller.thread_tiles import BlockThreads, group_width


@dataclass(frozen=True)
class RollerTileThreads(Pass):
    """Share the tiles of every rTask out to the threads of a block.

    Attributes:
        threads: of a block; 0: as many as an EU of the device has registers for.
    """

    threads: int = 0

    def run(self, module: ir.Operation) -> None:
        device = attached(module).device
        count, warp = self.threads or device.persistent_threads, device.compute.warp

        def tile(kernel: rtask.KernelOp, rewriter: rewrite.PatternRewriter) -> bool | None:
            op = kernel.operation
            if kernel.kind.value in UNTILED or not is_tiled(op):
                return True
            width = group_width(group_lanes(op, warp, tiled=True), warp)
            _tile_kernel(op, BlockThreads(count, width))
            return None

        walk(module, {rtask.KernelOp: tile})


def _tile_kernel(op: ir.Operation, threads: BlockThreads) -> None:
    """Foralls in the body of a kernel; another walk, as its patterns share what they know of it."""
    block, sources, barriers = op.regions[0].blocks[0], Sources(), Barriers()
    _check(op, block)

    def tile_stage(stage: rtask.StageOp, rewriter: rewrite.PatternRewriter) -> None:
        with rewriter.ip, stage.location:
            barriers.before_stage(stage.operation)
            _tile_stage(sources, stage.operation, threads)
        forget_order(stage.operation)

    groups = {group[-1].result: group for group in together(sources, insertions_in(block))}

    def tile_results(last: tensor.InsertSliceOp, rewriter: rewrite.PatternRewriter) -> bool | None:
        group = groups.get(last.result)
        if group is None:
            return True
        with rewriter.ip, last.location:
            barriers.before_results(last.operation.block)
            made = _tile_results(sources, group, op, threads)
        for old, new in zip(group, made, strict=True):
            rewriter.replace_op(old, [new])
        return None

    walk(op, {rtask.StageOp: tile_stage})
    walk(op, {tensor.InsertSliceOp: tile_results})
    erase_unused(ops_in(block))
    forget_order(op)


def _check(kernel: ir.Operation, block: ir.Block) -> None:
    """Raises PassFailure for a body that has been here."""
    if any(op.name == THREADS for op in ops_in(block)):
        raise PassFailure(kernel, "has its threads already; leave roller-tile-threads out")


def _tile_stage(sources: Sources, op: ir.Operation, threads: BlockThreads) -> None:
    """Foralls that put the tile of a stage into shared memory."""
    tile, indices = op.operands[0], sources.indices
    sizes = sizes_of(tile, indices.of)
    into = memory(sizes, type_of(tile).element_type, indices, SHARED)
    whole = Box.dense([Linear()] * len(sizes), sizes)
    sums = reduces(sources, tile)
    nest = ThreadNest(op, indices, whole, threads, sums=sums)

    def leaf(box: Box) -> Values:
        return [Fuser(sources, PATTERNS).tile(tile, box)]

    op.operands[0] = nest.share_out([into], leaf)[0]


def _tile_results(
    sources: Sources, ops: list[ir.Operation], kernel: ir.Operation, threads: BlockThreads
) -> Values:
    tiles = [op.operands[0] for op in ops]

    def leaf(box: Box) -> Values:
        fuser = Fuser(sources, PATTERNS)
        return [fuser.tile(tile, box) for tile in tiles]

    sums = any(reduces(sources, tile) for tile in tiles)
    where = sources.box_of(ops[0])
    inside = Box.dense(where.offsets, where.sizes)
    assert where.is_dense
    nest = ThreadNest(kernel, sources.indices, inside, threads, sums=sums)
    return nest.share_out([op.operands[1] for op in ops], leaf)
