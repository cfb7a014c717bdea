"""Insertions of tiles that are made together, and what of them and of their kernel says how."""

from __future__ import annotations

from torch_mlir import ir

from rcompiler.linalg.roots import ops_below
from rcompiler.passes.tiles.sources import Sources


def forget_order(op: ir.Operation) -> None:
    if "order" in op.attributes:
        del op.attributes["order"]


def together(sources: Sources, ops: list[ir.Operation]) -> list[list[ir.Operation]]:
    """The insertions in groups: those of several results in the same box of each are made in the
    same loops.
    """
    groups: list[list[ir.Operation]] = []
    for op in ops:
        first = groups[-1][0] if groups else None
        if first is not None and op.block == first.block and _other_result(op, groups[-1]):
            if sources.box_of(op) == sources.box_of(first):
                groups[-1].append(op)
                continue
        groups.append([op])
    return groups


def _other_result(op: ir.Operation, before: list[ir.Operation]) -> bool:
    """Whether an insertion is into another tensor than those before."""
    return all(op.operands[1] != other.result for other in before)


def reduces(sources: Sources, value: ir.Value) -> bool:
    """Whether an op below a tile reduces, behind the stages in front of it."""
    return any(
        op.name == "linalg.generic" and sources.of(op).accumulates for op in ops_below(value)
    )
