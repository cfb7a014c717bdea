"""Operations on scalars, and on the lanes of vectors, that rewrites for GPUs are made of."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from torch_mlir import ir


def is_vector(kind: ir.Type) -> bool:
    """Whether it is none of scalars."""
    return isinstance(kind, ir.VectorType)


def each_lane(
    operands: Sequence[ir.Value], kind: ir.Type, scalar: Callable[[Sequence[ir.Value]], ir.Value]
) -> ir.Value:
    """A function of scalars on the lanes of vectors; on the scalars themselves."""
    if not is_vector(kind):
        return scalar(operands)
    vector = ir.VectorType(kind)
    lanes = math.prod(vector.shape)
    split = [
        ir.Operation.create(
            "vector.to_elements", results=[vector.element_type] * lanes, operands=[value]
        ).results
        for value in operands
    ]
    results = [scalar([lane[k] for lane in split]) for k in range(lanes)]
    made = ir.Operation.create("vector.from_elements", results=[kind], operands=results)
    return made.results[0]


def in_f32(
    values: Sequence[ir.Value], function: Callable[[Sequence[ir.Value]], ir.Value]
) -> ir.Value:
    """A function of f32 on shorter types."""
    kind, f32 = values[0].type, ir.F32Type.get()
    if not isinstance(kind, ir.F16Type | ir.BF16Type):
        return function(values)
    wide = [cast("extf", value, f32) for value in values]
    return cast("truncf", function(wide), kind)


def intrinsic(
    name: str, operands: Sequence[ir.Value], kind: ir.Type, *, fast: bool = False
) -> ir.Value:
    """A call of an intrinsic of LLVM; fast: it may be an approximation."""
    attributes: dict[str, ir.Attribute] = {
        "intrin": ir.StringAttr.get(name),
        "op_bundle_sizes": ir.DenseI32ArrayAttr.get([]),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(operands), 0]),
    }
    if fast:
        attributes["fastmathFlags"] = ir.Attribute.parse("#llvm.fastmath<afn>")
    made = ir.Operation.create(
        "llvm.call_intrinsic", results=[kind], operands=list(operands), attributes=attributes
    )
    return made.results[0]


def constant(value: float | bool, kind: ir.Type | None = None) -> ir.Value:
    """An i1, or of a float type: f32 by default."""
    if isinstance(value, bool):
        kind = ir.IntegerType.get_signless(1)
        attribute: ir.Attribute = ir.IntegerAttr.get(kind, int(value))
    else:
        kind = kind or ir.F32Type.get()
        attribute = ir.FloatAttr.get(kind, value)
    made = ir.Operation.create("arith.constant", results=[kind], attributes={"value": attribute})
    return made.results[0]


def arith(name: str, a: ir.Value, b: ir.Value) -> ir.Value:
    """Of two values of one type."""
    return ir.Operation.create(f"arith.{name}", results=[a.type], operands=[a, b]).results[0]


def cast(name: str, value: ir.Value, kind: ir.Type) -> ir.Value:
    """To a type."""
    return ir.Operation.create(f"arith.{name}", results=[kind], operands=[value]).results[0]
