"""Sums of products of two operands, of the kind that tiles reuse."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rcompiler.linalg.affine import Coordinates
from rcompiler.linalg.constants import is_constant
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.values import defining, element_of

LEAST_STEPS = 8  # of a reduction: with fewer the barriers cost more than they save
LEAST_COLUMNS = 8  # of weights: fewer fill no vector
_SIGNED = {"arith.extsi": True, "arith.extui": False}
_EXTENSIONS = {"arith.extf", *_SIGNED}


@dataclass(frozen=True)
class Form:
    """A product, whatever its tile.

    factors: numbers of the root's operands. loops: the root's loop coordinates, each (result dim,
    distance), result dim -1: of size 1, or None for those of the reduction. used: result dims that
    each factor depends on. unit: element type of the matrix unit that multiplies ("f16", "bf16",
    "tf32", "i8"), or None: multiply-adds.
    """

    root: Generic
    factors: tuple[int, int]
    loops: tuple[tuple[int, int] | None, ...]
    used: tuple[tuple[int, ...], tuple[int, ...]]
    unit: str | None

    @property
    def steps(self) -> int:
        """Of the reduction."""
        return math.prod(self.root.sizes[d] for d in self.root.reduction_dims)

    @property
    def signed(self) -> tuple[bool, bool] | None:
        """Of factors that are bytes, whether each is a signed number; None of floats."""
        return bytes_signed(self.root)

    def batch(self, rank: int) -> set[int]:
        """Result dims that are neither rows nor columns."""
        first, second = (set(dims) for dims in self.used)
        return {d for d in range(rank) if (d in first) == (d in second)}


def is_product(root: Generic) -> bool:
    """Whether a reduction is a sum of products of two operands of the kind that tiles reuse: each
    result element needs other elements of both, and neither needs all result dims.

    That depends on the operator alone, as the order of the sum does.
    """
    long = {d for d, n in enumerate(root.sizes) if n > 1} - set(root.reduction_dims)
    steps = math.prod(root.sizes[d] for d in root.reduction_dims)
    if root.outputs != 1 or len(long) < 2 or steps < LEAST_STEPS:  # which costs least to find out
        return False
    factors = factors_of(root)
    if factors is None:
        return False
    if element_of(root.inits[0]) not in ("f16", "bf16", "f32", "f64") and not bytes_signed(root):
        return False
    first, second = (long & set(root.operand_dims[k]) for k in factors)
    return bool(first - second) and bool(second - first)


def is_weighted(root: Generic) -> bool:
    """Whether a reduction is a sum of products of weights, which are known when the model is
    compiled, and of something else that no result dim picks together with them: such a product is
    packed for the instructions of a core.
    """
    factors = factors_of(root) if root.outputs == 1 and root.reduction_dims else None
    if factors is None or math.prod(root.sizes[d] for d in root.reduction_dims) < LEAST_STEPS:
        return False
    known = [k for k in factors if is_constant(root.inputs[k])]
    if len(known) != 1:
        return False
    pair = known[0], next(k for k in factors if k != known[0])
    own, other = (set(root.operand_dims[k]) - set(root.reduction_dims) for k in pair)
    columns = math.prod(root.sizes[d] for d in own)
    return columns >= LEAST_COLUMNS and not own & other


def factors_of(root: Generic) -> tuple[int, int] | None:
    """Numbers of the operands that a sum of products multiplies, also where the body makes f32 of
    them first, or i32 of bytes.
    """
    if root.factors is not None or root.product is None:
        return root.factors
    arguments, found = list(root.block.arguments)[: len(root.inputs)], []
    for value in root.product:
        if (op := defining(value)) is not None and op.name in _EXTENSIONS:
            value = op.operands[0]
        if value not in arguments:
            return None
        found.append(arguments.index(value))
    return found[0], found[1]


def bytes_signed(root: Generic) -> tuple[bool, bool] | None:
    """Whether each factor of a sum in i32 of products of bytes is a signed number, in the order of
    `factors_of`; None of any other sum.
    """
    factors = factors_of(root)
    if factors is None or element_of(root.inits[0]) != "i32" or root.product is None:
        return None
    if any(element_of(root.inputs[number]) != "i8" for number in factors):
        return None
    first, second = (defining(value) for value in root.product)
    assert first is not None and second is not None  # no i32 is a byte
    return _SIGNED[first.name], _SIGNED[second.name]


def form_of(
    root: Generic, at: Coordinates, symbols: Sequence[str], unit: str | None
) -> Form | None:
    """at: coordinates of the root's result for the result coordinates `symbols`. None if a loop
    coordinate is no result coordinate plus a distance.
    """
    loops = _loops(root, at, symbols)
    factors = factors_of(root)
    if loops is None or factors is None:
        return None
    used = []
    for number in factors:
        found = {loops[j] for j in root.operand_dims[number]} - {None}
        used.append(tuple(sorted({d for d, _ in filter(None, found) if d >= 0})))
    return Form(root, factors, loops, (used[0], used[1]), unit)


def _loops(
    root: Generic, at: Coordinates, symbols: Sequence[str]
) -> tuple[tuple[int, int] | None, ...] | None:
    """See `Form.loops`; None if a loop coordinate is no result coordinate plus a distance."""
    found: list[tuple[int, int] | None] = []
    for j, coordinate in enumerate(root.loop_dims(at)):
        if j in root.reduction_dims:
            found.append(None)
        elif coordinate.is_constant:
            found.append((-1, coordinate.constant))
        elif len(coordinate.terms) == 1 and coordinate.terms[0][1] == 1:
            found.append((symbols.index(coordinate.terms[0][0]), coordinate.constant))
        else:
            return None
    return tuple(found)
