"""The loop dims of a generic: which of them may be cut."""

from __future__ import annotations

from rcompiler.linalg.generic import Generic
from rcompiler.linalg.maps import dim_of, dims_of
from rcompiler.linalg.values import integer, operations


def channel_dim(generic: Generic, operand: int, axis: int) -> int | None:
    """The parallel loop dim that indexes ``axis`` of an operand, if it can be split in two.

    It must stand alone wherever it occurs, at most once per operand and once in every result,
    and the body must not ask for its index.
    """
    channel = generic.dims[operand][axis]
    if channel < 0 or channel in generic.reduction_dims:
        return None
    for number, map_ in enumerate(generic.maps):
        alone = generic.dims[number].count(channel)
        inside = sum(channel in dims_of(e) for e in map_.results)
        if alone != inside or alone > 1 or (number >= len(generic.inputs) and alone != 1):
            return None
    indices = (op for op in operations(generic.op) if op.name == "linalg.index")
    return None if any(integer(op, "dim") == channel for op in indices) else channel


def can_cut(old: Generic, dim: int) -> bool:
    """Whether `dim` is a dim of every input that names it, and results have loop dims alone."""
    if -1 in old.dims[-1]:
        return False
    named = [[dim_of(e) for e in m.results if dim in dims_of(e)] for m in old.maps[:-1]]
    return all(dims in ([], [dim]) for dims in named) and [dim] in named
