"""roller-tile-reductions: S3 -> S3, the reduction of a kernel with `reduction_tile` runs in parts.

Before:
    %t = linalg.generic {acc + x * w} ins(%x, %w) outs(%f) -> tensor<8x32xf32>
    %r = tensor.insert_slice %t into %out[%i, %j] [8, 32] [1, 1]
After, for parts of 256 steps and register tiles of 8 x 16:
    %s = scf.for %c ... iter_args(%q = alloc_tensor) { ... the initial sums of 8 x 16 results ... }
    %u = scf.for %k = %c0 to %c1024 step %c256 iter_args(%v = %s) {
      %w = scf.for %c = %c0 to %c32 step %c16 iter_args(%q = %v) {
        %a = tensor.extract_slice %q[0, %c] [8, 16] [1, 1]
        %b = linalg.generic {acc + x * w} ins(slices of 256 steps) outs(%a) -> tensor<8x16xf32>
        scf.yield (tensor.insert_slice %b into %q[0, %c] [8, 16] [1, 1])
      }
      scf.yield %w
    }
    %r = scf.for %c ... { ... epilogue of the sums of 8 x 16 results, into %out ... }
All register tiles of the task read a part of the weights before one reads the next part: it then
comes from the first cache. Every element adds in the same order as without parts. Sums that have
other dims than the result, as below a transpose or a reshape, lie in memory that says along which
of them vectors go (`rtask.vector_dim`). Left whole: reductions below a reshape across which a
register tile is no box (2 x 48 elements of two heads of 60 columns). `reduction_tile` goes, as the
loops say it. Needs: bodies of one task (roller-tile-tasks).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch_mlir import ir, rewrite
from torch_mlir.dialects import tensor

from rcompiler.dialects import rtask
from rcompiler.dialects.attributes import to_attribute
from rcompiler.dialects.task_body import VECTOR_DIM
from rcompiler.linalg.affine import Linear
from rcompiler.linalg.roots import sums_in_parts
from rcompiler.linalg.values import integers
from rcompiler.passes import Pass, PassFailure
from rcompiler.passes.ir.patterns import walk
from rcompiler.passes.tiles.body import (
    Values,
    erase_unused,
    insertions_in,
    is_tiled,
    loop,
    ops_in,
)
from rcompiler.passes.tiles.box import Box, extract, insert, memory, type_of
from rcompiler.passes.tiles.fuse import Fuser
from rcompiler.passes.tiles.nest import Nest
from rcompiler.passes.tiles.reads import Steps
from rcompiler.passes.tiles.sources import Sources
from rcompiler.passes.tiles.tile_generic import PATTERNS, tile_generic, tile_part


@dataclass(frozen=True)
class RollerTileReductions(Pass):
    """Cut the reductions of kernels with `reduction_tile` into parts."""

    def run(self, module: ir.Operation) -> None:
        walk(module, {rtask.KernelOp: _cut})


def _cut(kernel: rtask.KernelOp, rewriter: rewrite.PatternRewriter) -> bool | None:
    """The tiles that a kernel puts into its results, each of them part after part."""
    op = kernel.operation
    if "reduction_tile" not in op.attributes:
        return True
    if not is_tiled(op):
        raise PassFailure(op, "its body is that of a whole operator; run roller-tile-tasks")
    around, steps = integers(op, "reduction_tile")
    block, sources = op.regions[0].blocks[0], Sources()
    stored = {tile.results[0] for tile in insertions_in(block)}

    def in_parts(tile: tensor.InsertSliceOp, rewriter: rewrite.PatternRewriter) -> bool | None:
        if tile.result not in stored or tile.source.owner.name == "linalg.fill":
            return True  # a piece of the result that nothing is added up for
        root = sums_in_parts(tile.source)
        if root is None:
            raise PassFailure(
                op,
                f"kernel {kernel.sym_name.value} has a reduction_tile, but its body has no product "
                "reduction whose sums are results of its own; remove the attribute",
            )
        before = ops_in(block)
        try:
            with rewriter.ip, tile.location:
                made = _Parts(sources, op, tile.operation, root, around, steps).write()
        except _NoBoxOfSums:
            for half in reversed([other for other in ops_in(block) if other not in before]):
                half.erase()
            return True
        rewriter.replace_op(tile.operation, [made])
        return None

    walk(op, {tensor.InsertSliceOp: in_parts})
    erase_unused(ops_in(block))
    del op.attributes["reduction_tile"]  # the loops say it now
    return None


class _NoBoxOfSums(Exception):
    """A register tile needs sums that are no box of them, and cannot wait as one."""


class _Parts:
    """Writes one tile of the result part after part. root: the reduction below the tile."""

    def __init__(
        self,
        sources: Sources,
        kernel: ir.Operation,
        op: ir.Operation,
        root: ir.Operation,
        around: int,
        steps: int,
    ) -> None:
        self._sources = sources
        self._indices = indices = sources.indices
        self._tile, self._into = op.operands[0], op.operands[1]
        self._where = sources.box_of(op)
        offsets, sizes, _ = self._where
        self._root = sources.of(root)
        self._nest = Nest.of(kernel, indices, offsets, sums=True)
        tiling = self._nest.tiling
        self._outer = [d for d in tiling.order[:around] if d < len(sizes)]
        self._inner = tiling.nested(len(sizes))[len(self._outer) :]
        self._steps = steps
        self._largest = integers(kernel, "tile")

    def write(self) -> ir.Value:
        """The result with the tile in it, at the insertion point."""
        sizes = self._where.sizes
        whole = Box.dense([Linear()] * len(sizes), sizes)
        return self._nest.over(self._outer, whole, [self._into], self._in_parts)[0]

    def _in_parts(self, tile: Box, outs: Values) -> Values:
        """The register tiles of the inner loops for one part of the reduction after the other."""
        indices, root, over = self._indices, self._root, self._nest.over
        # Whose sums wait between the parts. Their memory has room for the largest tile.
        kept = self._root_box(self._largest_of(tile))

        def begin(box: Box, sums: Values) -> Values:
            own = self._root_box(box)
            start = self._fuser().tile(root.inits[0], own)
            return [insert(start, sums[0], _inside(own, kept), indices)]

        def advance(part: Steps) -> Callable[[Box, Values], Values]:
            def leaf(box: Box, sums: Values) -> Values:
                own = self._root_box(box)
                place = _inside(own, kept)
                before = extract(sums[0], place, indices)
                after = tile_part(self._fuser(), root.op, own, part, before)
                return [insert(after, sums[0], place, indices)]

            return leaf

        def turn(at: Linear, sums: Values, size: int) -> Values:
            return over(self._inner, tile, sums, advance(Steps(at, Linear(size))))

        sums = over(self._inner, tile, [self._memory(kept, tile)], begin)
        size, steps = root.sizes[root.reduction_dims[0]], self._steps
        end = size // steps * steps
        if end:
            first, last = Linear(), Linear(end)
            sums = loop(indices, first, steps, last, sums, lambda at, s: turn(at, s, steps))
        if size > end:
            sums = turn(Linear(end), sums, size - end)

        def finish(box: Box, outs: Values) -> Values:
            def finished(fuser: Fuser, own: Box) -> ir.Value:
                return extract(sums[0], _inside(own, kept), indices)

            tile = self._above(finished).tile(self._tile, box)
            return [insert(tile, outs[0], box.within(self._where), indices)]

        return over(self._inner, tile, outs, finish)

    def _memory(self, kept: Box, tile: Box) -> ir.Value:
        """What the sums of a tile wait in; it says so where vectors go along a dim of its own."""
        sums = memory(kept.sizes, type_of(self._root.inits[0]).element_type, self._indices)
        vector_dim = self._vector_dim(tile)
        if vector_dim != self._nest.tiling.vector_dim:
            sums.owner.attributes[VECTOR_DIM] = to_attribute(vector_dim)
        return sums

    def _vector_dim(self, tile: Box) -> int:
        """The dim of the sums that a vector of the tile goes along, the innermost of several; the
        kernel's where a vector is one element.
        """
        dim, lanes = self._nest.tiling.vector_dim, self._nest.tiling.lanes
        sizes = [Linear(1)] * tile.rank
        if dim >= 0:
            sizes[dim] = Linear(min(lanes, tile.sizes[dim].constant))
        vector = self._root_box(Box.dense(tile.offsets, sizes))
        return max((d for d, size in enumerate(vector.sizes) if size != Linear(1)), default=dim)

    def _fuser(self) -> Fuser:
        return Fuser(self._sources, PATTERNS)

    def _largest_of(self, tile: Box) -> Box:
        """A tile with the static sizes that those of run-time size do not exceed."""
        sizes = zip(tile.sizes, self._largest, strict=True)
        return Box.dense(tile.offsets, [n if n.is_constant else Linear(most) for n, most in sizes])

    def _root_box(self, box: Box) -> Box:
        """Which results of the reduction a box of the tile needs. Raises _NoBoxOfSums."""
        found: list[Box] = []

        def noted(fuser: Fuser, own: Box) -> ir.Value:
            found.append(own)
            return fuser.empty(own.sizes, type_of(self._root.op.result).element_type)

        self._above(noted).tile(self._tile, box)
        if not found:
            raise _NoBoxOfSums
        return found[0]

    def _above(self, reduced: Callable[[Fuser, Box], ir.Value]) -> Fuser:
        """Patterns for what comes after the reduction; `reduced`: its results in a box."""
        root = self._root.op

        def tile(fuser: Fuser, op: ir.Operation, number: int, box: Box) -> ir.Value | None:
            return reduced(fuser, box) if op == root else tile_generic(fuser, op, number, box)

        patterns = PATTERNS | {"linalg.generic": tile}
        return Fuser(self._sources, patterns, always=lambda op: op.name != "tensor.pad")


def _inside(box: Box, kept: Box) -> Box:
    """A box of results as a box of the kept sums."""
    offsets = [a + b * -1 for a, b in zip(box.offsets, kept.offsets, strict=True)]
    return Box.dense(offsets, box.sizes)
