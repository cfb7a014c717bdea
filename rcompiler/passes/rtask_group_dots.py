"""rtask-group-dots: put neighbouring reduction steps of narrow elements into one word.

Before:
    %w = arith.constant dense_resource<w_0> : tensor<48x768x16xi8>
    %y = linalg.generic {maps (m, n, k): (m, k), (n floordiv 16, k, n mod 16), (m, n)}
         ins(%x, %w : tensor<128x768xi8>, ...) -> 128x768xi32
After:
    %a = tensor.expand_shape %x ... into tensor<128x192x4xi8>
    %p = expand_shape and one copying generic of %w -> tensor<48x192x16x4xi8>
    %y = linalg.generic {maps (m, n, k, g): (m, k, g), (n floordiv 16, k, n mod 16, g), (m, n)}
         ins(%a, %p) -> 128x768xi32

Four steps of i8, or two of i16 or bf16, become the new innermost loop g (see linalg.dot_group): one
instruction, or a few that take them out of a word. They must follow each other in the activations;
the weights are constants and are repacked when constants are folded. A depth that is no multiple is
padded with zeros on both sides: nothing is read outside of a tensor, and the sums stay as they are.
For CPUs: the threads of a GPU take the steps one by one, its matrix units take bf16 and bytes as
they are.

Leaves alone: operands that are not constant, windows that are innermost, other element types.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from torch_mlir import ir

from rcompiler.device.model import DOT_STEPS
from rcompiler.dialects import rtask
from rcompiler.linalg.bodies import is_multiply_add
from rcompiler.linalg.constants import computed_once
from rcompiler.linalg.dot_group import SUMS
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.maps import dim_of, dims_of
from rcompiler.linalg.values import element_of, shape_of
from rcompiler.passes import OptionalPass
from rcompiler.passes.ir.operators import bodies, generics
from rcompiler.passes.ir.tensor_ir import affine_map, generic, split_axis, transpose


@dataclass(frozen=True)
class RTaskGroupDots(OptionalPass):
    """Group reduction steps of 8-bit, 16-bit and bf16 products for the dot products of CPUs."""

    def run(self, module: ir.Operation) -> None:
        packed: dict[tuple[ir.Value, tuple[int, ...], int], ir.Value] = {}
        for body in bodies(module):
            weights = computed_once(body)
            for op in generics(body):
                product = _product(Generic(op), weights)
                if product is not None:
                    _rewrite(product, packed)


@dataclass(frozen=True)
class _Product:
    """A product whose loop dim `depth` can be grouped: operand numbers of the factors."""

    generic: Generic
    activations: int
    weights: int
    depth: int

    @property
    def element(self) -> str:
        return element_of(self.generic.inputs[0])

    @property
    def steps(self) -> int:
        return DOT_STEPS[self.element]


def _product(old: Generic, once: Set[ir.Value]) -> _Product | None:
    """`old` as a product to group, if it is one. once: tensors that come from constants alone."""
    if element_of(old.op.operands[0]) not in SUMS:
        return None
    if not is_multiply_add(old) or not old.reduction_dims:
        return None
    element, other, sums = (element_of(v) for v in old.op.operands)
    if element != other or SUMS.get(element) != sums:
        return None
    for weights, activations in ((1, 0), (0, 1)):
        if old.inputs[weights] not in once or not old.maps[activations].results:
            continue
        depth = dim_of(old.maps[activations].results[-1])
        if depth in old.reduction_dims and _stands_alone(old, depth) and _has_columns(old, weights):
            return _Product(old, activations, weights, depth)
    return None


def _stands_alone(old: Generic, depth: int) -> bool:
    """Whether a reduction dim indexes one dim of either factor, is in no window, and is no void."""
    for value, map_ in zip(old.inputs, old.maps, strict=False):
        if sum(depth in dims_of(e) for e in map_.results) != 1 or 0 in shape_of(value):
            return False
        if depth not in [dim_of(e) for e in map_.results]:
            return False
    return True


def _has_columns(old: Generic, weights: int) -> bool:
    """Whether the weights differ for different results, so that vectors can run along them."""
    used = set().union(*(dims_of(e) for e in old.maps[weights].results))
    return bool(used - set(old.reduction_dims))


def _rewrite(
    product: _Product, packed: dict[tuple[ir.Value, tuple[int, ...], int], ir.Value]
) -> None:
    old, steps = product.generic, product.steps
    dims = old.maps[0].n_dims
    group = ir.AffineExpr.get_dim(dims)
    operands, maps = list(old.op.operands), []
    with ir.InsertionPoint(old.op), old.op.location:
        for number, map_ in enumerate(old.maps):
            results = list(map_.results)
            if number == product.activations:
                operands[number] = split_axis(operands[number], len(results) - 1, steps)
            elif number == product.weights:
                axis = [dim_of(e) for e in results].index(product.depth)
                order = _depth_outside(axis, len(results))
                key = (operands[number], order, axis)
                if key not in packed:
                    split = split_axis(operands[number], axis, steps)
                    packed[key] = transpose(split, [*_behind(order, axis), axis + 1])
                operands[number] = packed[key]
                results = [results[i] for i in order]
            maps.append(affine_map(dims + 1, results + [group] * (number < 2)))
        kinds = [*old.kinds, "reduction"]
        new = generic(operands[:2], operands[2:], maps, kinds, old.block)
        if rtask.ROOT in old.op.attributes:
            new.attributes[rtask.ROOT] = old.op.attributes[rtask.ROOT]
    old.op.results[0].replace_all_uses_with(new.results[0])
    old.op.erase()


def _depth_outside(axis: int, rank: int) -> tuple[int, ...]:
    """The dims of the weights in an order in which the groups are not innermost."""
    order = list(range(rank))
    if axis == rank - 1:
        order[-2:] = reversed(order[-2:])
    return tuple(order)


def _behind(order: tuple[int, ...], axis: int) -> list[int]:
    """`order` for a tensor that has one dim more behind `axis`."""
    return [i + (i > axis) for i in order]
