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
`order` says which loop is outside. What does not fill register tiles is covered by smaller ones:
along the vector dim by narrower vectors. The tile of a stage is made in the same way, into a tensor
of its own. Needs: bodies of one task (roller-tile-tasks).
"""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir

from rcompiler.dialects import rtask
from rcompiler.kernelgen.affine import Linear
from rcompiler.kernelgen.running_sums import reduces
from rcompiler.kernelgen.stages import STAGE
from rcompiler.passes import Pass, PassFailure
from rcompiler.passes.tiles.body import Values, erase_unused, is_result, is_tiled, tiles_in
from rcompiler.passes.tiles.box import Box, empty, insert, sizes_of, slice_parts, type_of
from rcompiler.passes.tiles.fuse import Fuser
from rcompiler.passes.tiles.indices import Indices
from rcompiler.passes.tiles.nest import RegisterTiling, over_register_tiles
from rcompiler.passes.tiles.patterns import PATTERNS


@dataclass(frozen=True)
class RollerTileRegisters(Pass):
    """Make loops over register tiles of the tiles of every rTask."""

    def run(self, module: ir.Operation) -> None:
        for op in list(module.regions[0].blocks[0].operations):
            if not isinstance(op, rtask.KernelOp) or op.kind.value in (
                "sequential",
                rtask.PREFETCH,
            ):
                continue
            if not is_tiled(op.operation):
                raise PassFailure(op, "its body is that of a whole operator; run roller-tile-tasks")
            _tile_kernel(op.operation)


def _tile_kernel(kernel: ir.Operation) -> None:
    block = kernel.regions[0].blocks[0]
    indices, tiling = Indices(), RegisterTiling.of(kernel)
    for op in tiles_in(block, "tensor.insert_slice", STAGE):
        with ir.InsertionPoint(op), op.location:
            if op.name == STAGE:
                _tile_stage(indices, op)
            elif is_result(op.operands[1]):
                _tile_result(indices, op, tiling)
    erase_unused(block)


def _tile_result(indices: Indices, op: ir.Operation, tiling: RegisterTiling) -> None:
    tile, into = op.operands[0], op.operands[1]
    offsets, sizes, _ = slice_parts(op, indices)
    where = Box.dense(offsets, sizes)

    def put(fuser: Fuser, box: Box, outs: Values) -> Values:
        return [insert(fuser.tile(tile, box), outs[0], box.within(where), indices)]

    dims = tiling.nested(where.rank)
    made = _nest(indices, tiling, dims, tile, sizes, into, put)
    op.result.replace_all_uses_with(made)
    op.erase()


def _tile_stage(indices: Indices, op: ir.Operation) -> None:
    tile = op.operands[0]
    sizes = sizes_of(tile, indices)
    into = empty(sizes, type_of(tile).element_type, indices)
    tiling = RegisterTiling.of(op)

    def put(fuser: Fuser, box: Box, outs: Values) -> Values:
        return [insert(fuser.tile(tile, box), outs[0], box, indices)]

    op.operands[0] = _nest(indices, tiling, tiling.nested(len(sizes)), tile, sizes, into, put)


def _nest(indices, tiling, dims, tile, sizes, into, put) -> ir.Value:
    def leaf(box: Box, outs: Values) -> Values:
        return put(Fuser(indices, PATTERNS), box, outs)

    whole = Box.dense([Linear()] * len(sizes), sizes)
    sums = _reduces(tile)
    return over_register_tiles(indices, tiling, dims, whole, [into], leaf, sums=sums)[0]


def _reduces(value: ir.Value) -> bool:
    """Whether an op below a tile reduces, behind the stages in front of it."""
    pending, seen = [value], set[ir.Value]()
    while pending:
        one = pending.pop()
        if one in seen or isinstance(one.owner, ir.Block):
            continue
        seen.add(one)
        op = one.owner.operation
        if op.name == STAGE:
            continue
        if reduces(op):
            return True
        pending += [v for v in op.operands if isinstance(v.type, ir.RankedTensorType)]
    return False
