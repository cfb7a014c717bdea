"""Tiles of linalg.generic, linalg.fill, tensor.empty and constants; the table of all patterns."""

from __future__ import annotations

from collections.abc import Sequence

from torch_mlir import ir
from torch_mlir.dialects import arith, linalg, tensor

from rcompiler.dialects.attributes import to_attribute
from rcompiler.linalg.affine import Linear
from rcompiler.linalg.generic import COMBINATION, LANE_DIM
from rcompiler.passes.ir.tensor_ir import generic
from rcompiler.passes.tiles.box import Box, extract, tile_type, type_of
from rcompiler.passes.tiles.fuse import Fuser, Pattern
from rcompiler.passes.tiles.indices import DYNAMIC, Indices, applied
from rcompiler.passes.tiles.reads import Positions, Read, Reader, Steps
from rcompiler.passes.tiles.sources import Source
from rcompiler.passes.tiles.tile_pads import tile_concat, tile_pad
from rcompiler.passes.tiles.tile_views import tile_collapse, tile_expand, tile_slice


def tile_generic(fuser: Fuser, op: ir.Operation, number: int, box: Box) -> ir.Value | None:
    """The same op on tiles of its operands.

    An operand that is read at places that are no box in the tile, such as in the middle of two
    panels, becomes a tile of what is read there, which tensor.extract gathers.
    """
    source = fuser.sources.of(op)
    if source.outputs == 1 and (row := _row(source, box)) is not None:
        # values that are computed together: all of them once, and a slice of that
        kept, inner = row
        return extract(fuser.tile(op.result, kept), inner, fuser.indices)
    loops = _loops(source, number, box)
    if loops is None:
        return None
    if source.outputs == 1:
        return _on_tiles(fuser, source, loops)[0]
    key = ("generic", op, tuple(loops))  # of all results at once
    return fuser.once(key, lambda: _on_tiles(fuser, source, loops))[number]


def _row(source: Source, box: Box) -> tuple[Box, Box] | None:
    """The box that has all of some dims where a box has a part, and the box in that one; None where
    there are no such dims.
    """
    columns = source.joint_dims
    if not columns:
        return None
    full = type_of(source.op.result).shape
    if all(box.sizes[d] == Linear(full[d]) for d in columns):
        return None
    own = [(o, n, s) for o, n, s in zip(box.offsets, box.sizes, box.strides, strict=True)]
    kept, inner = list(own), [(Linear(), n, 1) for _, n, _ in own]
    for d in columns:
        kept[d], inner[d] = (Linear(), Linear(full[d]), 1), own[d]
    return _box_of(kept), _box_of(inner)


def _box_of(dims: Sequence[tuple[Linear, Linear, int]]) -> Box:
    offsets, sizes, strides = zip(*dims, strict=True)
    return Box(offsets, sizes, strides)


def _loops(source: Source, number: int, box: Box) -> list[Steps] | None:
    """The loops of the tile; None where other dims of the loops than those of the result are
    parallel."""
    loops: list[Steps | None] = [None] * len(source.sizes)
    for d in source.reduction_dims:
        loops[d] = Steps(Linear(), Linear(source.sizes[d]))
    for d, loop in enumerate(source.places[number]):
        if loop >= 0:
            loops[loop] = Steps(box.offsets[d], box.sizes[d], box.strides[d])
    found = [steps for steps in loops if steps is not None]
    return found if len(found) == len(loops) else None


def tile_part(fuser: Fuser, op: ir.Operation, box: Box, part: Steps, sums: ir.Value) -> ir.Value:
    """The sums of a box of a reduction's results after some steps more of its outermost reduction
    dim.
    """
    source = fuser.sources.of(op)
    loops = _loops(source, 0, box)
    assert loops is not None
    loops[source.reduction_dims[0]] = part
    return _on_tiles(fuser, source, loops, [sums])[0]


def _on_tiles(
    fuser: Fuser, old: Source, loops: list[Steps], inits: list[ir.Value] | None = None
) -> list[ir.Value]:
    """inits: tiles that the results start from, None for those of the op's own."""
    rank = len(loops)
    operands: list[ir.Value] = []
    maps: list[ir.AffineMap] = []
    for k, value in enumerate(old.inputs):
        found = _reads(old.readers[k], loops, fuser.indices)
        if found is not None:
            operands.append(fuser.tile(value, _box(found)))
            maps.append(ir.AffineMap.get(rank, 0, [read.local for read in found]))
        else:
            dims = sorted(old.operand_dims[k])
            operands.append(tile_gather(fuser, value, old.maps[k], loops, dims))
            maps.append(ir.AffineMap.get(rank, 0, [ir.AffineExpr.get_dim(d) for d in dims]))
    for k, init in enumerate(old.inits):
        if inits is None:
            operands.append(fuser.tile(init, _stored(old, k, loops)))
        else:
            operands.append(inits[k])
        maps.append(old.maps[len(old.inputs) + k])
    return _generic(fuser, old, loops, operands, maps)


def _reads(readers: list[Reader], loops: list[Steps], indices: Indices) -> list[Read] | None:
    """How an input is read in a tile of loops, dim by dim; None if it reads no one box of it."""
    found = []
    for reader in readers:
        read = reader(loops, indices)
        if read is None:
            return None
        found.append(read)
    return found


def _box(reads: Sequence[Read]) -> Box:
    return Box.dense([r.offset for r in reads], [r.extent for r in reads])


def _stored(source: Source, number: int, loops: list[Steps]) -> Box:
    """The box of a result that a tile of loops writes."""
    expressions = source.maps[len(source.inputs) + number].results
    dims = []
    for loop, expression in zip(source.places[number], expressions, strict=True):
        if loop >= 0:
            dims.append((loops[loop].offset, loops[loop].size, loops[loop].stride))
        else:
            dims.append((Linear(expression.maybe_downcast().value), Linear(1), 1))
    return _box_of(dims) if dims else Box((), (), ())


def _generic(
    fuser: Fuser,
    old: Source,
    loops: list[Steps],
    operands: list[ir.Value],
    maps: list[ir.AffineMap],
) -> list[ir.Value]:
    """The op with another tile of each operand."""
    positions = Positions(loops, fuser.indices) if old.knows_positions else None
    new = old.op.clone()
    for k, operand in enumerate(operands):
        new.operands[k] = operand
    for result, init in zip(new.results, operands[len(old.inputs) :], strict=True):
        result.set_type(init.type)
    new.attributes["indexing_maps"] = ir.ArrayAttr.get([ir.AffineMapAttr.get(m) for m in maps])
    if old.reduction_dims:
        dim = old.lane_dim
        new.attributes[LANE_DIM] = to_attribute(-1 if dim is None else dim)
        if old.combination is not None:
            new.attributes[COMBINATION] = ir.UnitAttr.get()
    if positions is not None:
        with old.op.location:
            positions.shift(new)
    return list(new.results)


def tile_fill(fuser: Fuser, op: ir.Operation, number: int, box: Box) -> ir.Value:
    """A smaller tensor of the same scalar."""
    return tile_fill_of(fuser, op.operands[0], box.sizes)


def tile_fill_of(fuser: Fuser, scalar: ir.Value, sizes: tuple[Linear, ...]) -> ir.Value:
    """A tensor of one scalar."""
    into = fuser.empty(sizes, scalar.type)
    return fuser.once(("fill", scalar, sizes), lambda: [_filled(scalar, into)])[0]


def _filled(scalar: ir.Value, into: ir.Value) -> ir.Value:
    """linalg.fill at the insertion point; the bindings' own function builds all of a language for
    that."""
    op = ir.Operation.create(
        "linalg.fill",
        results=[into.type],
        operands=[scalar, into],
        attributes={"operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 1])},
        regions=1,
    )
    block = op.regions[0].blocks.append(scalar.type, scalar.type)
    with ir.InsertionPoint(block):
        ir.Operation.create("linalg.yield", operands=[block.arguments[0]])
    return op.result


def tile_empty(fuser: Fuser, op: ir.Operation, number: int, box: Box) -> ir.Value:
    """A smaller tensor."""
    return fuser.empty(box.sizes, type_of(op.result).element_type)


def tile_constant(fuser: Fuser, op: ir.Operation, number: int, box: Box) -> ir.Value | None:
    """Of equal elements: a smaller constant."""
    attribute = op.attributes["value"]
    if not isinstance(attribute, ir.DenseElementsAttr) or not attribute.is_splat:
        return None
    type_ = tile_type(op.result, box.shape)
    if DYNAMIC in box.shape:
        scalar = arith.ConstantOp(type_.element_type, attribute.get_splat_value()).result
        return _filled(scalar, fuser.empty(box.sizes, type_.element_type))
    value = ir.DenseElementsAttr.get_splat(type_, attribute.get_splat_value())
    return arith.ConstantOp(type_, value).result


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


PATTERNS: dict[str, Pattern] = {
    "arith.constant": tile_constant,
    "linalg.fill": tile_fill,
    "linalg.generic": tile_generic,
    "tensor.collapse_shape": tile_collapse,
    "tensor.concat": tile_concat,
    "tensor.empty": tile_empty,
    "tensor.expand_shape": tile_expand,
    "tensor.extract_slice": tile_slice,
    "tensor.pad": tile_pad,
}
