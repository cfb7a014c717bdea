"""Tiles of linalg.generic, linalg.fill, tensor.empty and constants."""

from __future__ import annotations

from collections.abc import Sequence

from torch_mlir import ir
from torch_mlir.dialects import arith, linalg

from rcompiler.dialects.attributes import to_attribute
from rcompiler.kernelgen.scratch import kept_columns
from rcompiler.linalg.affine import Linear
from rcompiler.linalg.generic import LANE_DIM, Generic
from rcompiler.linalg.maps import dims_of
from rcompiler.passes.ir.clone import clone
from rcompiler.passes.tiles.box import DYNAMIC, Box, extract, tile_type, type_of
from rcompiler.passes.tiles.fuse import Fuser
from rcompiler.passes.tiles.indices import applied
from rcompiler.passes.tiles.reads import Read, Steps, read_of


def tile_generic(fuser: Fuser, op: ir.Operation, number: int, box: Box) -> ir.Value | None:
    """The same op on tiles of its operands.

    An operand that is read at places that are no box in the tile, such as in the middle of two
    panels, becomes tensor.extract at the places of the whole operand.
    """
    generic = Generic(op)
    if len(op.results) == 1 and (row := _row(generic, box)) is not None:
        # values that are computed together: all of them once, and a slice of that
        kept, inner = row
        return extract(fuser.tile(op.result, kept), inner, fuser.indices)
    loops = _loops(generic, number, box)
    if loops is None:
        return None
    key = ("generic", op, tuple(loops))
    return fuser.once(key, lambda: _on_tiles(fuser, generic, loops))[number]


def _row(generic: Generic, box: Box) -> tuple[Box, Box] | None:
    """The box that has all of some dims where a box has a part, and the box in that one; None where
    there are no such dims.
    """
    columns = _computed_together(generic)
    full = type_of(generic.op.result).shape
    if all(box.sizes[d] == Linear(full[d]) for d in columns):
        return None
    own = [(o, n, s) for o, n, s in zip(box.offsets, box.sizes, box.strides, strict=True)]
    kept, inner = list(own), [(Linear(), n, 1) for _, n, _ in own]
    for d in columns:
        kept[d], inner[d] = (Linear(), Linear(full[d]), 1), own[d]
    return _box_of(kept), _box_of(inner)


def _computed_together(generic: Generic) -> list[int]:
    """Result dims of which all is computed together: rows of expensive values that a sum and a
    later op both need, and the rows of a small matrix times a vector, which share their work.
    """
    if not generic.reduction_dims:
        return kept_columns(generic)
    form = generic.combination
    if form is None:
        return []
    rows = dims_of(generic.maps[form.coefficients].results[form.row])
    return [d for d, loop in enumerate(generic.result_dims) if loop in rows]


def _box_of(dims: Sequence[tuple[Linear, Linear, int]]) -> Box:
    offsets, sizes, strides = zip(*dims, strict=True)
    return Box(offsets, sizes, strides)


def _loops(generic: Generic, number: int, box: Box) -> list[Steps] | None:
    """The loops of the tile; None where other dims of the loops than those of the result are
    parallel."""
    loops: list[Steps | None] = [
        Steps(Linear(), Linear(size)) if d in generic.reduction_dims else None
        for d, size in enumerate(generic.sizes)
    ]
    results = generic.maps[len(generic.inputs) + number].results
    for d, expression in enumerate(results):
        expression = expression.maybe_downcast()
        if isinstance(expression, ir.AffineDimExpr):
            place = Steps(box.offsets[d], box.sizes[d], box.strides[d])
            loops[expression.position] = place
    found = [steps for steps in loops if steps is not None]
    return found if len(found) == len(loops) else None


def tile_part(fuser: Fuser, op: ir.Operation, box: Box, part: Steps, sums: ir.Value) -> ir.Value:
    """The sums of a box of a reduction's results after some steps more of its outermost reduction
    dim.
    """
    generic = Generic(op)
    loops = _loops(generic, 0, box)
    assert loops is not None
    loops[generic.reduction_dims[0]] = part
    return _on_tiles(fuser, generic, loops, [sums])[0]


def _on_tiles(
    fuser: Fuser, old: Generic, loops: list[Steps], inits: list[ir.Value] | None = None
) -> list[ir.Value]:
    """inits: tiles that the results start from, None for those of the op's own."""
    rank = len(loops)
    operands: list[ir.Value] = []
    maps: list[ir.AffineMap] = []
    picked: list[int] = []  # inputs that are read by tensor.extract
    for k, value in enumerate(old.inputs):
        reads = [read_of(e, loops, fuser.indices) for e in old.maps[k].results]
        found = [read for read in reads if read is not None]
        if len(found) < len(reads):
            picked.append(k)
            continue
        operands.append(fuser.tile(value, _box(value, found)))
        maps.append(ir.AffineMap.get(rank, 0, [read.local for read in found]))
    for k, init in enumerate(old.inits, len(old.inputs)):
        reads = [read_of(e, loops, fuser.indices) for e in old.maps[k].results]
        # result maps are projected permutations
        box = Box(
            tuple(read.offset for read in reads if read is not None),
            tuple(_size(e, loops) for e in old.maps[k].results),
            tuple(_stride(e, loops) for e in old.maps[k].results),
        )
        number = k - len(old.inputs)
        operands.append(fuser.tile(init, box) if inits is None else inits[number])
        maps.append(ir.AffineMap.get(rank, 0, list(old.maps[k].results)))
    return _generic(fuser, old, loops, operands, maps, picked)


def _box(value: ir.Value, reads: Sequence[Read]) -> Box:
    return Box.dense([r.offset for r in reads], [r.extent for r in reads])


def _size(expression: ir.AffineExpr, loops: list[Steps]) -> Linear:
    expression = expression.maybe_downcast()
    dim = isinstance(expression, ir.AffineDimExpr)
    return loops[expression.position].size if dim else Linear(1)


def _stride(expression: ir.AffineExpr, loops: list[Steps]) -> int:
    expression = expression.maybe_downcast()
    dim = isinstance(expression, ir.AffineDimExpr)
    return loops[expression.position].stride if dim else 1


def _generic(
    fuser: Fuser,
    old: Generic,
    loops: list[Steps],
    operands: list[ir.Value],
    maps: list[ir.AffineMap],
    picked: list[int],
) -> list[ir.Value]:
    """The op on tiles; `picked`: inputs that it does not have, but picks elements of."""
    attributes = {
        name: old.op.attributes[name]
        for name in old.op.attributes.keys()  # noqa: SIM118 (iterating gives named attributes)
        if name not in ("indexing_maps", "operandSegmentSizes")
    }
    if old.reduction_dims:
        dim = old.lane_dim
        attributes[LANE_DIM] = to_attribute(-1 if dim is None else dim)
    counts = [len(operands) - old.outputs, old.outputs]
    attributes["indexing_maps"] = ir.ArrayAttr.get([ir.AffineMapAttr.get(m) for m in maps])
    attributes["operandSegmentSizes"] = ir.DenseI32ArrayAttr.get(counts)
    offsets: dict[int, ir.Value] = {}
    if picked or _names(old.op, "linalg.index"):
        moved = [d for d, s in enumerate(loops) if s.offset != Linear() or s.stride != 1]
        offsets = {d: fuser.indices.value(loops[d].offset) for d in moved}
    with old.op.location:
        new = ir.Operation.create(
            "linalg.generic",
            results=[v.type for v in operands[counts[0] :]],
            operands=operands,
            attributes=attributes,
            regions=1,
        )
        _copy_body(old, new, loops, offsets, picked)
    return list(new.results)


def _copy_body(
    old: Generic,
    new: ir.Operation,
    loops: list[Steps],
    offsets: dict[int, ir.Value],
    picked: list[int],
) -> None:
    arguments = [a for k, a in enumerate(old.block.arguments) if k not in picked]
    unknown = ir.Location.unknown(new.context)
    block = new.regions[0].blocks.append(
        *(a.type for a in arguments), arg_locs=[unknown] * len(arguments)
    )
    mapped: dict[ir.Value, ir.Value] = dict(zip(arguments, block.arguments, strict=True))
    with ir.InsertionPoint(block):
        for k in picked:
            dims = [_coordinate(d, loops, offsets) for d in range(len(loops))]
            where = [
                applied(ir.AffineMap.get(len(dims), 0, [e]), dims) for e in old.maps[k].results
            ]
            value = old.inputs[k]
            mapped[old.block.arguments[k]] = ir.Operation.create(
                "tensor.extract",
                results=[type_of(value).element_type],
                operands=[value, *where],
            ).results[0]
        made = set(_all(block))
        for view in old.block.operations:
            clone(view.operation, mapped)
    for op in _all(block):
        if op.name == "linalg.index" and op not in made:
            _shift(op, loops, offsets)


def _coordinate(d: int, loops: list[Steps], offsets: dict[int, ir.Value]) -> ir.Value:
    """The coordinate of a loop of the whole op, inside of the op on tiles."""
    number = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), d)
    index = ir.Operation.create(
        "linalg.index", results=[ir.IndexType.get()], attributes={"dim": number}
    ).results[0]
    return _shifted(index, d, loops, offsets)


def _shifted(index: ir.Value, d: int, loops: list[Steps], offsets: dict[int, ir.Value]) -> ir.Value:
    if d not in offsets:
        return index
    step, start = ir.AffineExpr.get_dim(0), ir.AffineExpr.get_dim(1)
    map_ = ir.AffineMap.get(2, 0, [step * loops[d].stride + start])
    return applied(map_, [index, offsets[d]])


def _shift(op: ir.Operation, loops: list[Steps], offsets: dict[int, ir.Value]) -> None:
    d = ir.IntegerAttr(op.attributes["dim"]).value
    if d not in offsets:
        return
    with ir.InsertionPoint.after(op), op.location:
        shifted = _shifted(op.result, d, loops, offsets)
    op.result.replace_all_uses_except(shifted, shifted.owner.operation)


def _all(block: ir.Block) -> list[ir.Operation]:
    found = []
    for view in block.operations:
        found.append(view.operation)
        for region in view.operation.regions:
            for inner in region.blocks:
                found += _all(inner)
    return found


def _names(op: ir.Operation, name: str) -> bool:
    return any(inner.name == name for b in op.regions[0].blocks for inner in _all(b))


def tile_fill(fuser: Fuser, op: ir.Operation, number: int, box: Box) -> ir.Value:
    """A smaller tensor of the same scalar."""
    return tile_fill_of(fuser, op.operands[0], box.sizes)


def tile_fill_of(fuser: Fuser, scalar: ir.Value, sizes: tuple[Linear, ...]) -> ir.Value:
    """A tensor of one scalar."""
    into = fuser.empty(sizes, scalar.type)
    return fuser.once(("fill", scalar, sizes), lambda: [linalg.fill(scalar, outs=[into])])[0]


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
        return linalg.fill(scalar, outs=[fuser.empty(box.sizes, type_.element_type)])
    value = ir.DenseElementsAttr.get_splat(type_, attribute.get_splat_value())
    return arith.ConstantOp(type_, value).result
