"""Coordinates through slices and reshapes."""

from __future__ import annotations

from collections.abc import Sequence

from torch_mlir import ir

from rcompiler.linalg.affine import Linear, Split
from rcompiler.linalg.values import integers, shape_of

RESHAPES = ("tensor.expand_shape", "tensor.collapse_shape")
VIEWS = ("tensor.extract_slice", *RESHAPES)
MOVES = (*VIEWS, "tensor.concat", "tensor.pad")


def contiguous_offset(op: ir.Operation) -> int | None:
    """Element offset of an extract_slice that is one contiguous run of its source; None if it is
    not.
    """
    return run_offset(op, shape_of(op.operands[0]), integers(op, "static_offsets"))


def run_offset(op: ir.Operation, whole: Sequence[int], starts: Sequence[int]) -> int | None:
    """In elements, where the slice of an extract_slice or insert_slice begins in a tensor of shape
    `whole`, if it is one contiguous run of it; None if it is not. starts: its offset in each dim.
    """
    sizes, strides = (integers(op, n) for n in ("static_sizes", "static_strides"))
    offset, inner_full, weight = 0, True, 1
    for start, size, stride, extent in reversed(
        list(zip(starts, sizes, strides, whole, strict=True))
    ):
        if size > 1 and (stride != 1 or not inner_full):
            return None
        inner_full = inner_full and size == extent
        offset += start * weight
        weight *= extent
    return offset


def view_coordinates(op: ir.Operation, at: list[Linear], split: Split) -> list[Linear]:
    """Source coordinates of the element `at` of one of VIEWS; `split`: quotient and remainder."""
    if op.name == "tensor.extract_slice":
        return _sliced(op, at)
    return _collapsed(op, at, split) if op.name == "tensor.collapse_shape" else _expanded(op, at)


def _sliced(op: ir.Operation, at: list[Linear]) -> list[Linear]:
    offsets, sizes, strides = (
        integers(op, n) for n in ("static_offsets", "static_sizes", "static_strides")
    )
    kept = kept_dims(sizes, shape_of(op.result))
    where, position = [], 0
    for d, (offset, stride) in enumerate(zip(offsets, strides, strict=True)):
        where.append(at[position] * stride + offset if d in kept else Linear(offset))
        position += d in kept
    return where


def _expanded(op: ir.Operation, at: list[Linear]) -> list[Linear]:
    result = shape_of(op.result)
    where = []
    for group in groups_of(op):
        total = Linear()
        for d in group:
            total = total * result[d] + at[d]
        where.append(total)
    return where


def _collapsed(op: ir.Operation, at: list[Linear], split: Split) -> list[Linear]:
    source = shape_of(op.operands[0])
    where = [Linear()] * len(source)
    for coordinate, group in zip(at, groups_of(op), strict=True):
        for d in reversed(group):
            if source[d] == 1 and d != group[0]:
                continue
            if d == group[0] or all(source[g] == 1 for g in group if g < d):
                where[d] = coordinate
                break
            coordinate, where[d] = split(coordinate, source[d])
    return where


def kept_dims(sizes: tuple[int, ...], result: tuple[int, ...]) -> set[int]:
    """Source dims that remain in a (possibly rank-reduced) slice; a dropped one has size 1.

    MLIR drops the first unit dims that make the shapes match, so the match runs from the end.
    """
    kept, position = set(), len(result) - 1
    for d in reversed(range(len(sizes))):
        if (
            position >= 0
            and sizes[d] == result[position]
            and (sizes[d] != 1 or _fits(sizes[:d], result[:position]))
        ):
            kept.add(d)
            position -= 1
    return kept


def _fits(sizes: tuple[int, ...], result: tuple[int, ...]) -> bool:
    """Whether `result` is `sizes` with some 1s dropped."""
    position = 0
    for size in sizes:
        if position < len(result) and size == result[position]:
            position += 1
        elif size != 1:
            return False
    return position == len(result)


def groups_of(reassociated: ir.Operation) -> list[list[int]]:
    """Per dim of the narrower side of an expand_shape or collapse_shape those of the wider one."""
    lists = ir.ArrayAttr(reassociated.attributes["reassociation"])
    return [[ir.IntegerAttr(i).value for i in ir.ArrayAttr(group)] for group in lists]
