"""Tiles of what an op reads at places that are no box, such as in the middle of two panels."""

from __future__ import annotations

from collections.abc import Sequence

from torch_mlir import ir
from torch_mlir.dialects import linalg, tensor

from rcompiler.passes.ir.tensor_ir import generic
from rcompiler.passes.tiles.box import type_of
from rcompiler.passes.tiles.fuse import Fuser
from rcompiler.passes.tiles.indices import applied
from rcompiler.passes.tiles.reads import Positions, Steps


def tile_gather(
    fuser: Fuser, value: ir.Value, where: ir.AffineMap, loops: Sequence[Steps], dims: Sequence[int]
) -> ir.Value:
    """A tensor of the loops `dims` of a tile, with the elements of `value` that are read there.

    An op of its own, so that the one which reads stays what it is: a contraction of two tensors.
    where: the indexing map of all loops; it depends on `dims` only.
    """
    element = type_of(value).element_type
    into = fuser.empty(tuple(loops[d].size for d in dims), element)
    positions = Positions(loops, fuser.indices)
    rank = len(dims)
    op = generic([], [into], [ir.AffineMap.get_identity(rank)], ["parallel"] * rank)
    numbers = [
        ir.AffineExpr.get_dim(dims.index(d)) if d in dims else ir.AffineExpr.get_constant(0)
        for d in range(len(loops))
    ]
    own = [e.compose(ir.AffineMap.get(rank, 0, numbers)) for e in where.results]
    with ir.InsertionPoint(op.regions[0].blocks.append(element)):
        at = [positions.of(linalg.IndexOp(n).result, d) for n, d in enumerate(dims)]
        places = [applied(ir.AffineMap.get(rank, 0, [e]), at) for e in own]
        linalg.YieldOp([tensor.extract(value, places)])
    return op.result
