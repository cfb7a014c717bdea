"""rtask-round-factors: products and convolutions of f32 multiply f16 or bf16, and add up f32.

Before:
    %y = linalg.generic {acc + a * b} ins(%x, %w : tensor<8x64xf32>, tensor<64x16xf32>)
Options: to=f16, and weights=true for CPUs. After:
    %a = linalg.generic {arith.truncf} ins(%x) -> tensor<8x64xf16>
    %b = linalg.generic {arith.truncf} ins(%w) -> tensor<64x16xf16>
    %y = linalg.generic {acc + extf(a) * extf(b)} ins(%a, %b)
Each factor is rounded once, to nearest: the products of these are exact in f32. So what computes a
factor stores it as the matrix units read it, in half the bytes, weights are rounded when the model
is compiled, and units that copy memory as it is (TMA) can bring the factors. Sums, what is added to
them and everything else keep f32.

Rounded are the products of `linalg.product.is_product`: those that matrix units compute. With
weights=true those of constants, also with a single row: of a core, words of two bf16 are multiplied
at once where one factor is packed when the model is compiled (rtask-group-dots).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch_mlir import ir
from torch_mlir.dialects import arith

from rcompiler.linalg.generic import Generic
from rcompiler.linalg.product import factors_of, is_product, is_weighted
from rcompiler.linalg.values import element_of, element_type
from rcompiler.passes import Pass
from rcompiler.passes.ir.clone import clone
from rcompiler.passes.ir.operators import bodies, generics
from rcompiler.passes.ir.tensor_ir import generic
from rcompiler.passes.products.rounding import rounded

Shorter = Literal["f16", "bf16"]


@dataclass(frozen=True)
class RTaskRoundFactors(Pass):
    """Let products of f32 multiply factors that are rounded to a shorter type.

    Attributes:
        to: the type that is multiplied.
        weights: round products of constants, and no others.
    """

    to: Shorter = "f16"
    weights: bool = False

    def run(self, module: ir.Operation) -> None:
        element = {"f16": ir.F16Type, "bf16": ir.BF16Type}[self.to].get(module.context)
        reduces: dict[ir.Attribute, bool] = {}  # by the kinds of loops, of which there are few
        for op in (op for body in bodies(module) for op in generics(body)):
            kinds = op.attributes["iterator_types"]
            if kinds not in reduces:
                reduces[kinds] = "reduction" in str(kinds)
            if reduces[kinds]:
                _round_factors(Generic(op), element, self.weights)


def _round_factors(old: Generic, element: ir.Type, weights: bool) -> None:
    """Replace a reduction that is a product of two factors of f32; weights: as of the pass."""
    factors = factors_of(old) if (is_weighted(old) if weights else is_product(old)) else None
    if factors is None or any(element_of(old.inputs[k]) != "f32" for k in factors):
        return
    with ir.InsertionPoint(old.op), old.op.location:
        operands = list(old.inputs)
        for number in factors:
            operands[number] = rounded(old.inputs[number], element)
        product = generic(operands, old.inits, old.maps, old.kinds)
        _fill_body(product, old, operands)
    for before, after in zip(old.op.results, product.results, strict=True):
        before.replace_all_uses_with(after)
    old.op.erase()


def _fill_body(product: ir.Operation, old: Generic, operands: list[ir.Value]) -> None:
    """The body of `old`, for factors that are widened first."""
    kinds = list(map(element_type, [*operands, *old.inits]))
    block = product.regions[0].blocks.append(*kinds, arg_locs=[old.op.location] * len(kinds))
    with ir.InsertionPoint(block), old.op.location:
        mapped = {}
        for before, after in zip(old.block.arguments, block.arguments, strict=True):
            wide = after if after.type == before.type else arith.extf(before.type, after)
            mapped[before] = wide
        for view in old.block.operations:
            clone(view.operation, mapped)
