"""The loop dims of a generic: their range, and which of them may be cut."""

from __future__ import annotations

from torch_mlir import ir

from rcompiler.linalg.generic import Generic
from rcompiler.linalg.maps import dim_of, dims_of
from rcompiler.linalg.values import operations, shape_of


def extent_of(generic: Generic, dim: int) -> int:
    """Range of a loop dim that some operand is indexed with."""
    for value, map_ in zip(generic.op.operands, generic.maps, strict=True):
        for extent, expression in zip(shape_of(value), map_.results, strict=True):
            if dim_of(expression) == dim:
                return extent
    raise ValueError(f"loop dim {dim} indexes nothing")


def channel_dim(generic: Generic, operand: int, axis: int) -> int | None:
    """The parallel loop dim that indexes ``axis`` of an operand, if it can be split in two.

    It must stand alone wherever it occurs, at most once per operand and once in every result,
    and the body must not ask for its index.
    """
    channel = dim_of(generic.maps[operand].results[axis])
    if channel < 0 or channel in generic.reduction_dims:
        return None
    for number, map_ in enumerate(generic.maps):
        alone = [dim_of(e) for e in map_.results].count(channel)
        inside = sum(channel in dims_of(e) for e in map_.results)
        if alone != inside or alone > 1 or (number >= len(generic.inputs) and alone != 1):
            return None
    for inner in operations(generic.op):
        if inner.name != "linalg.index":
            continue
        if ir.IntegerAttr(inner.attributes["dim"]).value == channel:
            return None
    return channel


def can_cut(old: Generic, dim: int) -> bool:
    """Whether `dim` is a dim of every input that names it, and results have loop dims alone."""
    if any(dim_of(e) < 0 for e in old.maps[-1].results):
        return False
    named = [[dim_of(e) for e in m.results if dim in dims_of(e)] for m in old.maps[:-1]]
    return all(dims in ([], [dim]) for dims in named) and [dim] in named
