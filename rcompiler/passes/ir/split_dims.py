"""Ops on tensors some of whose dims are split in parts, which are dims of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch_mlir import ir

from rcompiler.linalg.generic import Generic
from rcompiler.linalg.maps import dim_of
from rcompiler.linalg.values import element_type, shape_of
from rcompiler.passes.ir.tensor_ir import affine_map, empty, generic, reshape


def split_elementwise(
    old: Generic,
    wide: Sequence[int],
    groups: Sequence[Sequence[int]],
    known: Mapping[ir.Value, ir.Value] | None = None,
) -> ir.Value:
    """An elementwise op, its operands indexed by loop dims alone, on dims of the sizes `wide`; its
    body moves. groups: per dim of the old op those that it becomes; known: operands that are there
    in the new shape already.
    """
    with ir.InsertionPoint(old.op), old.op.location:
        values, maps = [], []
        for value, map_ in zip(old.op.operands, old.maps, strict=True):
            dims = [d for e in map_.results for d in groups[dim_of(e)]]
            values.append((known or {}).get(value) or _viewed(value, [wide[d] for d in dims]))
            maps.append(affine_map(len(wide), [ir.AffineExpr.get_dim(d) for d in dims]))
        values[-1] = empty(wide, element_type(old.inits[0]))
        kinds = ["parallel"] * len(wide)
        return generic(values[:-1], values[-1:], maps, kinds, old.block).results[0]


def _viewed(value: ir.Value, shape: Sequence[int]) -> ir.Value:
    return reshape(value, shape) if shape_of(value) else value
