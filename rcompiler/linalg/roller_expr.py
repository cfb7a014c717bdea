"""A linalg.generic as a tensor expression of Roller."""

from __future__ import annotations

from torch_mlir import ir

from rcompiler.linalg.element_types import item_bytes
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.values import element_of, shape_of
from rcompiler.roller.expr import TensorAccess, TensorExpr, tensor_expr
from rcompiler.roller.index_expr import Index, floordiv, index, mod


def expression_of(generic: Generic, ops: float = 2.0) -> TensorExpr:
    """Axis i is loop dim i; accesses are the inputs and the results. `ops`: of one point.

    Raises ExpressionError for a map that is not affine.
    """
    reduced = set(generic.reduction_dims)
    axes = [
        (f"d{d}", size, "reduction" if d in reduced else "parallel")
        for d, size in enumerate(generic.sizes)
    ]
    accesses = [
        TensorAccess(
            shape_of(value), item_bytes(element_of(value)), tuple(map(index_of, map_.results))
        )
        for value, map_ in zip(generic.operands, generic.maps, strict=True)
    ]
    count = len(generic.inputs)
    return tensor_expr(axes, accesses[:count], accesses[count:], ops=ops)


def index_of(expression: ir.AffineExpr) -> Index:
    """An affine expression of loop dims."""
    expression = expression.maybe_downcast()
    if isinstance(expression, ir.AffineDimExpr):
        return index((1, expression.position))
    if isinstance(expression, ir.AffineConstantExpr):
        return Index((), expression.value)
    left = index_of(expression.lhs)
    if isinstance(expression, ir.AffineAddExpr):
        right = index_of(expression.rhs)
        return index(*left.terms, *right.terms, constant=left.constant + right.constant)
    number = index_of(expression.rhs).constant
    if isinstance(expression, ir.AffineMulExpr):
        terms = ((coefficient * number, atom) for coefficient, atom in left.terms)
        return index(*terms, constant=left.constant * number)
    if isinstance(expression, ir.AffineFloorDivExpr):
        return index((1, floordiv(left, number)))
    return index((1, mod(left, number)))
