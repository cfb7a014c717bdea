"""What the name of a symbolic dimension is made of: `past + seq` of two others."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from types import MappingProxyType

OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv)


def names_in(symbol: str) -> list[str]:
    """Of the dimensions that one is made of; of a plain one its own."""
    tree = formula(symbol)
    if tree is None:
        return [symbol]
    return [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]


def formula(symbol: str) -> ast.expr | None:
    """The sum, difference, product or quotient, rounded down, of names and numbers that the name of
    a dimension is; None for a plain one."""
    try:
        tree = ast.parse(symbol.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return tree if isinstance(tree, ast.BinOp) and all(map(_known, _leaves(tree))) else None


def multiple_of(
    symbol: str, numbers: Mapping[str, int] = MappingProxyType({})
) -> tuple[str, int, int] | None:
    """The name of another dimension, a factor above 0 and a number, where one is that many times
    the other and the number: ``("h", 32, 1)`` of ``32*h + 1``. None for a plain one, and for one
    that is made of several, or in another way.

    Args:
        symbol: the name of the dimension.
        numbers: sizes of dimensions that are known, by their names.
    """
    tree, names = formula(symbol), {*names_in(symbol)} - {*numbers}
    if tree is None or len(names) != 1 or (found := _linear(tree, numbers)) is None:
        return None
    [name], (factor, more) = names, found
    return (name, factor, more) if factor > 0 else None


def _linear(node: ast.expr, numbers: Mapping[str, int]) -> tuple[int, int] | None:
    """A factor of the one name that is no number, and a number; None where it is more than that."""
    match node:
        case ast.Name(id=name):
            return (0, numbers[name]) if name in numbers else (1, 0)
        case ast.Constant(value=int(number)):
            return 0, number
        case ast.BinOp(left=left, op=op, right=right):
            one, other = _linear(left, numbers), _linear(right, numbers)
            if one is None or other is None:
                return None
            (factor, more), (by_factor, by) = one, other
            match op:
                case ast.Add():
                    return factor + by_factor, more + by
                case ast.Sub():
                    return factor - by_factor, more - by
                case ast.Mult() if not (factor and by_factor):
                    return factor * by + more * by_factor, more * by
                case ast.FloorDiv() if by and not by_factor and not factor % by:
                    return factor // by, more // by
    return None


def _leaves(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        yield from _leaves(node.left)
        yield from _leaves(node.right)
    else:
        yield node


def _known(leaf: ast.expr) -> bool:
    return isinstance(leaf, ast.Name) or (
        isinstance(leaf, ast.Constant) and type(leaf.value) is int
    )
