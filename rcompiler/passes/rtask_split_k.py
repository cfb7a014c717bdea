"""rtask-split-k: a product with few results and a long sum becomes partial products and their sum.

Before:
    %y = linalg.generic {acc + x * w} ins(%x, %w : tensor<1x8192xf32>, tensor<8192x64xf32>) -> 1x64
After (8 parts):
    %a = tensor.expand_shape %x -> 1x8x1024      %b = tensor.expand_shape %w -> 8x1024x64
    %p = linalg.generic {acc + x * w} ins(%a, %b), with a parallel dim more -> 8x1x64
    %y = linalg.generic {acc + p} ins(%p), over the parts -> 1x64
Both are deterministic: every part adds its terms in order, and the parts are added in order.
Roller's cost model decides (roller/split_k.py), for the device record: a program for fewer of its
EUs has the same parts, hence the same bits. Epilogues stay with the sum.

Left alone: sums in f16 and bf16, which would be rounded once per part; windows, whose dims are no
dims of the tensors.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import arith, linalg

from rcompiler.device.model import Device
from rcompiler.device.target import find_device
from rcompiler.kernelgen.region import Generic, dims_of, element_of, shape_of
from rcompiler.passes import Pass
from rcompiler.passes.ir.linalg_expr import expression_of
from rcompiler.passes.ir.linalg_form import dim_of, is_constant, is_multiply_add
from rcompiler.passes.ir.operators import bodies
from rcompiler.passes.ir.tensor_ir import affine_map, fill, generic, reshape, scalar_zero
from rcompiler.roller.expr import TensorExpr
from rcompiler.roller.split_k import parts_of

_SUMS = ("f32", "f64", "i32", "i64")


@dataclass(frozen=True)
class RTaskSplitK(Pass):
    """Cut long sums with few results into parts that run side by side."""

    device: str = "cpu"

    def run(self, module: ir.Operation) -> None:
        device = find_device(self.device)
        known: dict[tuple[TensorExpr, int], int] = {}
        whole: set[Hashable] = set()
        for body in bodies(module):
            for inner in list(body.operations):
                _visit(inner.operation, device, known, whole)


def _visit(
    op: ir.Operation,
    device: Device,
    known: dict[tuple[TensorExpr, int], int],
    whole: set[Hashable],
) -> None:
    """known: parts of products; whole: what products that have one have in common, and ops without
    a sum.
    """
    if op.name != "linalg.generic":
        return
    attributes = op.attributes
    form = attributes["indexing_maps"], attributes["iterator_types"], *(v.type for v in op.operands)
    if form in whole:
        return
    old = Generic(op)
    if not old.reduction_dims:
        whole.add(form)
        return
    dim = _outermost(old)
    if dim is None:
        return
    key = expression_of(old), dim
    if key not in known:
        known[key] = parts_of(*key, device)
    if known[key] > 1:
        _split(old, dim, known[key])
    else:
        whole.add(form)


def _outermost(old: Generic) -> int | None:
    """The outermost reduction dim of a product, if it is a dim of both factors and can be cut."""
    if not is_multiply_add(old):
        return None
    if element_of(old.inits[0]) not in _SUMS or all(map(is_constant, old.inputs)):
        return None
    dim = next((d for d in old.reduction_dims if old.sizes[d] > 1), None)
    if dim is None or any(dim_of(e) < 0 for e in old.maps[-1].results):
        return None
    for map_ in old.maps[:-1]:
        named = [dim_of(e) for e in map_.results if dim in dims_of(e)]
        if named != [dim]:
            return None
    return dim


def _split(old: Generic, dim: int, parts: int) -> None:
    """Replace `old` by `parts` partial products and their sum."""
    size = old.sizes[dim] // parts
    iterators = list(ir.ArrayAttr(old.op.attributes["iterator_types"]))
    result, element = old.op.results[0], ir.RankedTensorType(old.op.results[0].type).element_type
    with ir.InsertionPoint(old.op), old.op.location:
        operands = [
            _in_parts(value, old.maps[k], dim, parts, size) for k, value in enumerate(old.inputs)
        ]
        zeros = fill(scalar_zero(element), (parts, *shape_of(result)))
        maps = [_with_part(map_, dim) for map_ in old.maps[:-1]]
        maps.append(_shifted(old.maps[-1], [ir.AffineExpr.get_dim(0)]))
        parallel = ir.Attribute.parse("#linalg.iterator_type<parallel>")
        product = generic(operands, [zeros], maps, [parallel, *iterators])
        old.block.append_to(product.regions[0])
        total = _sum(product.results[0], old.inits[0])
    result.replace_all_uses_with(total)
    old.op.erase()


def _in_parts(value: ir.Value, map_: ir.AffineMap, dim: int, parts: int, size: int) -> ir.Value:
    """The operand with its dim that `dim` walks cut in two."""
    shape = list(shape_of(value))
    at = [dim_of(e) for e in map_.results].index(dim)
    return reshape(value, [*shape[:at], parts, size, *shape[at + 1 :]])


def _with_part(map_: ir.AffineMap, dim: int) -> ir.AffineMap:
    """The map with dim 0 for the part, in front of where `dim` stands."""
    at = [dim_of(e) for e in map_.results].index(dim)
    shifted = list(_shifted(map_, []).results)
    return affine_map(map_.n_dims + 1, [*shifted[:at], ir.AffineExpr.get_dim(0), *shifted[at:]])


def _shifted(map_: ir.AffineMap, front: list[ir.AffineExpr]) -> ir.AffineMap:
    """The map over dims that are numbered one higher, with more results in front."""
    dims = [ir.AffineExpr.get_dim(d + 1) for d in range(map_.n_dims)]
    moved = [e.compose(affine_map(map_.n_dims + 1, dims)) for e in map_.results]
    return affine_map(map_.n_dims + 1, [*front, *moved])


def _sum(parts: ir.Value, start: ir.Value) -> ir.Value:
    """`start` plus all parts, one after the other."""
    rank = len(shape_of(start))
    element = ir.RankedTensorType(start.type).element_type
    dims = [ir.AffineExpr.get_dim(d) for d in range(rank + 1)]
    maps = [affine_map(rank + 1, [dims[rank], *dims[:rank]]), affine_map(rank + 1, dims[:rank])]
    kinds = ["parallel"] * rank + ["reduction"]
    iterators = [ir.Attribute.parse(f"#linalg.iterator_type<{kind}>") for kind in kinds]
    op = generic([parts], [start], maps, iterators)
    block = op.regions[0].blocks.append(element, element)
    add = arith.AddFOp if isinstance(element, ir.FloatType) else arith.AddIOp
    with ir.InsertionPoint(block):
        linalg.YieldOp([add(block.arguments[1], block.arguments[0]).result])
    return op.results[0]
