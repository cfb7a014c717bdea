"""rtask-expand-products: a product whose result is split in parts that change places has a loop for
each of them.

Before:
    %p = linalg.generic {product} ins(%x, %w : tensor<128x768xf16>, tensor<768x768xf16>) ...
    %r = linalg.generic {arith.truncf} ins(%p) -> tensor<128x768xf16>
    %e = tensor.expand_shape %r [[0], [1, 2]] ... into tensor<128x12x64xf16>
    %t = linalg.generic {copy} ins(%e) -> tensor<12x128x64xf16>
After:
    %v = tensor.expand_shape %w [[0], [1, 2]] ... into tensor<768x12x64xf16>
    %p = linalg.generic {product} ins(%x, %v) -> tensor<128x12x64xf32>
    %r = linalg.generic {arith.truncf} ins(%p) -> tensor<128x12x64xf16>
    %t = linalg.generic {copy} ins(%r) -> tensor<12x128x64xf16>
A matrix unit multiplies where each loop of the product is a dim of the result
(`linalg.product.form_of`), which a sum of two of them is not: so it computes the heads of
an attention, too. Nothing moves: the factors are seen in another shape. Dims of one element that a
reshape adds in front of an epilogue are loops of the product as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from torch_mlir import ir

from rcompiler.linalg.bodies import copied_argument, is_elementwise
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.maps import dim_of
from rcompiler.linalg.product import bytes_signed, is_product
from rcompiler.linalg.values import defining, ops_of, shape_of
from rcompiler.linalg.views import groups_of
from rcompiler.passes import OptionalPass
from rcompiler.passes.ir.operators import bodies
from rcompiler.passes.ir.tensor_ir import (
    affine_map,
    erase_dead,
    fill,
    generic,
    reshape,
    split_elementwise,
)


@dataclass(frozen=True)
class RTaskExpandProducts(OptionalPass):
    """Give products a loop for each part of a result that is split and transposed.

    Attributes:
        bytes_only: products of bytes, and no others, go to matrix units.
    """

    bytes_only: bool = False

    def run(self, module: ir.Operation) -> None:
        for body in bodies(module):
            erase_dead(body)  # readers that other passes have left behind
            for op in ops_of(body):
                if op.name == "tensor.expand_shape":
                    _expand(op, self.bytes_only)
            erase_dead(body)


def _expand(view: ir.Operation, bytes_only: bool) -> None:
    """Split what a reshape splits where it is computed, if that is a product and the result of it
    is transposed, or if the reshape is all that keeps an epilogue from the product.
    """
    chain = _chain(view.operands[0])
    wide, groups = list(shape_of(view.results[0])), groups_of(view)
    only_units = all(sum(wide[d] > 1 for d in group) <= 1 for group in groups)
    if chain and bytes_only and bytes_signed(chain[-1][0]) is None:
        return
    if not chain or not (_is_turned(view.results[0]) or only_units and _goes_on(view.results[0])):
        return
    shapes = []  # of the result of each op, and the dims of that which its dims become
    for old, number in chain:
        shapes.append((wide, groups))
        if number >= 0:
            dims = [groups[dim_of(e)] for e in old.maps[number].results]
            wide = [wide[d] for group in dims for d in group]
            ends = list(accumulate(map(len, dims), initial=0))
            groups = [list(range(*pair)) for pair in pairwise(ends)]
    loops = _Loops.of(chain[-1][0], *shapes[-1])
    if loops is None:
        return
    known = {chain[-1][0].op.results[0]: loops.product()}
    for (old, _), shape in reversed(list(zip(chain[:-1], shapes[:-1], strict=True))):
        known[old.op.results[0]] = split_elementwise(old, *shape, known)
    view.results[0].replace_all_uses_with(known[view.operands[0]])


def _chain(value: ir.Value) -> list[tuple[Generic, int]]:
    """A product and what is computed of it alone, one op after the other, the last one first; each
    with the number of the operand that comes from the one before, -1 for the product. [] where it
    is something else.
    """
    found: list[tuple[Generic, int]] = []
    while (op := defining(value)) is not None and op.name == "linalg.generic":
        old = Generic(op)
        if len(list(value.uses)) != 1:
            return []
        if old.reduction_dims:
            return [*found, (old, -1)] if is_product(old) else []
        if not is_elementwise(old) or not all(m.is_projected_permutation for m in old.maps):
            return []
        full = [k for k, m in enumerate(old.maps[:-1]) if m.is_permutation]
        computed = [k for k in full if defining(old.operands[k]) is not None]
        if len(computed) != 1:
            return []
        found.append((old, computed[0]))
        value = old.operands[computed[0]]
    return []


def _is_turned(value: ir.Value) -> bool:
    """Whether all that reads a value copies it, with other dims in front."""
    readers = [use.owner.operation for use in value.uses]
    return bool(readers) and all(
        op.name == "linalg.generic"
        and copied_argument(op.regions[0].blocks[0]) == 0
        and Generic(op).maps[0] != Generic(op).maps[-1]
        for op in readers
    )


def _goes_on(value: ir.Value) -> bool:
    """Whether all that reads a value computes something of each element."""
    readers = [use.owner.operation for use in value.uses]
    return bool(readers) and all(
        op.name == "linalg.generic" and is_elementwise(Generic(op)) for op in readers
    )


@dataclass(frozen=True)
class _Loops:
    """A product whose loops are split. sizes, kinds: of the new loops; operands: of each operand
    the new loops that its dims become.
    """

    old: Generic
    wide: Sequence[int]
    sizes: list[int]
    kinds: list[ir.Attribute]
    operands: list[list[int]]

    @staticmethod
    def of(old: Generic, wide: Sequence[int], groups: Sequence[Sequence[int]]) -> _Loops | None:
        """With a loop for each dim of a result of the sizes `wide`, see `split_elementwise`; None
        where an operand is no longer indexed by loops alone.
        """
        start = defining(old.inits[0])
        if start is None or start.name != "linalg.fill":
            return None
        place = {dim_of(e): d for d, e in enumerate(old.maps[-1].results)}
        sizes, kinds, loops = list[int](), list[ir.Attribute](), list[list[int]]()
        for loop, kind in enumerate(old.kinds):
            own = [wide[d] for d in groups[place[loop]]] if loop in place else [old.sizes[loop]]
            loops.append(list(range(len(sizes), len(sizes) + len(own))))
            kinds += [kind] * len(own)
            sizes += own
        parts = [[_parts(e, loops, sizes) for e in m.results] for m in old.maps]
        if not all(all(each) for each in parts):
            return None
        return _Loops(old, wide, sizes, kinds, [sum(map(list, each), []) for each in parts])

    def product(self) -> ir.Value:
        """The product; its body moves."""
        old, start = self.old, defining(self.old.inits[0])
        assert start is not None  # `of`
        with ir.InsertionPoint(old.op), old.op.location:
            values = [
                reshape(value, [self.sizes[d] for d in dims])
                for value, dims in zip(old.inputs, self.operands, strict=False)
            ]
            maps = [
                affine_map(len(self.sizes), [ir.AffineExpr.get_dim(d) for d in dims])
                for dims in self.operands
            ]
            init = fill(start.operands[0], self.wide)
            return generic(values, [init], maps, self.kinds, old.block).results[0]


def _parts(
    expression: ir.AffineExpr, loops: Sequence[Sequence[int]], sizes: Sequence[int]
) -> list[int]:
    """The new loops that a dim of an operand becomes; of a block and a place in it one each. [] if
    it is no such one.
    """
    if (loop := dim_of(expression)) >= 0:
        return list(loops[loop])
    expression = expression.maybe_downcast()
    if not isinstance(expression, ir.AffineFloorDivExpr | ir.AffineModExpr):
        return []
    loop, by = dim_of(expression.lhs), expression.rhs.maybe_downcast()
    own = loops[loop] if loop >= 0 else ()
    if len(own) != 2 or not isinstance(by, ir.AffineConstantExpr) or by.value != sizes[own[1]]:
        return []
    return [own[isinstance(expression, ir.AffineModExpr)]]
