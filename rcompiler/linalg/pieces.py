"""Results that are put together: the parts that pads and concatenations are made of."""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir

from rcompiler.linalg.values import defining, integer, integers, ops_of, shape_of


@dataclass(frozen=True)
class Piece:
    """Part of a result: the box [low, high) holds `value` read at (coordinate - shift), or the
    scalar `fill`.
    """

    low: tuple[int, ...]
    high: tuple[int, ...]
    value: ir.Value | None
    shift: tuple[int, ...]
    fill: ir.Value | None = None


def pieces_of(value: ir.Value) -> list[Piece]:
    """Split a yielded value at its outer pads and concatenations: disjoint boxes that cover it."""
    shape = shape_of(value)
    op = defining(value)
    if op is not None and op.name == "tensor.pad":
        return _pad_pieces(op, shape)
    if op is not None and op.name == "tensor.concat":
        return _concat_pieces(op, shape)
    return [Piece((0,) * len(shape), shape, value, (0,) * len(shape))]


def pad_value(op: ir.Operation) -> ir.Value:
    """The scalar that a tensor.pad yields."""
    return ops_of(op.regions[0].blocks[0])[-1].operands[0]


def _pad_pieces(op: ir.Operation, shape: tuple[int, ...]) -> list[Piece]:
    source, low = op.operands[0], integers(op, "static_low")
    inner_shape = shape_of(source)
    fill, pieces = pad_value(op), []
    box_low, box_high = [0] * len(shape), list(shape)
    for d in range(len(shape)):  # peel one slab below and one above, dim after dim
        start, end = low[d], low[d] + inner_shape[d]
        for a, b in ((0, start), (end, shape[d])):
            if b > a:
                slab_low, slab_high = list(box_low), list(box_high)
                slab_low[d], slab_high[d] = a, b
                pieces.append(
                    Piece(tuple(slab_low), tuple(slab_high), None, (0,) * len(shape), fill)
                )
        box_low[d], box_high[d] = start, end
    return [*_shifted(pieces_of(source), low), *pieces]


def _concat_pieces(op: ir.Operation, shape: tuple[int, ...]) -> list[Piece]:
    axis = integer(op, "dim")
    pieces, position = [], 0
    for operand in op.operands:
        offset = tuple(position if d == axis else 0 for d in range(len(shape)))
        pieces += _shifted(pieces_of(operand), offset)
        position += shape_of(operand)[axis]
    return pieces


def _shifted(pieces: list[Piece], by: tuple[int, ...]) -> list[Piece]:
    def add(a: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(x + y for x, y in zip(a, by, strict=True))

    return [Piece(add(p.low), add(p.high), p.value, add(p.shift), p.fill) for p in pieces]


def core_of(result: ir.Value) -> tuple[ir.Value, tuple[int, ...]]:
    """(what is computed, elements padded below per dim) of a result that may end in pads."""
    low = [0] * len(shape_of(result))
    while (op := defining(result)) is not None and op.name == "tensor.pad":
        low = [a + b for a, b in zip(low, integers(op, "static_low"), strict=True)]
        result = op.operands[0]
    return result, tuple(low)
