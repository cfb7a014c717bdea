"""Affine expressions of loop dims: which dims they name, and their values at coordinates."""

from __future__ import annotations

from collections.abc import Callable

from torch_mlir import ir

from rcompiler.errors import CompilerError
from rcompiler.linalg.affine import Linear

Expression = Callable[[list[Linear], Callable[[Linear, int], tuple[Linear, Linear]]], Linear]


def compile_expression(expression: ir.AffineExpr) -> Expression:
    """An affine expression as a function of the loop coordinates."""
    expression = expression.maybe_downcast()
    if isinstance(expression, ir.AffineDimExpr):
        position = expression.position
        return lambda dims, split: dims[position]
    if isinstance(expression, ir.AffineConstantExpr):
        value = Linear(expression.value)
        return lambda dims, split: value
    left, right = compile_expression(expression.lhs), compile_expression(expression.rhs)
    if isinstance(expression, ir.AffineAddExpr):
        return lambda dims, split: left(dims, split) + right(dims, split)
    constant = expression.rhs.maybe_downcast()
    if not isinstance(constant, ir.AffineConstantExpr):
        raise CompilerError(f"indexing expression {expression} is not affine")
    number = constant.value
    if isinstance(expression, ir.AffineMulExpr):
        return lambda dims, split: left(dims, split) * number
    if isinstance(expression, ir.AffineFloorDivExpr):
        return lambda dims, split: split(left(dims, split), number)[0]
    if isinstance(expression, ir.AffineModExpr):
        return lambda dims, split: split(left(dims, split), number)[1]
    raise CompilerError(f"indexing expression {expression} is not supported")


def dims_of(expression: ir.AffineExpr) -> set[int]:
    """All loop dims in an expression."""
    expression = expression.maybe_downcast()
    if isinstance(expression, ir.AffineDimExpr):
        return {expression.position}
    if isinstance(expression, ir.AffineBinaryExpr):
        return dims_of(expression.lhs) | dims_of(expression.rhs)
    return set()


def dim_of(expression: ir.AffineExpr) -> int:
    """The loop dim that an expression is, or -1."""
    expression = expression.maybe_downcast()
    return expression.position if isinstance(expression, ir.AffineDimExpr) else -1
