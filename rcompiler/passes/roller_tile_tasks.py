"""roller-tile-tasks: S3 -> S3, the body of an rKernel becomes that of one rTask.

Before:
    "rtask.kernel"() ({
    ^bb0(%x: tensor<64x96xf32>):
      %y = linalg.generic {exp} ins(%x) outs(%e) -> tensor<64x96xf32>
      "rtask.yield"(%y)
    }) {grid = array<i64: 8, 1>, tile = array<i64: 8, 96>, ...}
After:
    "rtask.kernel"() ({
    ^bb0(%x: tensor<64x96xf32>, %out: tensor<64x96xf32>, %task: index):
      %i = affine.apply affine_map<(d0) -> (d0 * 8)>(%task)
      %s = tensor.extract_slice %x[%i, 0] [8, 96] [1, 1]
      %t = linalg.generic {exp} ins(%s) outs(%e) -> tensor<8x96xf32>
      %r = tensor.insert_slice %t into %out[%i, 0] [8, 96] [1, 1]
      "rtask.yield"(%r)
    }) {...}
A last tile that is smaller is a side of an scf.if, or a slice of run-time size along an axis that
no vector and no register tile goes along. What an operator stages, a task computes first, one tile
of each stage; dims that it walks step by step (`kernelgen.stages.walked_dims`) are loops around
that. With `by-threads`, a sum that the lanes of a warp share in says so (`rtask.lanes`): that is to
be seen of the whole operator only, and needs a device. Left alone: sequential bodies, which are
loops already.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir, rewrite

from rcompiler.dialects import rtask
from rcompiler.dialects.attributes import to_attribute
from rcompiler.kernelgen.stages import Stage, computed_together, stages_of, walked_dims
from rcompiler.kernelgen.tiling import Tiling
from rcompiler.linalg.affine import Linear
from rcompiler.linalg.generic import generics_of
from rcompiler.linalg.pieces import Piece, pieces_of
from rcompiler.linalg.product import is_product
from rcompiler.linalg.values import STAGE, integers, ops_of, shape_of, yielded
from rcompiler.passes import Pass
from rcompiler.passes.ir.module_device import attached
from rcompiler.passes.ir.patterns import walk
from rcompiler.passes.tiles.body import (
    UNTILED,
    Values,
    add_arguments,
    branch,
    erase_unused,
    is_equal,
    is_tiled,
    loop,
    ops_in,
    yield_instead,
)
from rcompiler.passes.tiles.box import Box, extract, insert, type_of
from rcompiler.passes.tiles.fuse import Fuser
from rcompiler.passes.tiles.sources import Sources
from rcompiler.passes.tiles.thread_nest import share_sums
from rcompiler.passes.tiles.tile_generic import PATTERNS, tile_fill_of
from rcompiler.passes.tiles.tile_pads import is_joined_anew


@dataclass(frozen=True)
class RollerTileTasks(Pass):
    """Make the body of every rKernel that of one rTask.

    Attributes:
        by_threads: only of those that the threads of a block can share in.
    """

    by_threads: bool = False

    def run(self, module: ir.Operation) -> None:
        def tile(kernel: rtask.KernelOp, rewriter: rewrite.PatternRewriter) -> bool | None:
            """The body of one task in place of that of the whole operator."""
            op = kernel.operation
            if kernel.kind.value in UNTILED or is_tiled(op):
                return True
            if self.by_threads:
                if not _is_by_threads(op):
                    return True
                share_sums(op, attached(module).device.compute.warp)
            _TaskBody(op).write()
            return None

        walk(module, {rtask.KernelOp: tile})


def _is_by_threads(kernel: ir.Operation) -> bool:
    """Whether threads keep no operands of products in memory for others. At most the lanes of a
    warp share in a sum, and all threads in stages, of which none is written over another that it
    reads, or read at some position from within another op. Nor is anything padded or joined of
    what is computed: how much of it a thread has, only a run knows.
    """
    block = kernel.regions[0].blocks[0]
    if any(map(is_product, generics_of(block))) or any(map(is_joined_anew, ops_of(block))):
        return False
    stages = stages_of(kernel, integers(kernel, "tile"))
    if any(stage.replaces(other) for stage in stages for other in stage.sources):
        return False
    uses = ((stage.op.block, use) for stage in stages for use in stage.result.uses)
    return all(use.owner.operation.block == block for block, use in uses)


@dataclass(frozen=True)
class _Range:
    """Coordinates of the first result along one axis."""

    start: Linear
    size: Linear

    @property
    def end(self) -> Linear:
        return self.start + self.size


class _TaskBody:
    """Writes the body of one task at the end of that of the whole operator, which it replaces."""

    def __init__(self, kernel: ir.Operation) -> None:
        self._block = kernel.regions[0].blocks[0]
        self._tiling = Tiling.of(kernel)
        self._results = yielded(self._block)
        self._shape = shape_of(self._results[0])
        self._stages = stages_of(kernel, self._tiling.tile)
        self._walked = walked_dims(kernel)
        self._sources = Sources()
        self._indices = self._sources.indices

    def write(self) -> None:
        """Raises CompilerError for a body that no task can have."""
        outs, task = add_arguments(self._block, self._results)
        *whole, last = ops_in(self._block)
        with ir.InsertionPoint(last), last.location:
            found = self._partial(self._grid_position(task), [], outs)
            yield_instead(self._block, found)
        erase_unused(whole)

    def _grid_position(self, task: ir.Value) -> list[Linear]:
        """Row-major coordinates of a task in the grid."""
        grid, number = self._tiling.grid, self._indices.read(task)
        position = [Linear()] * len(grid)
        for d in reversed(range(len(grid))):
            if grid[d] == 1:
                continue
            if all(points == 1 for points in grid[:d]):
                position[d] = number
                break
            number, position[d] = self._indices.quotient(number, grid[d])
        return position

    # -- the tile along each axis
    def _partial(self, grid: list[Linear], ranges: list[_Range], outs: Values) -> Values:
        """The tile of the axes from that of the next range on, whole or last and smaller."""
        dim, tiling = len(ranges), self._tiling
        if dim == len(grid):
            return self._walk(self._walked, ranges, outs)
        size = self._shape[dim]
        tile = min(tiling.tile[dim], size)
        start = grid[dim] * tile

        def go(extent: Linear) -> Values:
            return self._partial(grid, [*ranges, _Range(start, extent)], outs)

        last = size - (tiling.grid[dim] - 1) * tile
        if last == tile:
            return go(Linear(tile))
        if not computed_together(dim, tiling, self._stages):
            end = self._indices.lowest([start + tile, Linear(size)])
            return go(end + start * -1)
        is_last = is_equal(self._indices, grid[dim], tiling.grid[dim] - 1)
        return branch(is_last, outs, lambda: go(Linear(last)), lambda: go(Linear(tile)))

    def _walk(self, dims: list[int], ranges: list[_Range], outs: Values) -> Values:
        """All stages at each step of some axes."""
        if not dims:
            return self._tiles(ranges, outs)
        dim, *rest = dims

        def step(at: Linear, outs: Values) -> Values:
            inner = [_Range(at, Linear(1)) if d == dim else r for d, r in enumerate(ranges)]
            return self._walk(rest, inner, outs)

        return loop(self._indices, ranges[dim].start, 1, ranges[dim].end, outs, step)

    # -- the tiles of stages and results
    def _tiles(self, ranges: list[_Range], outs: Values) -> Values:
        fuser = self._fuser(ranges)
        for stage in self._stages:
            # in their order, for which they have their places in the workspace
            self._keep(fuser, stage, ranges)
        found = list(outs)
        for k, result in enumerate(self._results):
            shape = shape_of(result)
            own = [
                ranges[d] if (d, n) in enumerate(self._shape) else _Range(Linear(), Linear(n))
                for d, n in enumerate(shape)
            ]
            for piece in pieces_of(result):
                found[k] = self._piece(fuser, piece, own, found[k])
        return found

    def _piece(self, fuser: Fuser, piece: Piece, ranges: list[_Range], out: ir.Value) -> ir.Value:
        """A result with what of one of its pieces lies in the tile."""
        bounds = zip(ranges, piece.low, piece.high, type_of(out).shape, strict=True)
        own = [self._clipped(r, low, high, full) for r, low, high, full in bounds]
        if any(r.size.is_constant and r.size.constant <= 0 for r in own):
            return out
        sizes = [r.size for r in own]
        if piece.value is None:
            assert piece.fill is not None
            tile = tile_fill_of(fuser, piece.fill, tuple(sizes))
        else:
            inner = [r.start + -shift for r, shift in zip(own, piece.shift, strict=True)]
            tile = fuser.tile(piece.value, Box.dense(inner, sizes))
        return insert(tile, out, Box.dense([r.start for r in own], sizes), self._indices)

    def _clipped(self, tile: _Range, low: int, high: int, full: int) -> _Range:
        if low == 0 and high == full:
            return tile
        indices = self._indices
        if tile.start.is_constant and tile.size.is_constant:
            first = max(tile.start.constant, low)
            return _Range(Linear(first), Linear(min(tile.end.constant, high) - first))
        start = indices.largest([tile.start, Linear(low)])
        end = indices.lowest([tile.end, Linear(high)])
        # a tile that lies beside the piece has nothing of it
        start = indices.lowest([start, Linear(high)])
        return _Range(start, indices.largest([end, Linear(low)]) + start * -1)

    def _fuser(self, ranges: list[_Range]) -> Fuser:
        """Patterns for one task: those of every body, and the kept tiles of its stages."""
        stages = {stage.op: stage for stage in self._stages}

        def tile_stage(fuser: Fuser, op: ir.Operation, number: int, box: Box) -> ir.Value:
            tile, kept = self._keep(fuser, stages[op], ranges)
            offsets = [o + s * -1 for o, s in zip(box.offsets, kept.offsets, strict=True)]
            if all(o == Linear() for o in offsets) and box.sizes == kept.sizes and box.is_dense:
                return tile
            return extract(tile, Box(tuple(offsets), box.sizes, box.strides), self._indices)

        # where there are stages, also a whole result is made anew, of what the task keeps of them
        patterns = PATTERNS | {STAGE: tile_stage}
        return Fuser(self._sources, patterns, always=lambda op: bool(stages))

    def _keep(self, fuser: Fuser, stage: Stage, ranges: list[_Range]) -> tuple[ir.Value, Box]:
        """The tile that a task keeps of a stage, and which box of its value that is."""
        spans = [
            ranges[axis] if axis >= 0 else _Range(Linear(), Linear(size))
            for axis, size in zip(stage.axes, shape_of(stage.result), strict=True)
        ]
        box = Box.dense([s.start for s in spans], [s.size for s in spans])
        [tile] = fuser.once(("stage", stage.op), lambda: [_staged(fuser, stage, box)])
        return tile, box


def _staged(fuser: Fuser, stage: Stage, box: Box) -> ir.Value:
    """The tile of a stage that a task keeps: in memory of its own, which has room for `kept`."""
    op = stage.op
    tile = fuser.tile(op.operands[0], box)
    attributes = {name: given for name, given in op.attributes.items() if name != "axes"}
    attributes["offset"] = to_attribute(stage.offset)
    attributes["kept"] = to_attribute(stage.tiling.tile)
    return ir.Operation.create(
        STAGE, results=[tile.type], operands=[tile], attributes=attributes, loc=op.location
    ).results[0]
