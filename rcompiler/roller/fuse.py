"""Axis fusion (Roller §3.2): merge neighbouring axes that always travel together.

[17, 11, 3] read and written elementwise is [561]: one long axis has room for every aligned
tile, three short ones have not.
"""

from dataclasses import replace

from rcompiler.roller.expr import Access, TensorExpr, tensor_expr
from rcompiler.roller.index import Index


def fuse_axes(expr: TensorExpr) -> tuple[TensorExpr, tuple[tuple[int, ...], ...]]:
    """The expression over merged axes, and for each new axis the old ones it stands for.

    Axes i and i+1 of one kind merge when every access either names neither of them, or walks
    them like one axis: `n*i + j` in one dimension, or i and j alone in two neighbouring
    dimensions of which the second is n long (n = size of axis i+1). Such dimensions merge too.
    """
    groups: tuple[tuple[int, ...], ...] = tuple((i,) for i in range(len(expr.axes)))
    first = 0
    while first + 1 < len(expr.axes):
        merged = _merge(expr, first)
        if merged is None:
            first += 1
        else:
            expr = merged
            joined = groups[first] + groups[first + 1]
            groups = (*groups[:first], joined, *groups[first + 2 :])
    return expr, groups


def _merge(expr: TensorExpr, first: int) -> TensorExpr | None:
    a, b = expr.axes[first], expr.axes[first + 1]
    if a.kind != b.kind:
        return None
    rename = {old: (old - (old > first), 1) for old in range(len(expr.axes))}
    accesses = [_merge_access(access, first, b.size, rename) for access in expr.accesses]
    if any(access is None for access in accesses):
        return None
    done = [access for access in accesses if access is not None]
    axes = [(axis.name, axis.size, axis.kind) for axis in expr.axes]
    axes[first : first + 2] = [(f"{a.name}_{b.name}", a.size * b.size, a.kind)]
    return tensor_expr(
        axes,
        done[: len(expr.inputs)],
        done[len(expr.inputs) :],
        kind=expr.kind,
        ops=expr.ops,
        epilogue_ops=expr.epilogue_ops,
        compute_bytes=expr.compute_bytes,
        dot=expr.dot,
    )


def _merge_access(
    access: Access, first: int, size: int, rename: dict[int, tuple[int, int]]
) -> Access | None:
    """The access over the merged axes, or None when the two do not travel together."""
    pair = {first, first + 1}
    if access.dims is None:
        return None
    if None in access.dims:
        return None
    holders = [d for d, dim in enumerate(access.dims) if dim is not None and dim.axes() & pair]
    dims = list(access.dims)
    shape = list(access.shape)
    if len(holders) == 2:
        d, e = holders
        alone = dims[d] == Index(((1, first),)) and dims[e] == Index(((1, first + 1),))
        if e != d + 1 or not alone or shape[e] != size:
            return None
        dims[d : e + 1] = [Index(((size, first), (1, first + 1)))]
        shape[d : e + 1] = [shape[d] * shape[e]]
        holders = [d]
    if len(holders) > 1:
        return None
    if holders:
        holder = dims[holders[0]]
        merged = None if holder is None else _merge_index(holder, first, size)
        if merged is None:
            return None
        dims[holders[0]] = merged
    renamed = tuple(dim and dim.rename(rename) for dim in dims)
    return replace(access, shape=tuple(shape), dims=renamed)


def _merge_index(dim: Index, first: int, size: int) -> Index | None:
    """`n*c*i + c*j` as `c*i`; None for anything else that names i or j."""
    pair = {first, first + 1}
    c = dim.coefficient(first + 1)
    rest = tuple(t for t in dim.terms if not (isinstance(t[1], int) and t[1] in pair))
    named_elsewhere = Index(rest).axes() & pair
    if named_elsewhere or not c or dim.coefficient(first) != size * c:
        return None
    return Index(((c, first), *rest), dim.constant)
