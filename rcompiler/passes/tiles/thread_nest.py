"""Which thread of a block makes which part of a tile.

Threads work in groups of neighbours, as many as `lanes` of the kernel says. A group takes register
tiles one after the other, and each of its threads one column of them along the vector dim:

    tile 4 x 64, register tiles 2 x 32, groups of 32:  forall (row, column, lane) in (2, 2, 32)
    the elements of a point:  rows 2 * row, 2 * row + 1;  column 32 * column + lane

What does not fill register tiles is covered by smaller ones, each kind of them in a forall of its
own, so that sizes are known.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import scf, tensor

from rcompiler.dialects.attributes import to_attribute
from rcompiler.dialects.task_body import IN_FLIGHT
from rcompiler.linalg.affine import Linear
from rcompiler.linalg.generic import generics_of
from rcompiler.linalg.shared_sums import LANES, by_warps
from rcompiler.linalg.values import integer, integers
from rcompiler.passes.tiles.body import Values
from rcompiler.passes.tiles.box import Box
from rcompiler.passes.tiles.indices import Indices
from rcompiler.roller.thread_tiles import BlockThreads, ThreadTiles

# Makes what a thread puts into each result, from the box of the tile that it has.
Leaf = Callable[[Box], Values]


def share_sums(kernel: ir.Operation, lanes: int) -> None:
    """Say of each sum of a whole operator that the lanes of a warp share in whether they do, while
    that is to be seen: of a tile it is not.
    """
    for generic in generics_of(kernel.regions[0].blocks[0]):
        if by_warps(generic):
            generic.op.attributes[LANES] = to_attribute(lanes)


@dataclass(frozen=True)
class _Steps:
    """Equal steps along one dim: `count` of them from `start`."""

    start: Linear
    size: int
    count: Linear


class ThreadNest:
    """The foralls over one tile, which lies at `box` of its tensor."""

    def __init__(
        self, kernel: ir.Operation, indices: Indices, box: Box, threads: BlockThreads, *, sums: bool
    ) -> None:
        """kernel: it or its stage, whose attributes say how tiles are cut; sums: whether the
        tile's elements are.
        """
        self._tiles = ThreadTiles.of(
            integers(kernel, "register_tile"),
            integer(kernel, "vector_dim"),
            integer(kernel, "lanes"),
            [n.constant if n.is_constant else None for n in box.sizes],
            threads,
            sums=sums,
        )
        order = [d for d in integers(kernel, "order") if d < box.rank]
        self._order = order + [d for d in range(box.rank) if d not in order]
        self._indices, self._box = indices, box

    def share_out(self, outs: Values, leaf: Leaf) -> Values:
        """The results with all that the threads put into them."""
        for parts in itertools.product(*map(self._cover, self._order)):
            outs = self._forall(dict(zip(self._order, parts, strict=True)), outs, leaf)
        return outs

    def _cover(self, dim: int) -> Iterator[_Steps]:
        """The register tiles along one dim: those that are whole, then what is left."""
        extent = self._box.sizes[dim]
        if not extent.is_constant:
            yield _Steps(Linear(), 1, extent)
            return
        start = 0
        for size, count in self._tiles.cover(dim, extent.constant):
            yield _Steps(Linear(start), size, Linear(count))
            start += size * count

    def _forall(self, parts: dict[int, _Steps], outs: Values, leaf: Leaf) -> Values:
        """One forall, of equal steps of each dim: lanes are fastest, then the last of `parts`."""
        counted = {d: part.count for d, part in parts.items() if part.count != Linear(1)}
        vector = self._tiles.vector
        lanes = min(parts[vector].size, self._tiles.lanes) if vector >= 0 else 1
        counts = [n.constant if n.is_constant else self._indices.value(n) for n in counted.values()]
        counts.append(lanes)
        op = scf.ForallOp(
            [0] * len(counts), counts, [1] * len(counts), outs, mapping=_mapping(len(counts))
        )
        *numbers, lane = map(self._indices.read, op.induction_variables)
        position = dict(zip(counted, numbers, strict=True))
        offsets = [
            position.get(d, Linear()) * part.size + part.start for d, part in sorted(parts.items())
        ]
        sizes, strides = [parts[d].size for d in range(self._box.rank)], [1] * self._box.rank
        if vector >= 0:
            offsets[vector] = offsets[vector] + lane
            sizes[vector] = max(sizes[vector] // lanes, 1)
            strides[vector] = lanes if sizes[vector] > 1 else 1
        op.attributes[IN_FLIGHT] = to_attribute(self._tiles.in_flight(math.prod(sizes), lanes))
        own = Box(tuple(offsets), tuple(map(Linear, sizes)), tuple(strides))
        with ir.InsertionPoint(op.body):
            made = leaf(own)
            place = own.within(self._box)
            starts, dynamic = self._indices.mixed(place.offsets)
            last = scf.InParallelOp()
        with ir.InsertionPoint(last.block):
            for tile, out in zip(made, op.inner_iter_args, strict=True):
                tensor.ParallelInsertSliceOp(tile, out, dynamic, [], [], starts, sizes, strides)
        return list(op.results)


def _mapping(rank: int) -> ir.ArrayAttr:
    """Row-major numbers of threads: the last dim is the lane in a group."""
    return ir.ArrayAttr.get(
        [ir.Attribute.parse(f"#gpu.thread<linear_dim_{d}>") for d in reversed(range(rank))]
    )
