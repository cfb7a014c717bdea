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

from rcompiler.device.model import Device
from rcompiler.linalg.bodies import is_multiply_add
from rcompiler.linalg.constants import is_constant
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.maps import dim_of
from rcompiler.linalg.roller_expr import expression_of
from rcompiler.linalg.values import element_of
from rcompiler.passes import OptionalPass
from rcompiler.passes.ir.module_device import device_of
from rcompiler.passes.ir.operators import bodies, generics
from rcompiler.passes.ir.reduction_parts import can_cut, reduce_in_parts
from rcompiler.roller.expr import TensorExpr
from rcompiler.roller.split_k import parts_of

_SUMS = ("f32", "f64", "i32", "i64")


@dataclass(frozen=True)
class RTaskSplitK(OptionalPass):
    """Cut long sums with few results into parts that run side by side."""

    def run(self, module: ir.Operation) -> None:
        device = device_of(module)
        known: dict[tuple[TensorExpr, int], int] = {}
        whole: set[Hashable] = set()
        for op in (op for body in bodies(module) for op in generics(body)):
            _visit(op, device, known, whole)


def _visit(
    op: ir.Operation,
    device: Device,
    known: dict[tuple[TensorExpr, int], int],
    whole: set[Hashable],
) -> None:
    """known: parts of products; whole: what products that have one have in common, and ops without
    a sum.
    """
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
        reduce_in_parts(old, dim, known[key])
    else:
        whole.add(form)


def _outermost(old: Generic) -> int | None:
    """The outermost reduction dim of a product, if it is a dim of both factors and can be cut."""
    if not is_multiply_add(old):
        return None
    if element_of(old.inits[0]) not in _SUMS or all(map(is_constant, old.inputs)):
        return None
    dim = next((d for d in old.reduction_dims if old.sizes[d] > 1), None)
    if dim is None or not can_cut(old, dim):
        return None
    of_both = all(dim in map(dim_of, map_.results) for map_ in old.maps[:-1])
    return dim if of_both else None
