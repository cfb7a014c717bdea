"""Operations on scalars, and on the lanes of vectors, that rewrites for GPUs are made of."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from torch_mlir import ir
from torch_mlir.dialects import arith, llvm, vector


def is_vector(kind: ir.Type) -> bool:
    """Whether it is none of scalars."""
    return isinstance(kind, ir.VectorType)


def lane_type(kind: ir.Type) -> ir.Type:
    """Of a vector the type of its elements; else the type itself."""
    return ir.VectorType(kind).element_type if is_vector(kind) else kind


def each_lane(
    operands: Sequence[ir.Value], kind: ir.Type, scalar: Callable[[Sequence[ir.Value]], ir.Value]
) -> ir.Value:
    """A function of scalars on the lanes of vectors; on the scalars themselves."""
    if not is_vector(kind):
        return scalar(operands)
    split = [vector.ToElementsOp(value).results for value in operands]
    lanes = range(math.prod(ir.VectorType(kind).shape))
    return vector.from_elements(kind, [scalar([lane[k] for lane in split]) for k in lanes])


def in_f32(
    values: Sequence[ir.Value], function: Callable[[Sequence[ir.Value]], ir.Value]
) -> ir.Value:
    """A function of f32 on shorter types."""
    kind, f32 = values[0].type, ir.F32Type.get()
    if not isinstance(kind, ir.F16Type | ir.BF16Type):
        return function(values)
    return arith.truncf(kind, function([arith.extf(f32, value) for value in values]))


def intrinsic(
    name: str, operands: Sequence[ir.Value], kind: ir.Type, *, fast: bool = False
) -> ir.Value:
    """A call of an intrinsic of LLVM; fast: it may be an approximation."""
    flags = ir.Attribute.parse("#llvm.fastmath<afn>") if fast else None
    return llvm.call_intrinsic(kind, name, operands, [], [], fastmath_flags=flags)
