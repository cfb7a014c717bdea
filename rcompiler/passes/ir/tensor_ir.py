"""Builders of the S1 tensor ops that move data, for passes that change layouts.

Ops go to the current insertion point with the current location (``with ir.InsertionPoint(op),
op.location:``). All shapes are static.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from torch_mlir import ir
from torch_mlir.dialects import arith, linalg, tensor

from rcompiler.dialects.uses import captures
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.maps import dim_of
from rcompiler.linalg.values import defining, element_type, ops_of, shape_of
from rcompiler.linalg.views import RESHAPES
from rcompiler.support.shapes import reassociation


def type_like(value: ir.Value, shape: Sequence[int]) -> ir.RankedTensorType:
    """Tensor type of ``shape`` with the element type of ``value``."""
    return ir.RankedTensorType.get(shape, element_type(value))


def affine_map(dims: int, results: Sequence[ir.AffineExpr]) -> ir.AffineMap:
    """A map without symbols."""
    return ir.AffineMap.get(dims, 0, list(results))


def fused_map(
    map_: ir.AffineMap, groups: Sequence[Sequence[int]], loops: Sequence[Sequence[int]]
) -> ir.AffineMap:
    """The map over fused loops, with one result per group of dims."""
    number = {loop: new for new, chain in enumerate(loops) for loop in chain}
    dims = [ir.AffineExpr.get_dim(number[loop]) for loop in range(map_.n_dims)]
    renamed = [e.compose(affine_map(len(loops), dims)) for e in map_.results]
    return affine_map(len(loops), [renamed[group[0]] for group in groups])


def scalar_zero(element: ir.Type) -> ir.Value:
    """The constant 0 of an element type."""
    is_float = isinstance(element, ir.FloatType)
    zero = ir.FloatAttr.get(element, 0.0) if is_float else ir.IntegerAttr.get(element, 0)
    return arith.ConstantOp(element, zero).result


def empty(shape: Sequence[int], element: ir.Type) -> ir.Value:
    """``tensor.empty``."""
    return tensor.EmptyOp(list(shape), element).result


def empty_like(value: ir.Value) -> ir.Value:
    """``tensor.empty`` of the type of a tensor."""
    return empty(shape_of(value), element_type(value))


def is_one_number(op: ir.Operation) -> bool:
    """Whether an op is a scalar constant, or a tensor of one scalar."""
    if op.name != "arith.constant":
        return False
    value = op.attributes["value"]
    tensor = isinstance(op.results[0].type, ir.RankedTensorType)
    return not tensor or (isinstance(value, ir.DenseElementsAttr) and value.is_splat)


def fill(scalar: ir.Value, shape: Sequence[int]) -> ir.Value:
    """A tensor of one run-time or constant scalar."""
    return linalg.fill(scalar, outs=[empty(shape, scalar.type)])


def pad_high(value: ir.Value, high: Sequence[int]) -> ir.Value:
    """``value`` with ``high[i]`` zeros after dim i."""
    if not any(high):
        return value
    zero = scalar_zero(element_type(value))
    return padded(value, [0] * len(high), high, zero)


def padded(value: ir.Value, low: Sequence[int], high: Sequence[int], scalar: ir.Value) -> ir.Value:
    """``tensor.pad``: ``low[i]`` times the scalar before dim i, and ``high[i]`` times behind."""
    shape = [n + a + b for n, a, b in zip(shape_of(value), low, high, strict=True)]
    op = tensor.PadOp(type_like(value, shape), value, [], [], list(low), list(high))
    block = op.regions[0].blocks.append(*[ir.IndexType.get()] * len(shape))
    with ir.InsertionPoint(block):
        tensor.YieldOp(scalar)
    return op.result


def slice_low(value: ir.Value, sizes: Sequence[int]) -> ir.Value:
    """The leading ``sizes`` elements of every dim."""
    if tuple(sizes) == shape_of(value):
        return value
    return extract_slice(value, [0] * len(sizes), sizes, [1] * len(sizes))


def extract_slice(
    value: ir.Value, offsets: Sequence[int], sizes: Sequence[int], strides: Sequence[int]
) -> ir.Value:
    """``tensor.extract_slice`` without dropped dims."""
    kind = type_like(value, sizes)
    return tensor.ExtractSliceOp(
        kind, value, [], [], [], list(offsets), list(sizes), list(strides)
    ).result


def concat(values: Sequence[ir.Value], axis: int) -> ir.Value:
    """``tensor.concat``: of one element type, and of one size along all other axes."""
    shape = list(shape_of(values[0]))
    shape[axis] = sum(shape_of(value)[axis] for value in values)
    return tensor.concat(type_like(values[0], shape), axis, list(values))


def reshape(value: ir.Value, shape: Sequence[int]) -> ir.Value:
    """The same elements in row-major order (no data moves); reshapes of reshapes become one.

    What has no elements yet, a tensor.empty that only tells the sizes of loops, is made anew in the
    shape: a view of it would be one of memory that nothing has. Needs rank >= 1 on both sides and
    no empty dim.
    """
    shape = tuple(shape)
    if shape_of(value) == shape:  # also a scalar
        return value
    op = defining(value)
    while op is not None and op.name in RESHAPES and shape_of(op.operands[0]):
        value = op.operands[0]
        op = defining(value)
    if shape_of(value) == shape:
        return value
    if op is not None and op.name == "tensor.empty":
        return tensor.empty(shape, type_like(value, shape).element_type)
    groups = reassociation(shape_of(value), shape)
    middle = [math.prod(shape[j] for j in b) for _, b in groups]
    if len(middle) != len(shape_of(value)):
        kind = type_like(value, middle)
        value = tensor.CollapseShapeOp(kind, value, _index_lists([a for a, _ in groups])).result
    if shape_of(value) != shape:
        lists = _index_lists([b for _, b in groups])
        kind = type_like(value, shape)
        value = tensor.ExpandShapeOp(kind, value, lists, [], list(shape)).result
    return value


def _index_lists(lists: Sequence[Sequence[int]]) -> ir.ArrayAttr:
    i64 = ir.IntegerType.get_signless(64)
    return ir.ArrayAttr.get(
        [ir.ArrayAttr.get([ir.IntegerAttr.get(i64, i) for i in group]) for group in lists]
    )


def transpose(value: ir.Value, perm: Sequence[int]) -> ir.Value:
    """``out.shape[i] = value.shape[perm[i]]``: one copying generic, or a reshape if only unit
    dims change their place."""
    source = shape_of(value)
    shape = [source[p] for p in perm]
    moved = [p for p in perm if source[p] != 1]
    if moved == sorted(moved):
        return reshape(value, shape)
    rank = len(perm)
    read = [ir.AffineExpr.get_dim(list(perm).index(d)) for d in range(rank)]
    return copy(value, empty(shape, element_type(value)), affine_map(rank, read))


def copy(value: ir.Value, into: ir.Value, read: ir.AffineMap) -> ir.Value:
    """A generic that copies one element for each of its result, in order: that at `read`."""
    maps = [read, ir.AffineMap.get_identity(read.n_dims)]
    return generic([value], [into], maps, ["parallel"] * read.n_dims, lambda x, _: x).results[0]


def generic(
    inputs: Sequence[ir.Value],
    outs: Sequence[ir.Value],
    maps: Sequence[ir.AffineMap],
    kinds: Sequence[ir.Attribute | str],
    body: ir.Block | Callable[..., ir.Value] | None = None,
) -> ir.Operation:
    """A ``linalg.generic``.

    kinds: of the loops, "parallel", "reduction" or such attributes. body: a block that moves there,
    or what makes an element of the result from those of inputs and result; None: for the caller.
    """
    made = {kind: _kind(kind) for kind in set(kinds)}
    op = linalg.GenericOp(
        [v.type for v in outs],
        list(inputs),
        list(outs),
        ir.ArrayAttr.get([ir.AffineMapAttr.get(m) for m in maps]),
        ir.ArrayAttr.get([made[kind] for kind in kinds]),
    ).operation
    if isinstance(body, ir.Block):
        body.append_to(op.regions[0])
    elif body is not None:
        block = op.regions[0].blocks.append(*map(element_type, [*inputs, *outs]))
        with ir.InsertionPoint(block):
            linalg.YieldOp([body(*block.arguments)])
    return op


def _kind(kind: ir.Attribute | str) -> ir.Attribute:
    if isinstance(kind, ir.Attribute):
        return kind
    return ir.Attribute.parse(f"#linalg.iterator_type<{kind}>")


def elementwise(
    values: Sequence[ir.Value], element: ir.Type, compute: Callable[..., ir.Value]
) -> ir.Value:
    """``compute(*elements)``, of type ``element``, for each place in tensors of one shape."""
    shape = shape_of(values[0])
    maps = [ir.AffineMap.get_identity(len(shape))] * (len(values) + 1)
    kinds = ["parallel"] * len(shape)
    out = empty(shape, element)
    return generic(values, [out], maps, kinds, lambda *args: compute(*args[:-1])).results[0]


def split_axis(value: ir.Value, axis: int, size: int) -> ir.Value:
    """A tensor with a dim of blocks of `size` in the place of another, zero-padded, and the
    elements of each block in a dim behind it.
    """
    shape = shape_of(value)
    value = pad_high(value, [-n % size if i == axis else 0 for i, n in enumerate(shape)])
    return reshape(value, [*shape[:axis], -(-shape[axis] // size), size, *shape[axis + 1 :]])


def block_axes(value: ir.Value, axes: Sequence[int], lanes: int) -> ir.Value:
    """Split ``axes`` into blocks of ``lanes``, zero-padded; the lane dims go last in that order.

    [.., C, ..] with one axis becomes [.., ceil(C / lanes), .., lanes].
    """
    shape = shape_of(value)
    value = pad_high(value, [-d % lanes if i in axes else 0 for i, d in enumerate(shape)])
    expanded: list[int] = []
    outer: list[int] = []
    inner: dict[int, int] = {}
    for i, size in enumerate(shape_of(value)):
        outer.append(len(expanded))
        if i in axes:
            inner[i] = len(expanded) + 1
            expanded += [size // lanes, lanes]
        else:
            expanded.append(size)
    return transpose(reshape(value, expanded), outer + [inner[a] for a in axes])


def erase_with_views(op: ir.Operation) -> None:
    """Erase an op that nothing uses, and the reshapes that only it read."""
    pending = [op]
    while pending:
        op = pending.pop()
        read = [defining(value) for value in dict.fromkeys((*op.operands, *captures(op)))]
        op.erase()
        # One that another of them reads has a use yet: it follows when that one is erased.
        pending += [
            view
            for view in read
            if view is not None and view.name in RESHAPES and not list(view.results[0].uses)
        ]


def erase_dead(block: ir.Block) -> None:
    """Erase the ops without a used result; every op of S1 but the terminator is pure."""
    for op in reversed(ops_of(block)):
        results = list(op.results)
        if results and not any(list(r.uses) for r in results):
            op.erase()


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
