"""Tiles of what an op reads at places that are no box, such as in the middle of two panels."""

from __future__ import annotations

from collections.abc import Sequence

from torch_mlir import ir

from rcompiler.passes.tiles.box import type_of
from rcompiler.passes.tiles.fuse import Fuser
from rcompiler.passes.tiles.indices import applied
from rcompiler.passes.tiles.positions import Positions
from rcompiler.passes.tiles.reads import Steps


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
    op = _generic(into, rank)
    numbers = [
        ir.AffineExpr.get_dim(dims.index(d)) if d in dims else ir.AffineExpr.get_constant(0)
        for d in range(len(loops))
    ]
    own = [e.compose(ir.AffineMap.get(rank, 0, numbers)) for e in where.results]
    with ir.InsertionPoint(op.regions[0].blocks.append(element)):
        at = [positions.of(_index(n), d) for n, d in enumerate(dims)]
        places = [applied(ir.AffineMap.get(rank, 0, [e]), at) for e in own]
        read = ir.Operation.create("tensor.extract", results=[element], operands=[value, *places])
        ir.Operation.create("linalg.yield", operands=[read.result])
    return op.result


def _generic(into: ir.Value, rank: int) -> ir.Operation:
    """A generic of parallel loops without operands, and without a body yet."""
    identity = ir.AffineMapAttr.get(ir.AffineMap.get_identity(rank))
    parallel = ir.Attribute.parse("#linalg.iterator_type<parallel>")
    return ir.Operation.create(
        "linalg.generic",
        results=[into.type],
        operands=[into],
        attributes={
            "indexing_maps": ir.ArrayAttr.get([identity]),
            "iterator_types": ir.ArrayAttr.get([parallel] * rank),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([0, 1]),
        },
        regions=1,
    )


def _index(dim: int) -> ir.Value:
    number = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), dim)
    return ir.Operation.create(
        "linalg.index", results=[ir.IndexType.get()], attributes={"dim": number}
    ).result
