"""rtask-merge-siblings: one product instead of several narrow ones of the same tensor.

Before:
    %a = linalg.generic {acc + x * w} ins(%x, %wa : tensor<1x64xf32>, tensor<64x8xf32>) -> 1x8
    %b = linalg.generic {acc + x * w} ins(%x, %wb : tensor<1x64xf32>, tensor<64x8xf32>) -> 1x8
    %c = linalg.generic {relu(a + bias)} ins(%a, %p)    %d = linalg.generic {..} ins(%b, %q)
After:
    %w = tensor.concat dim(1) %wa, %wb                  %r = tensor.concat dim(0) %p, %q
    %y = linalg.generic {acc + x * w} ins(%x, %w : tensor<1x64xf32>, tensor<64x16xf32>) -> 1x16
    %z = linalg.generic {relu(a + bias)} ins(%y, %r)
    %c = tensor.extract_slice %z[0, 0] [1, 8]           %d = tensor.extract_slice %z[0, 8] [1, 8]
The slices sink through epilogues that are the same for all siblings (_sink_slices), so that these
stay fused; fold-constants evaluates the concatenations, and the old weights are gone.

Merged: products with the same x, indexing, element types and depth, of at most two vectors of
columns each, whose weights are constants, if Roller's cost model predicts a gain of 15 % in EU
time (_products). Such a sibling is too narrow to fill the vectors or to hide the latency of its
additions: the gates of a small cell, several small heads. Wider ones take as long together as
apart: Rammer runs siblings side by side anyway (OSDI'20, section 3), so that the Q, K and V of a
transformer gain nothing, and would lose the transposes in their epilogues. Measured, thread time
apart / merged: 64 rows of 256 x 8 four times 1.9; an LSTM cell of 32 in 8 products 1.4; 1 row of
64 x 16 four times 1.1; but 1 row of 256 x 64 four times 0.9; 128 rows of 768 x 768 three times
0.98. The rule does not depend on the number of EUs, as Roller's tiles do not.

A result that ends in a concatenation, a pad, a reshape or an output stays: it is built in place
there, and a slice would be a copy. So do 1x1 convolutions, whose results end so. Every
element is the sum of the same terms as before. Also their order is the same, and results are
equal to the bit, unless weights of [columns, depth] have fewer than two vectors of columns: alone
they are summed across the lanes of a vector, in a merged panel one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir

from rcompiler.linalg.bodies import alike
from rcompiler.linalg.constants import is_constant
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.values import ops_of, shape_of
from rcompiler.passes import OptionalPass
from rcompiler.passes.ir.module_device import device_of
from rcompiler.passes.ir.operators import bodies
from rcompiler.passes.ir.tensor_ir import erase_dead, fill, generic
from rcompiler.passes.products.merging import Profit, groups
from rcompiler.passes.products.row_products import RowProduct, RowProducts
from rcompiler.passes.products.sink_slices import (
    Parts,
    concatenate,
    cut,
    identity_operand,
    read_by_loops,
    sink_slices,
)


@dataclass(frozen=True)
class RTaskMergeSiblings(OptionalPass):
    """Merge narrow products of one tensor with constant weights."""

    def run(self, module: ir.Operation) -> None:
        profit = Profit(device_of(module))
        for body in bodies(module):
            _merge_in(body, profit)


def _merge_in(block: ir.Block, profit: Profit) -> None:
    products = RowProducts()
    rows = map(products.of, ops_of(block))
    found = [p for p in rows if p is not None and _is_sibling(p, profit)]
    parts: list[Parts] = []
    for numbers in groups((n, (s.rows_of, s.form)) for n, s in enumerate(found)):
        members: list[RowProduct] = []
        for sibling in (found[n] for n in numbers):
            if any(s.weights == sibling.weights for s in members):
                continue
            if alike(found[numbers[0]].generic.block, sibling.generic.block):
                members.append(sibling)
        if profit.merging_pays([s.product for s in members]):
            parts.append(_merge(members))
    sink_slices(parts)
    if parts:
        erase_dead(block)


def _is_sibling(found: RowProduct, profit: Profit) -> bool:
    """Whether a product may be merged with others."""
    return profit.narrow(found.product) and _parts_in_loops(found.generic.op.results[0])


def _parts_in_loops(value: ir.Value) -> bool:
    """Whether a chain of ops on one element of `value` and constants ends in loops that combine it.

    A loop reads a slice of a larger tensor at no cost. If the chain ends in anything else, its
    result is built in place there, and its ops would have to leave the product for that.
    """
    while read_by_loops(value):
        users = list(dict.fromkeys(use.owner.operation for use in value.uses))
        reader = Generic(users[0])
        others = [v for v in reader.inputs if v != value]
        if (
            len(users) > 1
            or identity_operand(reader, value) is None
            or not all(is_constant(v) for v in others)
        ):
            return True
        value = users[0].results[0]
    return False


def _merge(members: list[RowProduct]) -> Parts:
    """One product at the place of the first, and slices of it for all."""
    first = members[0]
    old = first.generic
    where = ir.Location.fused([s.generic.op.location for s in members], context=old.op.context)
    with ir.InsertionPoint(old.op), where:
        operands = list(old.op.operands)[:2]  # as they are now: x may be a part of a merged product
        operands[1 - first.x] = concatenate([s.weights for s in members], first.axis, old.op)
        sizes = [s.product.columns for s in members]
        init = fill(first.start.operands[0], [*shape_of(old.op.results[0])[:-1], sum(sizes)])
        new = generic(operands, [init], old.maps, old.kinds, old.block)
        parts = cut(new.results[0], sizes)
    for sibling, part in zip(members, parts.slices, strict=True):
        sibling.generic.op.results[0].replace_all_uses_with(part)
        sibling.generic.op.erase()
    return parts
