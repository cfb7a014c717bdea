"""rtask-turn-bytes: in constants that products of bytes multiply, neighbours are steps of the
reduction.

Before:
    %y = linalg.generic {maps (m, n, k): (m, k), (n floordiv 32, k, n mod 32), (m, n)}
         ins(%x, %w : tensor<128x768xi8>, tensor<24x768x32xi8>) -> 128x768xi32
After:
    %t = one copying generic of %w -> tensor<24x32x768xi8>
    %y = linalg.generic {maps (m, n, k): (m, k), (n floordiv 32, n mod 32, k), (m, n)} ins(%x, %t)

A matrix unit multiplies words of four steps of one column, and no instruction takes them out of
four rows. Turned once, when constants are folded, they are copied to shared memory as they are, 16
steps at a time; else threads would store each byte by itself. The loops of a reduction keep their
order.

Leaves alone: factors that are computed, which threads turn, constants that lie so already, and
products of one row, whose sums the lanes of a warp share.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir

from rcompiler.dialects import rtask
from rcompiler.linalg.bodies import is_multiply_add
from rcompiler.linalg.constants import is_constant
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.maps import dim_of, dims_of
from rcompiler.linalg.product import bytes_signed, is_product
from rcompiler.passes import OptionalPass
from rcompiler.passes.ir.operators import bodies, generics
from rcompiler.passes.ir.tensor_ir import affine_map, generic, transpose


@dataclass(frozen=True)
class RTaskTurnBytes(OptionalPass):
    """Store constant factors of products of bytes with the steps of the reduction innermost."""

    def run(self, module: ir.Operation) -> None:
        turned: dict[tuple[ir.Value, tuple[int, ...]], ir.Value] = {}
        for op in (op for body in bodies(module) for op in generics(body)):
            old = Generic(op)
            if is_multiply_add(old) and bytes_signed(old) is not None and is_product(old):
                _turn(old, turned)


def _turn(old: Generic, turned: dict[tuple[ir.Value, tuple[int, ...]], ir.Value]) -> None:
    """Rewrite a product whose constants do not lie so yet."""
    operands, maps = list(old.inputs), list(old.maps)
    with ir.InsertionPoint(old.op), old.op.location:
        for number, value in enumerate(old.inputs):
            order = _order(old, number) if is_constant(value) else None
            if order is None or order == tuple(range(len(order))):
                continue
            if (value, order) not in turned:
                turned[value, order] = transpose(value, order)
            operands[number] = turned[value, order]
            results = list(maps[number].results)
            maps[number] = affine_map(maps[number].n_dims, [results[i] for i in order])
        if operands == old.inputs:
            return
        new = generic(operands, old.inits, maps, old.kinds, old.block)
        if rtask.ROOT in old.op.attributes:
            new.attributes[rtask.ROOT] = old.op.attributes[rtask.ROOT]
    old.op.results[0].replace_all_uses_with(new.results[0])
    old.op.erase()


def _order(old: Generic, number: int) -> tuple[int, ...] | None:
    """The dims of an operand, those of the reduction behind the others and in the order of its
    loops; None where a dim is of both.
    """
    summed = set(old.reduction_dims)
    places, steps = [], {}
    for place, expression in enumerate(old.maps[number].results):
        if not dims_of(expression) & summed:
            places.append(place)
        elif dim_of(expression) in summed:
            steps[dim_of(expression)] = place
        else:
            return None
    return (*places, *(steps[dim] for dim in sorted(steps)))
