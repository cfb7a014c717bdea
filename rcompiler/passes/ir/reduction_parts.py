"""A reduction in two steps: those of its parts, side by side, and the one of what they give."""

from __future__ import annotations

from torch_mlir import ir
from torch_mlir.dialects import arith, linalg

from rcompiler.linalg.element_types import identity_of
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.maps import dim_of, dims_of
from rcompiler.linalg.values import element_of, element_type, integer, ops_of, shape_of
from rcompiler.passes.ir.tensor_ir import affine_map, fill, generic, reshape


def can_cut(old: Generic, dim: int) -> bool:
    """Whether `dim` is a dim of every input that names it, and results have loop dims alone."""
    if -1 in old.dims[-1]:
        return False
    named = [[dim_of(e) for e in m.results if dim in dims_of(e)] for m in old.maps[:-1]]
    return all(dims in ([], [dim]) for dims in named) and [dim] in named


def reduce_in_parts(old: Generic, dim: int, parts: int) -> None:
    """Replace `old`, which has a combiner, by reductions of `parts` parts of `dim`, each of which
    starts from the combiner's identity, and the reduction of what they give.
    """
    combiner = old.combiner
    assert combiner is not None
    size = old.sizes[dim] // parts
    result = old.op.results[0]
    with ir.InsertionPoint(old.op), old.op.location:
        operands = [
            _in_parts(value, old.maps[k], dim, parts, size) for k, value in enumerate(old.inputs)
        ]
        starts = fill(_identity(combiner, result), (parts, *shape_of(result)))
        maps = [_with_part(map_, dim) for map_ in old.maps[:-1]]
        maps.append(_shifted(old.maps[-1], [ir.AffineExpr.get_dim(0)]))
        partial = generic(operands, [starts], maps, ["parallel", *old.kinds], old.block)
        _shift_indices(partial.regions[0].blocks[0], dim, size)
        total = _total(partial.results[0], old.inits[0], combiner)
    result.replace_all_uses_with(total)
    old.op.erase()


def _identity(combiner: str, result: ir.Value) -> ir.Value:
    element = element_type(result)
    number = identity_of(combiner, element_of(result))
    is_float = isinstance(element, ir.FloatType)
    value = (
        ir.FloatAttr.get(element, number) if is_float else ir.IntegerAttr.get(element, int(number))
    )
    return arith.ConstantOp(element, value).result


def _in_parts(value: ir.Value, map_: ir.AffineMap, dim: int, parts: int, size: int) -> ir.Value:
    """The operand with its dim that `dim` walks, if there is one, cut in two."""
    dims = list(map(dim_of, map_.results))
    if dim not in dims:
        return value
    shape, at = list(shape_of(value)), dims.index(dim)
    return reshape(value, [*shape[:at], parts, size, *shape[at + 1 :]])


def _with_part(map_: ir.AffineMap, dim: int) -> ir.AffineMap:
    """The map with dim 0 for the part, in front of where `dim` stands."""
    dims = [dim_of(e) for e in map_.results]
    shifted = list(_shifted(map_, []).results)
    at = dims.index(dim) if dim in dims else 0
    part = [ir.AffineExpr.get_dim(0)] if dim in dims else []
    return affine_map(map_.n_dims + 1, [*shifted[:at], *part, *shifted[at:]])


def _shifted(map_: ir.AffineMap, front: list[ir.AffineExpr]) -> ir.AffineMap:
    """The map over dims that are numbered one higher, with more results in front."""
    moved = [e.shift_dims(map_.n_dims, 1) for e in map_.results]
    return affine_map(map_.n_dims + 1, [*front, *moved])


def _shift_indices(block: ir.Block, dim: int, size: int) -> None:
    """Let a body that asks for its index have the one that it had before the cut."""
    for op in [op for op in ops_of(block) if op.name == "linalg.index"]:
        asked = integer(op, "dim")
        with ir.InsertionPoint(op), op.location:
            new = linalg.IndexOp(asked + 1).result
            if asked == dim:
                step = arith.constant(ir.IndexType.get(), size)
                new = arith.addi(arith.muli(linalg.IndexOp(0).result, step), new)
        op.results[0].replace_all_uses_with(new)
        op.erase()


def _total(parts: ir.Value, start: ir.Value, combiner: str) -> ir.Value:
    """`start` combined with all parts, one after the other."""
    rank = len(shape_of(start))
    element = element_type(start)
    dims = [ir.AffineExpr.get_dim(d) for d in range(rank + 1)]
    maps = [affine_map(rank + 1, [dims[rank], *dims[:rank]]), affine_map(rank + 1, dims[:rank])]
    kinds = ["parallel"] * rank + ["reduction"]

    def combine(part: ir.Value, total: ir.Value) -> ir.Value:
        return ir.Operation.create(combiner, results=[element], operands=[total, part]).result

    return generic([parts], [start], maps, kinds, combine).results[0]
