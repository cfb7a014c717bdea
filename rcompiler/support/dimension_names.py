"""What the name of a symbolic dimension is made of: `past + seq` of two others."""

from __future__ import annotations

import ast
from collections.abc import Iterator

OPERATORS = (ast.Add, ast.Sub, ast.Mult)


def names_in(symbol: str) -> list[str]:
    """Of the dimensions that one is made of; of a plain one its own."""
    tree = formula(symbol)
    if tree is None:
        return [symbol]
    return [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]


def formula(symbol: str) -> ast.expr | None:
    """The sum, difference or product of names and numbers that the name of a dimension is; None
    for a plain one."""
    try:
        tree = ast.parse(symbol.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return tree if isinstance(tree, ast.BinOp) and all(map(_known, _leaves(tree))) else None


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
