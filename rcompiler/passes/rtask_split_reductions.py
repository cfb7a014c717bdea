"""rtask-split-reductions: long reductions with few results become those of parts, and of these.

Before:
    %y = linalg.generic {max(acc, x)} ins(%x : tensor<4096x1024xf32>) -> tensor<f32>
After (8 parts):
    %c = tensor.collapse_shape %x -> 4194304         %a = tensor.expand_shape %c -> 8x524288
    %p = linalg.generic {max(acc, x)} ins(%a), with a parallel dim more -> 8
    %y = linalg.generic {max(acc, p)} ins(%p), over the parts -> tensor<f32>
As rtask-split-k does of products: Roller's cost model decides (roller/split_k.py) for the device
record, and both steps go in a fixed order, so bits do not depend on how many EUs a program has.
Reduced dims that lie beside each other in memory become one dim of what is split, along which
memory is read in order. A body that asks for the index of a dim that is cut gets the whole one.

Reduced dims that do not lie beside each other, as those of a batch norm: where vectors run along
one of them, each step of the outermost one is a part, whatever the cost model says, unless that
would keep the reduction from being fused with what computes its elements.

Left alone: products, which rtask-split-k splits; sums and products in f16 and bf16, which would be
rounded once per part; reductions of several results; windows, whose dims are no dims of the tensor;
empty tensors; dims without a divisor that leaves long parts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

from torch_mlir import ir

from rcompiler.device.model import Device
from rcompiler.linalg.bodies import is_elementwise, is_multiply_add
from rcompiler.linalg.constants import is_constant
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.maps import dim_of, dims_of
from rcompiler.linalg.roller_expr import expression_of
from rcompiler.linalg.values import defining, element_of, operations, shape_of
from rcompiler.passes import OptionalPass
from rcompiler.passes.ir.clone import copy_block
from rcompiler.passes.ir.module_device import device_of
from rcompiler.passes.ir.operators import bodies, generics
from rcompiler.passes.ir.reduction_parts import can_cut, reduce_in_parts
from rcompiler.passes.ir.tensor_ir import erase_with_views, fused_map, generic, reshape
from rcompiler.passes.tiling.body_cost import body_cost
from rcompiler.roller.expr import TensorExpr
from rcompiler.roller.split_k import parts_of

_ROUNDED = ("arith.addf", "arith.mulf")
_ROW = 16  # elements that lie beside each other, from which on they are reduced on their own first


@dataclass(frozen=True)
class RTaskSplitReductions(OptionalPass):
    """Cut long reductions with few results into parts that run side by side."""

    def run(self, module: ir.Operation) -> None:
        device = device_of(module)
        known: dict[tuple[TensorExpr, int], int] = {}
        for op in (op for body in bodies(module) for op in generics(body)):
            _visit(Generic(op), device, known)


def _visit(old: Generic, device: Device, known: dict[tuple[TensorExpr, int], int]) -> None:
    """known: parts of reductions."""
    if not old.reduction_dims or not _is_exact(old) or is_multiply_add(old):
        return
    if old.windowed or 0 in old.sizes or all(map(is_constant, old.inputs)):
        return
    whole = _joined(old)
    dim = next((d for d in whole.reduction_dims if whole.sizes[d] > 1), None)
    parts = 1
    if dim is not None and not _fuses(old) and _strides(whole, dim):
        parts = whole.sizes[dim]
    elif dim is not None and can_cut(whole, dim):
        key = expression_of(whole, body_cost(whole)), dim
        if key not in known:
            known[key] = parts_of(*key, device)
        parts = known[key]
    if dim is not None and parts > 1:
        if whole is not old:
            old.op.results[0].replace_all_uses_with(whole.op.results[0])
            old.op.erase()
        reduce_in_parts(whole, dim, parts)
    elif whole is not old:
        erase_with_views(whole.op)


def _fuses(old: Generic) -> bool:
    """Whether what it reduces is computed element by element: the two become one operator, which
    reads memory once, unless the reduction is two.
    """
    ops = [defining(value) for value in old.inputs]
    return any(op and op.name == "linalg.generic" and is_elementwise(Generic(op)) for op in ops)


def _strides(whole: Generic, dim: int) -> bool:
    """Whether vectors run along another reduced dim, far enough that the sums of each step of
    `dim` are few beside what they are of.

    One rTask would otherwise step through `dim` for every few vectors, from page to page.
    """
    lanes = whole.lane_dim
    if lanes is None or lanes == dim or whole.sizes[lanes] < _ROW:
        return False
    return can_cut(whole, dim)


def _is_exact(old: Generic) -> bool:
    """Whether parts may be combined in another order, and are rounded as often as the whole."""
    if old.combiner is None:
        return False
    return old.combiner not in _ROUNDED or element_of(old.inits[0]) in ("f32", "f64")


def _joined(old: Generic) -> Generic:
    """In front of `old` the same with reduced dims that lie beside each other as one; `old` itself
    where there are none, or where its body asks for an index.
    """
    if any(o.name in ("linalg.index", "tensor.extract") for o in operations(old.op)):
        return old
    loops = _groups(old)
    if len(loops) == len(old.sizes):
        return old
    first = {group[0] for group in loops}
    with ir.InsertionPoint(old.op), old.op.location:
        operands, maps = [], []
        for value, map_ in zip(old.operands, old.maps, strict=True):
            rank = len(map_.results)
            kept = [k for k, e in enumerate(map_.results) if dim_of(e) in first | {-1}]
            bounds = pairwise([*kept, rank])
            shape = [math.prod(shape_of(value)[a:b]) for a, b in bounds]
            operands.append(reshape(value, shape) if len(kept) < rank else value)
            maps.append(fused_map(map_, [[k] for k in kept], loops))
        count = len(old.inputs)
        kinds = [old.kinds[group[0]] for group in loops]
        made = generic(operands[:count], operands[count:], maps, kinds)
        copy_block(old.block, made.regions[0], list(old.block.arguments))
    return Generic(made)


def _groups(old: Generic) -> list[list[int]]:
    """The loops in order, with those of neighbouring reduced dims in one group."""
    reduced, groups = set(old.reduction_dims), [[0]]
    for loop in range(1, len(old.sizes)):
        both = {loop - 1, loop} <= reduced
        if both and all(_neighbouring(map_, loop) for map_ in old.maps):
            groups[-1].append(loop)
        else:
            groups.append([loop])
    return groups


def _neighbouring(map_: ir.AffineMap, loop: int) -> bool:
    """Whether a map names neither `loop` nor the loop before it, or both as neighbouring dims."""
    inside = [d for e in map_.results for d in dims_of(e) if d in (loop - 1, loop)]
    dims = [dim_of(e) for e in map_.results]
    named = [k for k, d in enumerate(dims) if d in (loop - 1, loop)]
    if not inside:
        return True
    return [dims[k] for k in named] == inside == [loop - 1, loop] and named[1] == named[0] + 1
