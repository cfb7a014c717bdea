"""What one task of a traced body touches of every operand and result, and what may be in place."""

from __future__ import annotations

import math

from torch_mlir import ir

from rcompiler.linalg.affine import Linear
from rcompiler.linalg.element_types import item_bytes
from rcompiler.linalg.independent_loops import updated_operands
from rcompiler.linalg.values import element_of, shape_of, yielded
from rcompiler.passes.tiling.tensor_expr import Read, Traced, axis

Box = list[tuple[int, int, int, int]]


def read_box(
    value: ir.Value,
    read: Read,
    tile: list[int],
    grid: list[int],
    traced: Traced,
    low: tuple[int, ...],
) -> Box:
    """(axis, scale, offset, extent) per dim: a superset of what one task reads of an operand.

    `low`: padding of the result in front of each axis; tiles count from there.
    """
    at = read.known if read.updated else read.at
    if at is None or not read.exact:
        return [(-1, 0, 0, 0)] * len(shape_of(value))
    return [(-1, 0, 0, 0) if c is None else _dim_box(c, tile, grid, traced, low) for c in at]


def _dim_box(
    coordinate: Linear, tile: list[int], grid: list[int], traced: Traced, before: tuple[int, ...]
) -> tuple[int, int, int, int]:
    whole = (-1, 0, 0, 0)
    if len(coordinate.terms) == 1 and coordinate.terms[0][0] in traced.atoms:
        return _quotient_box(coordinate, tile, grid, traced, before)
    split: tuple[int, int] | None = None
    low, high = coordinate.constant, coordinate.constant
    for symbol, coefficient in coordinate.terms:
        if symbol in traced.atoms:
            return whole
        position = int(symbol[1:])
        steps = traced.sizes[position] - 1
        if position < len(grid) and grid[position] > 1:
            if split is not None or coefficient < 0:
                return whole
            split, steps = (position, coefficient), tile[position] - 1
            low, high = low - coefficient * before[position], high - coefficient * before[position]
        reach = coefficient * steps
        low, high = low + min(reach, 0), high + max(reach, 0)
    if split is None:
        return whole
    return split[0], split[1] * tile[split[0]], low, high - low + 1


def _quotient_box(
    coordinate: Linear, tile: list[int], grid: list[int], traced: Traced, before: tuple[int, ...]
) -> tuple[int, int, int, int]:
    """Of a multiple of one quotient, like the number of a panel: tiles of whole panels have theirs
    for themselves. A remainder takes all values in every tile but the smallest.
    """
    [(symbol, coefficient)] = coordinate.terms
    kind, inner, divisor = traced.atoms[symbol]
    along, scale, low, extent = _dim_box(inner, tile, grid, traced, before)
    if kind != "floordiv" or coefficient < 0 or along < 0 or scale % divisor:
        return -1, 0, 0, 0
    first, last = low // divisor, (low + extent - 1) // divisor
    start = first * coefficient + coordinate.constant
    return along, scale // divisor * coefficient, start, (last - first) * coefficient + 1


def write_box(value: ir.Value, first: tuple[int, ...], tile: list[int], grid: list[int]) -> Box:
    """(axis, scale, offset, extent) per dim of what one task writes of a result; `first`: the first
    result's shape.
    """
    box: Box = []
    for d, size in enumerate(shape_of(value)):
        shared = d < len(first) and first[d] == size and grid[d] > 1
        box.append((d, tile[d], 0, tile[d]) if shared else (-1, 0, 0, 0))
    return box


def stage_axes(stage: ir.Operation, traced: Traced) -> tuple[int, ...] | None:
    """For each dim of a stage the axis of the first result that it goes along with, or -1: every
    result needs all of it. None: neither, so that no tile of it can be kept.
    """
    found = []
    for dim, size in enumerate(shape_of(stage.results[0])):
        named = {_single_axis(at[dim], size, traced) for at in traced.stages.get(stage, [])}
        if len(named) > 1 or not named or None in named:
            return None
        found.append(named.pop())
    return tuple(-1 if a is None else a for a in found)


def _single_axis(coordinate: Linear, size: int, traced: Traced) -> int | None:
    """The parallel axis that a coordinate is, -1 for a whole reduction axis, None otherwise."""
    if size == 1 and coordinate == Linear():
        return -1
    if coordinate.constant or len(coordinate.terms) != 1:
        return None
    [(symbol, coefficient)] = coordinate.terms
    if coefficient != 1 or symbol in traced.atoms:
        return None
    position = int(symbol[1:])
    if traced.sizes[position] != size:
        return None
    return position if traced.kinds[position] == "parallel" else -1


def in_place_pairs(block: ir.Block, traced: Traced) -> tuple[int, ...]:
    """Flat (operand, result) pairs that may share memory: each element is read only to compute that
    very element; or that have to, where a loop updates an operand.
    """
    results = yielded(block)
    pairs: list[int] = []
    if updated := updated_operands(results, list(block.arguments)):
        return updated
    if traced.has_reduction or traced.columns or len(results) != 1:
        return ()
    shape, element = shape_of(results[0]), element_of(results[0])
    for k, value in enumerate(block.arguments):
        read = traced.reads[k]
        same = shape_of(value) == shape and item_bytes(element_of(value)) == item_bytes(element)
        if same and read.exact and read.at == tuple(axis(d) for d in range(len(shape))):
            pairs += [k, 0]
    return tuple(pairs) if math.prod(shape) else ()
