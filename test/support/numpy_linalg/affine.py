"""Affine expressions and maps over integers, or arrays of them."""

from collections.abc import Sequence
from typing import Any

from torch_mlir import ir


def results(map_: ir.AffineMap, dims: Sequence[Any], symbols: Sequence[Any] = ()) -> list[Any]:
    """What a map gives for values of its dims and symbols."""
    return [evaluate(each, dims, symbols) for each in map_.results]


def evaluate(expression: ir.AffineExpr, dims: Sequence[Any], symbols: Sequence[Any]) -> Any:
    """The value of an expression."""
    expression = expression.maybe_downcast()
    if isinstance(expression, ir.AffineDimExpr):
        return dims[expression.position]
    if isinstance(expression, ir.AffineSymbolExpr):
        return symbols[expression.position]
    if isinstance(expression, ir.AffineConstantExpr):
        return expression.value
    left = evaluate(expression.lhs, dims, symbols)
    right = evaluate(expression.rhs, dims, symbols)
    if isinstance(expression, ir.AffineAddExpr):
        return left + right
    if isinstance(expression, ir.AffineMulExpr):
        return left * right
    if isinstance(expression, ir.AffineFloorDivExpr):
        return left // right
    if isinstance(expression, ir.AffineCeilDivExpr):
        return -(-left // right)
    if isinstance(expression, ir.AffineModExpr):
        return left % right
    raise NotImplementedError(f"affine expression {expression}")


def plain_dims(map_: ir.AffineMap) -> list[int | None]:
    """Of each result of a map the dim that it is, None where it is another expression."""
    found = [each.maybe_downcast() for each in map_.results]
    return [e.position if isinstance(e, ir.AffineDimExpr) else None for e in found]


def uses(expression: ir.AffineExpr, dim: int) -> bool:
    """Whether a dim stands in an expression."""
    expression = expression.maybe_downcast()
    if isinstance(expression, ir.AffineDimExpr):
        return bool(expression.position == dim)
    if isinstance(expression, ir.AffineBinaryExpr):
        return uses(expression.lhs, dim) or uses(expression.rhs, dim)
    return False


def linear(expression: ir.AffineExpr, dims: int) -> tuple[int, list[int]] | None:
    """A constant and a factor for each dim; None for a quotient or a remainder of dims."""
    expression = expression.maybe_downcast()
    if isinstance(expression, ir.AffineConstantExpr):
        return expression.value, [0] * dims
    if isinstance(expression, ir.AffineDimExpr):
        return 0, [int(d == expression.position) for d in range(dims)]
    if not isinstance(expression, ir.AffineAddExpr | ir.AffineMulExpr):
        return None
    left, right = linear(expression.lhs, dims), linear(expression.rhs, dims)
    if left is None or right is None:
        return None
    if isinstance(expression, ir.AffineAddExpr):
        return left[0] + right[0], [a + b for a, b in zip(left[1], right[1], strict=True)]
    factor = right[0]  # MLIR has the constant on the right
    return left[0] * factor, [a * factor for a in left[1]]
