"""Ops on tensors some of whose dims are split in parts, which are dims of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch_mlir import ir

from rcompiler.kernelgen.region import Generic, shape_of
from rcompiler.passes.ir.linalg_form import dim_of, operations
from rcompiler.passes.ir.tensor_ir import affine_map, empty, generic, reshape


def groups_of(reassociated: ir.Operation) -> list[list[int]]:
    """Per dim of the narrower side of an expand_shape or collapse_shape those of the wider one."""
    lists = ir.ArrayAttr(reassociated.attributes["reassociation"])
    return [[ir.IntegerAttr(i).value for i in ir.ArrayAttr(group)] for group in lists]


def is_elementwise(old: Generic) -> bool:
    """One result, which every loop dim indexes in order; the body asks for no index."""
    identity = ir.AffineMap.get_identity(old.maps[-1].n_dims)
    return (
        old.outputs == 1
        and old.maps[-1] == identity
        and not old.init_used[0]
        and not any(o.name in ("linalg.index", "tensor.extract") for o in operations(old.op))
    )


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
        values[-1] = empty(wide, ir.RankedTensorType(old.inits[0].type).element_type)
        parallel = ir.Attribute.parse("#linalg.iterator_type<parallel>")
        new = generic(values[:-1], values[-1:], maps, [parallel] * len(wide))
    old.block.append_to(new.regions[0])
    return new.results[0]


def _viewed(value: ir.Value, shape: Sequence[int]) -> ir.Value:
    return reshape(value, shape) if shape_of(value) else value
