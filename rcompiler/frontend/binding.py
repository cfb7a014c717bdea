"""What a caller says of the dimensions of a model's inputs: one number, or a range of them.

    shapes={"batch": 1, "seq": range(1, 513)}            by the names of symbolic dimensions
    shapes={"tokens": (1, range(1, 513))}                by the name of an input

Within a range the size is known at run time only; the last number of the range is its bound. A
dimension that a model calls `past + seq` is made of those; one that is a quotient, as `h // 2`, is
a size of its own where the other one is known at run time only.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

from rcompiler.errors import ShapeError
from rcompiler.support.dimension_names import formula, names_in
from rcompiler.support.extent import Extent, InexactDivision, Size, Symbol, highest, lowest

_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}


def dimension(symbol: str, shapes: Mapping[str, Any]) -> Size | None:
    """The size of a symbolic dimension; None where nothing is said of it.

    Raises ShapeError for what is no size.
    """
    if symbol in shapes:
        return size_of(f"shapes['{symbol}']", symbol, shapes[symbol])
    tree = formula(symbol)
    if tree is None or not set(names_in(symbol)) <= shapes.keys():
        return None
    try:
        return _evaluated(tree, shapes)
    except ZeroDivisionError:
        raise ShapeError(f"dimension '{symbol}' divides by 0; give a size that it has") from None
    except InexactDivision:  # no polynomial: a size of its own, which its own axis tells
        low, high = _ends(tree, shapes)
        return size_of(f"dimension '{symbol}'", symbol, range(max(low, 0), max(high, 0) + 1))


def size_of(what: str, symbol: str, given: Any) -> Size:
    """A size that a caller gives. what: in messages; symbol: whose size it is.

    Raises ShapeError for what is none.
    """
    if isinstance(given, range):
        if not given or given.step != 1 or given.start < 0:
            raise ShapeError(
                f"{what} is {given}; a range of sizes has a least one that is not negative, and "
                "steps of 1, as in range(1, 513) for 1 to 512"
            )
        if len(given) == 1:
            return given.start
        return Extent.of(Symbol(symbol, given.start, given.stop - 1))
    if isinstance(given, bool):
        raise ShapeError(f"{what} is {given}; a size is an int, or a range of them")
    try:
        size = operator.index(given)
    except TypeError:
        raise ShapeError(f"{what} is {given!r}; a size is an int, or a range of them") from None
    if size < 0:
        raise ShapeError(f"{what} is {size}; dimensions are not negative")
    return size


def _ends(node: ast.expr, shapes: Mapping[str, Any]) -> tuple[int, int]:
    """The least and the greatest number that a formula may be."""
    if not isinstance(node, ast.BinOp):
        size = _evaluated(node, shapes)
        return lowest(size), highest(size)
    one, other = _ends(node.left, shapes), _ends(node.right, shapes)
    if isinstance(node.op, ast.FloorDiv) and other[0] <= 0 <= other[1]:
        raise ShapeError(
            f"dimension '{ast.unparse(node)}' may divide by 0; give it as one number, or a range "
            "without it"
        )
    found = [_OPERATORS[type(node.op)](a, b) for a in one for b in other]
    return min(found), max(found)


def _evaluated(node: ast.expr, shapes: Mapping[str, Any]) -> Any:
    match node:
        case ast.BinOp(left=left, op=op, right=right):
            return _OPERATORS[type(op)](_evaluated(left, shapes), _evaluated(right, shapes))
        case ast.Name(id=name):
            return size_of(f"shapes['{name}']", name, shapes[name])
        case ast.Constant(value=number):
            return number
    raise AssertionError(ast.dump(node))
