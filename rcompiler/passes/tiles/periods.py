"""After how many elements of a tile the quotients of positions begin anew.

    %y = linalg.generic {map (i, j) -> (i floordiv 2, j)} ins(%sums) -> tensor<8x4xf32>

Two rows of %y are one of %sums. Three rows read a box of %sums whose shape depends on where they
begin, up to multiples of two; so a loop over register tiles of three rows makes two of them a turn.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from torch_mlir import ir

from rcompiler.linalg.maps import dim_of
from rcompiler.passes.tiles.sources import Source, Sources


def periods(sources: Sources, tile: ir.Value, rank: int) -> list[int]:
    """For each dim of a tile the least number of elements after which all quotients and remainders,
    by which it reads what is computed, begin anew; 1 where there are none.
    """
    found = [1] * rank
    pending: list[tuple[ir.Value, tuple[int, ...]]] = [(tile, tuple(range(rank)))]
    seen: set[tuple[ir.Value, tuple[int, ...]]] = set()
    while pending:
        one = pending.pop()
        if one in seen or not _is_generic(one[0]):
            continue
        seen.add(one)
        value, dims = one
        source = sources.of(value.owner.operation)
        if source.reduction_dims:
            continue
        loops = _loops(source, list(value.owner.operation.results).index(value), dims)
        for operand, map_ in zip(source.inputs, source.maps, strict=False):
            if not _is_generic(operand):
                continue  # in memory, where elements need no box
            for expression in map_.results:
                for loop, period in _periods_of(expression):
                    if loops[loop] >= 0:
                        found[loops[loop]] = math.lcm(found[loops[loop]], period)
            places = (loops[d] if d >= 0 else -1 for d in map(dim_of, map_.results))
            pending.append((operand, tuple(places)))
    return found


def _is_generic(value: ir.Value) -> bool:
    return not isinstance(value.owner, ir.Block) and value.owner.operation.name == "linalg.generic"


def _loops(source: Source, number: int, dims: Sequence[int]) -> list[int]:
    """For each loop the dim of the tile that it goes along, or -1."""
    loops = [-1] * len(source.sizes)
    for loop, dim in zip(source.places[number], dims, strict=True):
        if loop >= 0:
            loops[loop] = dim
    return loops


def _periods_of(expression: ir.AffineExpr) -> Iterator[tuple[int, int]]:
    """(loop, period) of each quotient and remainder in an expression."""
    expression = expression.maybe_downcast()
    if not isinstance(expression, ir.AffineBinaryExpr):
        return
    yield from _periods_of(expression.lhs)
    yield from _periods_of(expression.rhs)
    if isinstance(expression, ir.AffineFloorDivExpr | ir.AffineModExpr):
        divisor = expression.rhs.maybe_downcast()
        if isinstance(divisor, ir.AffineConstantExpr):
            for loop, factor in _factors(expression.lhs):
                yield loop, divisor.value // math.gcd(divisor.value, factor)


def _factors(expression: ir.AffineExpr) -> Iterator[tuple[int, int]]:
    """(loop, factor) of each term of a sum; nothing of a quotient in it."""
    expression = expression.maybe_downcast()
    if isinstance(expression, ir.AffineDimExpr):
        yield expression.position, 1
    elif isinstance(expression, ir.AffineAddExpr):
        yield from _factors(expression.lhs)
        yield from _factors(expression.rhs)
    elif isinstance(expression, ir.AffineMulExpr):
        factor = expression.rhs.maybe_downcast()
        if isinstance(factor, ir.AffineConstantExpr):
            yield from ((loop, own * factor.value) for loop, own in _factors(expression.lhs))
