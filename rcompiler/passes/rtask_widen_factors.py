"""rtask-widen-factors: products of halves that reuse their factors read them as f32.

Before:
    %y = linalg.generic {acc + extf(a) * extf(b)} ins(%x, %w : tensor<8x64xf16>, tensor<64x16xf16>)
After:
    %a = linalg.generic {arith.extf} ins(%x) -> tensor<8x64xf32>
    %b = linalg.generic {arith.extf} ins(%w) -> tensor<64x16xf32>
    %y = linalg.generic {acc + a * b} ins(%a, %b)
For CPUs: a core multiplies f32, and would widen each factor again wherever it is read, which takes
more than the products. So what computes activations stores them as they are multiplied, each number
rounded to 16 bits as before, and a load widens the weights: files keep them in 16 bits. The numbers
are the same, up to the order in which sums are added. Option: bf16, for cores without an
instruction for words of two bf16 (rtask-group-dots).

Leaves alone: a factor that few results share, such as the weights of a product with one row: to
read it in 16 bits is half of the memory.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import arith

from rcompiler.linalg.generic import Generic
from rcompiler.linalg.product import factors_of
from rcompiler.linalg.values import defining, element_of, element_type, shape_of
from rcompiler.linalg.views import RESHAPES
from rcompiler.passes import OptionalPass
from rcompiler.passes.ir.clone import clone
from rcompiler.passes.ir.operators import bodies, generics
from rcompiler.passes.ir.tensor_ir import elementwise, generic, reshape

_LEAST = 8  # results that share an element of a factor, for it to be worth four bytes


@dataclass(frozen=True)
class RTaskWidenFactors(OptionalPass):
    """Store factors of f16 as f32 where many results share them.

    Attributes:
        bf16: also those of bf16.
    """

    bf16: bool = False

    def run(self, module: ir.Operation) -> None:
        elements = {"f16", "bf16"} if self.bf16 else {"f16"}
        for op in (op for body in bodies(module) for op in generics(body)):
            if any(element_of(v) in elements for v in list(op.operands)[:2]):
                _widen(Generic(op), elements)


def _widen(old: Generic, elements: set[str]) -> None:
    """Rewrite a sum of products of two tensors, of which some are of `elements` and shared."""
    factors = factors_of(old) if old.reduction_dims and len(old.inputs) == 2 else None
    if factors is None or set(factors) != {0, 1} or element_of(old.inits[0]) != "f32":
        return
    wide = [k for k in factors if element_of(old.inputs[k]) in elements and _shared(old, k)]
    if not wide:
        return
    with ir.InsertionPoint(old.op), old.op.location:
        operands = list(old.inputs)
        for number in wide:
            operands[number] = _widened(old.inputs[number])
        product = generic(operands, old.inits, old.maps, old.kinds)
        _fill_body(product, old, operands)
    for before, after in zip(old.op.results, product.results, strict=True):
        before.replace_all_uses_with(after)
    old.op.erase()


def _shared(old: Generic, operand: int) -> bool:
    """Whether many results need each element of an operand."""
    own = set(old.operand_dims[operand])
    others = [n for d, n in enumerate(old.sizes) if d not in old.reduction_dims and d not in own]
    return math.prod(others) >= _LEAST or old.windowed


def _widened(value: ir.Value) -> ir.Value:
    """`value` as f32; what a reshape shows is widened where it is computed."""
    op = defining(value)
    if op is not None and op.name in RESHAPES:
        return reshape(_widened(op.operands[0]), shape_of(value))
    f32 = ir.F32Type.get()
    return elementwise([value], f32, lambda narrow: arith.extf(f32, narrow))


def _fill_body(product: ir.Operation, old: Generic, operands: list[ir.Value]) -> None:
    """The body of `old`, of factors that are wide already."""
    kinds = list(map(element_type, [*operands, *old.inits]))
    block = product.regions[0].blocks.append(*kinds, arg_locs=[old.op.location] * len(kinds))
    with ir.InsertionPoint(block), old.op.location:
        mapped = dict(zip(old.block.arguments, block.arguments, strict=True))
        for view in old.block.operations:
            op = view.operation
            extends = op.name == "arith.extf" and op.operands[0] in mapped
            if extends and mapped[op.operands[0]].type == op.result.type:
                mapped[op.result] = mapped[op.operands[0]]
            else:
                clone(op, mapped)
