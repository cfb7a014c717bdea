"""Which part of each operand a task reads, writes, or may overwrite."""

from __future__ import annotations

import math

from torch_mlir import ir

from rcompiler.kernelgen.affine import Linear
from rcompiler.kernelgen.region import element_of, shape_of, yielded
from rcompiler.kernelgen.value import item_bytes
from rcompiler.passes._tensor_expr import Read, Traced, axis

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
    rank = len(shape_of(value))
    if read.at is None or not read.exact:
        return [(-1, 0, 0, 0)] * rank
    return [_dim_box(c, tile, grid, traced, low) for c in read.at]


def _dim_box(
    coordinate: Linear, tile: list[int], grid: list[int], traced: Traced, before: tuple[int, ...]
) -> tuple[int, int, int, int]:
    whole = (-1, 0, 0, 0)
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


def write_box(value: ir.Value, first: tuple[int, ...], tile: list[int], grid: list[int]) -> Box:
    """(axis, scale, offset, extent) per dim of what one task writes of a result; `first`: the first
    result's shape.
    """
    box: Box = []
    for d, size in enumerate(shape_of(value)):
        shared = d < len(first) and first[d] == size and grid[d] > 1
        box.append((d, tile[d], 0, tile[d]) if shared else (-1, 0, 0, 0))
    return box


def in_place_pairs(block: ir.Block, traced: Traced) -> tuple[int, ...]:
    """Flat (operand, result) pairs that may share memory: each element is read only to compute that
    very element.
    """
    results = yielded(block)
    pairs: list[int] = []
    if traced.has_reduction or traced.columns or len(results) != 1:
        return ()
    shape, element = shape_of(results[0]), element_of(results[0])
    for k, value in enumerate(block.arguments):
        read = traced.reads[k]
        same = shape_of(value) == shape and item_bytes(element_of(value)) == item_bytes(element)
        if same and read.exact and read.at == tuple(axis(d) for d in range(len(shape))):
            pairs += [k, 0]
    return tuple(pairs) if math.prod(shape) else ()
